-- Grants a lock on all its keys, or on none.
-- KEYS: locks, or a semaphore; then the free, queue, alive and fence key of each, and the slots of a semaphore, which are
-- the locks. ARGV: token, ttl in ms, proposed fencing token (0: none), life
-- of its record in ms (0: forever), mode (exclusive or shared); for a semaphore the number of its slots (otherwise 0)
-- and the slots to take. waits: 1: the acquire has time to wait, and leaves a free lock to those that wait already; their
-- queue has a key ':redlock:free'.
-- Answers the largest fencing record from before; the token of the client that holds it; or -1: held by another client,
-- minus one bit for each free slot.
local token, ttl, fence, fence_life, mode, slots, wanted, waits = unpack(ARGV)
local call = redis.call
slots = tonumber(slots)
if slots > 0 then
  -- include slots
  if waits == '1' and call('EXISTS', KEYS[2]) == 1 then
    return -1
  end
  if call('EXISTS', unpack(chosen)) > 0 then
    return -1 - free_slots()
  end
  for _, key in ipairs(chosen) do
    call('SET', key, token, 'PX', ttl)
  end
  return 0
end
local count = #KEYS / 5
local records = {unpack(KEYS, 4 * count + 1)}
local function held()
  for _, holder in ipairs(redis.pcall('MGET', unpack(KEYS, 1, count))) do
    if holder then
      return string.sub(holder, 1, RL_TOKEN_SHOWN)
    end
  end
  return -1
end
if mode == 'shared' then
  -- include fence
  -- include shared
  for i = 1, count do
    local queue, alive = KEYS[2 * count + i], KEYS[3 * count + i]
    local is_free = waits == '1' and call('EXISTS', KEYS[i]) == 0
    if not is_open(KEYS[i]) or is_held_off(queue, alive, '+inf', is_free) then
      return held()
    end
  end
  for i = 1, count do
    enter(KEYS[i], token, ttl)
  end
  return largest(records)
end
if call('EXISTS', unpack(KEYS, 1, waits == '1' and 2 * count or count)) > 0 then
  return held()
end
-- include fence
local refusal = fence ~= '0' and objection(records, fence)
if refusal then
  return redis.error_reply(refusal)
end
for i = 1, count do
  call('SET', KEYS[i], token, 'PX', ttl)
end
return fence ~= '0' and raise(records, fence, fence_life) or 0
