-- Extends a lock. Never shortens it: when a reply is lost, the key must live at least as long as the holder relies on.
-- KEYS: lock. ARGV: token, ttl in ms.
-- Answers RL_KEY_DONE: the key has at least this ttl now; RL_KEY_NOT_OURS: another token, or no key.
local token, ttl = ARGV[1], tonumber(ARGV[2])
if redis.call('GET', KEYS[1]) ~= token then
  return RL_KEY_NOT_OURS
end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 and left < ttl then -- -1: a foreign lock that never expires
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return RL_KEY_DONE
