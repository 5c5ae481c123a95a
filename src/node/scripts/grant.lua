-- Grants a lock on all its keys, or on none.
-- KEYS: locks; or a semaphore, whose slots are the locks. ARGV: token, ttl in ms, proposed fencing token (0: none), life
-- of its record in ms (0: forever), mode (exclusive or shared); for a semaphore the number of its slots (otherwise 0)
-- and the slot to take. waits: 1: the acquire has time to wait, and leaves a free lock to those that wait already; their
-- queue has a key ':redlock:free'.
-- Answers the largest fencing record from before; the token of the client that holds it; or -1: held by another client,
-- minus one bit for each free slot.
local token, ttl, fence, fence_life, mode, slots, wanted, waits = unpack(ARGV)
local call = redis.call
if slots ~= '0' then
  -- include slots
  if waits == '1' and call('EXISTS', KEYS[1] .. RL_FREE_SUFFIX) == 1 then
    return -1
  end
  if call('EXISTS', slot(KEYS[1], wanted)) == 1 then
    return -1 - free_slots(KEYS[1], tonumber(slots))
  end
  call('SET', slot(KEYS[1], wanted), token, 'PX', ttl)
  return 0
end
local function held()
  for _, holder in ipairs(redis.pcall('MGET', unpack(KEYS))) do
    if holder then
      return string.sub(holder, 1, RL_TOKEN_SHOWN)
    end
  end
  return -1
end
if mode == 'shared' then
  -- include fence
  -- include shared
  for _, key in ipairs(KEYS) do
    if not is_open(key) or is_held_off(key, '+inf', waits == '1' and call('EXISTS', key) == 0) then
      return held()
    end
  end
  for _, key in ipairs(KEYS) do
    enter(key, token, ttl)
  end
  return largest(KEYS)
end
local names = {unpack(KEYS)}
for i, key in ipairs(waits == '1' and KEYS or {}) do
  names[#KEYS + i] = key .. RL_FREE_SUFFIX
end
if call('EXISTS', unpack(names)) > 0 then
  return held()
end
-- include fence
local refusal = fence ~= '0' and objection(KEYS, fence)
if refusal then
  return redis.error_reply(refusal)
end
for _, key in ipairs(KEYS) do
  call('SET', key, token, 'PX', ttl)
end
return fence ~= '0' and raise(KEYS, fence, fence_life) or 0
