-- Extends several locks at once. KEYS: locks. ARGV: token and ttl in ms of each.
-- Answers one character per lock. 1: the key has at least its ttl now, 0: another token, or no key.
local call = redis.call
local answers = {}
for i, holder in ipairs(call('MGET', unpack(KEYS))) do -- false: no key, or not a string
  local token, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  if holder == token then
    local left = call('PTTL', KEYS[i])
    if left >= 0 and left < ttl then -- -1: an adopted foreign lock that never expires
      call('PEXPIRE', KEYS[i], ttl)
    end
    answers[i] = '1'
  else
    answers[i] = '0'
  end
end
return table.concat(answers)
