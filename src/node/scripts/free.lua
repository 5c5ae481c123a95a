-- Compare and delete, for a lock with several keys, a fencing token, readers or permits.
-- KEYS: locks; then the free, queue, alive and fence key of each; of a slot they are the semaphore's. ARGV: token, fencing token (0: none), life of its record in ms (0: forever), mode (exclusive or shared),
-- waiter to dequeue ('': none), rest: for how many ms the lock is kept
-- instead of being deleted (0: it is deleted).
-- Answers as release.lua does; RL_KEY_NOT_OURS also when one of the keys had another token.
local token, fence, fence_life, mode, waiter, rest = unpack(ARGV)
local call = redis.call
local count, mine, ours, queues = #KEYS / 5, {}, {}, {}
rest = tonumber(rest)
if mode == 'shared' then
  -- include shared
  for i = 1, count do
    ours[i] = leave(KEYS[i], token, rest)
    mine[#mine + 1] = ours[i] and KEYS[i] or nil
  end
else
  for i, holder in ipairs(call('MGET', unpack(KEYS, 1, count))) do
    ours[i] = holder == token
    mine[#mine + 1] = ours[i] and KEYS[i] or nil
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
  raise({unpack(KEYS, 4 * count + 1)}, fence, fence_life)
end
for i = 1, count do
  queues[#queues + 1] = ours[i] and KEYS[2 * count + i] or nil
end
local deleted = #mine == count and RL_KEY_DONE or RL_KEY_NOT_OURS
local out = waiter ~= '' and waiter
if not out and (#mine == 0 or redis.pcall('EXISTS', unpack(queues)) == 0) then
  return deleted
end
-- include wake
for i = 1, count do
  local at = {lock = KEYS[i], free = KEYS[count + i], queue = KEYS[2 * count + i], alive = KEYS[3 * count + i]}
  local announced = not (out or ours[i]) or try_to_wake(at, out, rest == 0 and ours[i])
  if rest > 0 and ours[i] then
    announced = announce(at)
  end
  if deleted == RL_KEY_DONE and not announced then
    deleted = RL_KEY_UNANNOUNCED
  end
end
return deleted
