-- Sets locks that a quorum has confirmed on a node that does not have them.
-- KEYS: locks. ARGV: token and ttl in ms of each. Answers one character a lock: 1 set, 0 another holder's key is there.
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = redis.call('SET', key, ARGV[2 * i - 1], 'NX', 'PX', ARGV[2 * i]) and '1' or '0'
end
return table.concat(answers)
