-- Compare and delete: only the holder's own token unlocks. KEYS: lock, queue, alive.
-- ARGV: token, channel prefix, waiter to sign out or '', a waiter's life in ms.
-- When the lock is then free, the first waiter that lives is told; and the second, to stand in for it, unless the first has been heard of just
-- now: waking it is most of what a hand-over costs. 1: deleted, 2: deleted but the user may not publish, 0: not ours.
local deleted = 0
if redis.call('GET', KEYS[1]) == ARGV[1] then
  deleted = redis.call('DEL', KEYS[1])
end
if not KEYS[2] then
  return deleted
end
if ARGV[3] ~= '' then
  redis.call('ZREM', KEYS[2], ARGV[3])
  redis.call('HDEL', KEYS[3], ARGV[3])
end
local first = redis.call('ZRANGE', KEYS[2], 0, 7)
if #first == 0 and ARGV[3] ~= '' then
  redis.call('DEL', KEYS[3]) -- nobody waits: nothing to remember
end
if #first == 0 or redis.call('EXISTS', KEYS[1]) == 1 then
  return deleted
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = 0
for _, waiter in ipairs(first) do
  local ends = tonumber(redis.call('HGET', KEYS[3], waiter) or 0)
  if ends < now then
    redis.call('ZREM', KEYS[2], waiter)
    redis.call('HDEL', KEYS[3], waiter)
  elseif told < 2 then
    local published = redis.pcall('PUBLISH', ARGV[2] .. waiter, told .. KEYS[1])
    if type(published) == 'table' and published.err and deleted == 1 then
      deleted = 2
    end
    told = told + 1
    if ends > now + tonumber(ARGV[4]) - 200 then
      break
    end
  end
end
if told > 0 then
  redis.call('HSETNX', KEYS[3], ' free', now)
end
return deleted
