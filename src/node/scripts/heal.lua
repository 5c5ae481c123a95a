-- Sets locks that a majority has confirmed on a node that lacks them; other nodes' keys may have expired meanwhile.
-- KEYS: locks. ARGV: token and ttl in ms of each. Answers one character per lock. 1: the key has the token, 0: another
-- holder's key is there, or the node is full.
local call = redis.call
local answers = {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  set = type(set) == 'table' and set.ok -- a full node sets nothing, but may have the key already
  local mine = set or call('MGET', key)[1] == token -- GET would fail on a key of another type
  local left = mine and not set and call('PTTL', key)
  if left and left >= 0 and left < tonumber(ttl) then -- -1: a foreign lock that never expires
    call('PEXPIRE', key, ttl)
  end
  answers[i] = mine and '1' or '0'
end
return table.concat(answers)
