-- Extends a lock. KEYS: lock. ARGV: token, ttl in ms.
-- Answers RL_KEY_DONE: the key has at least this ttl now; RL_KEY_NOT_OURS: another token, or no key.
local call = redis.call
-- include prolong
return prolong(KEYS[1], call('GET', KEYS[1]), ARGV[1], ARGV[2]) and RL_KEY_DONE or RL_KEY_NOT_OURS
