-- Extends several locks at once. KEYS: locks. ARGV: token and ttl in ms of each.
-- Answers one character per lock. 1: the key has at least its ttl now, 0: another token, or no key.
local call = redis.call
-- include prolong
local answers = {}
for i, holder in ipairs(call('MGET', unpack(KEYS))) do -- false: no key, or not a string
  answers[i] = prolong(KEYS[i], holder, ARGV[2 * i - 1], ARGV[2 * i]) and '1' or '0'
end
return table.concat(answers)
