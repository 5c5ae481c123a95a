-- Sign in as a waiter, or refresh that; take the lock if that is asked, it is free, and fewer than `width` live waiters are ahead.
-- KEYS: lock, queue, alive. ARGV: waiter, ticket, life in ms, width, take (1; 0; 2: or go, without signing in), token, ttl in ms.
-- Answers {taken, remaining ms of the lock (0: free, -1: no expiry), live waiters ahead up to width, largest ticket before ours}.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ticket, life, width = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local remaining = redis.call('PTTL', KEYS[1])
remaining = remaining == -2 and 0 or remaining == -1 and -1 or remaining + 1
-- A first waiter that leaves a free lock for a whole second goes to the end.
local free_since = tonumber(redis.call('HGET', KEYS[3], ' free') or 0)
if remaining == 0 and free_since > 0 and now - free_since > 1000 then
  local head = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
  if head and head ~= ARGV[1] then
    redis.call('ZADD', KEYS[2], tonumber(tail) + 1, head)
  end
  redis.call('HSET', KEYS[3], ' free', now)
end
local mine = redis.call('ZSCORE', KEYS[2], ARGV[1])
local ahead = 0
for _, waiter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. (mine or ARGV[2]), 'LIMIT', 0, 8)) do
  if waiter ~= ARGV[1] then
    if tonumber(redis.call('HGET', KEYS[3], waiter) or 0) >= now then
      ahead = ahead + 1
    else
      redis.call('ZREM', KEYS[2], waiter)
      redis.call('HDEL', KEYS[3], waiter)
    end
  end
  if ahead >= width then
    break
  end
end
if ARGV[5] == '2' and (remaining ~= 0 or ahead >= width) then
  return {0, remaining, ahead, 0}
end
if ARGV[5] ~= '0' and remaining == 0 and ahead < width then
  redis.call('SET', KEYS[1], ARGV[6], 'NX', 'PX', ARGV[7])
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[1], ' free')
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3]) -- nobody waits: nothing to remember
  end
  return {1, tonumber(ARGV[7]), ahead, 0}
end
local seen = tonumber(redis.call('HGET', KEYS[3], ' seen') or 0)
if not mine or tonumber(mine) < ticket then
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
end
redis.call('HSET', KEYS[3], ARGV[1], now + life)
if seen < ticket then
  redis.call('HSET', KEYS[3], ' seen', ARGV[2])
end
redis.call('PEXPIRE', KEYS[2], 4 * life)
redis.call('PEXPIRE', KEYS[3], 4 * life)
return {0, remaining, ahead, mine and 0 or seen}
