-- Sets locks that a majority has confirmed on a node that lacks them; other nodes' keys may have expired meanwhile.
-- KEYS: locks. ARGV: token and ttl in ms of each. Answers one character per lock. 1: the key has the token, 0: another
-- holder's key is there, or the node is full.
local call = redis.call
-- include prolong
local answers = {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  -- A full node sets nothing, but may have the key already. GET would fail on a key of another type.
  local mine = type(set) == 'table' and set.ok or prolong(key, call('MGET', key)[1], token, ttl)
  answers[i] = mine and '1' or '0'
end
return table.concat(answers)
