-- Compare and delete: only the holder's own token unlocks. KEYS: lock. ARGV: token[, waiter to sign out].
-- 1: deleted, 2: deleted but the user may not tell who waits, 0: not ours.
-- When the lock is then free, the first waiter that lives is told, on the channel that is its name; and the second, to stand in for it, unless
-- the first has been heard of just now: waking it is most of what a hand-over costs. The names of the helper keys are made here, and not before
-- they are needed: a release that nobody waits for is most of what a node does.
local call = redis.call
local deleted = 0
if call('GET', KEYS[1]) == ARGV[1] then
  deleted = call('DEL', KEYS[1])
elseif not ARGV[2] then
  return 0
end
local queue = KEYS[1] .. ':redlock:queue'
if redis.pcall('EXISTS', queue) == 0 then
  if ARGV[2] then
    call('DEL', KEYS[1] .. ':redlock:alive')
  end
  return deleted
end
local function tell()
  local alive = KEYS[1] .. ':redlock:alive'
  if ARGV[2] then
    call('ZREM', queue, ARGV[2])
    call('HDEL', alive, ARGV[2])
  end
  local first = call('ZRANGE', queue, 0, 7)
  if #first == 0 then
    call('DEL', alive) -- nobody waits: nothing to remember
  end
  if #first == 0 or call('EXISTS', KEYS[1]) == 1 then
    return deleted
  end
  local clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local told = 0
  for _, waiter in ipairs(first) do
    local ends = tonumber(call('HGET', alive, waiter) or 0)
    if ends < now then
      call('ZREM', queue, waiter)
      call('HDEL', alive, waiter)
    elseif told < 2 then
      local published = redis.pcall('PUBLISH', waiter, told .. KEYS[1])
      if type(published) == 'table' and published.err and deleted == 1 then
        deleted = 2
      end
      told = told + 1
      if ends > now + 2800 then -- a waiter's life is 3000 (RL_WAITER_LIFE_MS): it was refreshed less than 200 ms ago
        break
      end
    end
  end
  if told > 0 then
    call('HSETNX', alive, ' free', now)
  end
  return deleted
end
-- Whether they can be told is no part of the release: a user without rights to the queue releases all the same.
local could, answer = pcall(tell)
return could and answer or 2 * deleted
