-- Sets locks that a quorum has confirmed on a node that does not have them, or may have got them meanwhile.
-- KEYS: locks. ARGV: token and ttl in ms of each. Answers one character a lock: 1 has it, 0 another holder's key is there.
local call = redis.call
local answers = {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  set = type(set) == 'table' and set.ok -- a full node sets nothing, and may have it all the same
  local mine = set or call('MGET', key)[1] == token -- GET would fail where something that is not a lock is there
  if mine and not set and call('PTTL', key) < tonumber(ttl) then
    call('PEXPIRE', key, ttl)
  end
  answers[i] = mine and '1' or '0'
end
return table.concat(answers)
