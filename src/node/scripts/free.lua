-- Compare and delete, for a lock with several keys, a fencing token, readers or permits.
-- KEYS: locks. ARGV: token, fencing token (0: none), life of its record in ms (0: forever), mode (exclusive or shared),
-- waiter to dequeue ('': none), the semaphore whose slot the lock is ('': none), rest: for how many ms the lock is kept
-- instead of being deleted (0: it is deleted).
-- Answers as release.lua does; RL_KEY_NOT_OURS also when one of the keys had another token.
local token, fence, fence_life, mode, waiter, semaphore, rest = unpack(ARGV)
local call = redis.call
local mine, queues, ours, base = {}, {}, {}, semaphore ~= '' and semaphore or nil
rest = tonumber(rest)
if mode == 'shared' then
  -- include shared
  for _, key in ipairs(KEYS) do
    if leave(key, token, rest) then
      mine[#mine + 1] = key
    end
  end
else
  for i, holder in ipairs(call('MGET', unpack(KEYS))) do
    if holder == token then
      mine[#mine + 1] = KEYS[i]
    end
  end
  if #mine > 0 and rest == 0 then
    call('DEL', unpack(mine))
  end
  for _, key in ipairs(rest > 0 and mine or {}) do
    call('PEXPIRE', key, rest)
  end
end
-- The keys are deleted, or kept, before the record is raised: a full node accepts writes only in this order.
if fence ~= '0' then
  -- include fence
  raise(KEYS, fence, fence_life)
end
for i, key in ipairs(mine) do
  ours[key] = true
  queues[i] = (base or key) .. RL_QUEUE_SUFFIX
end
local deleted = #mine == #KEYS and RL_KEY_DONE or RL_KEY_NOT_OURS
local out = waiter ~= '' and waiter
if not out and (#mine == 0 or redis.pcall('EXISTS', unpack(queues)) == 0) then
  return deleted
end
-- include wake
for _, key in ipairs(out and KEYS or mine) do
  local announced = try_to_wake(key, out, rest == 0 and ours[key], nil, base)
  if rest > 0 and ours[key] then
    announced = announce(key, base)
  end
  if deleted == RL_KEY_DONE and not announced then
    deleted = RL_KEY_UNANNOUNCED
  end
end
return deleted
