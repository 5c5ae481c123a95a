-- Extend, for several locks at once. KEYS: locks. ARGV: token and ttl in ms of each.
-- Answers one character a lock: 1 has at least its ttl now, 0 not ours.
local call = redis.call
local answers = {}
for i, holder in ipairs(call('MGET', unpack(KEYS))) do -- false where there is none, or something that is not a lock
  if holder == ARGV[2 * i - 1] then
    local left = call('PTTL', KEYS[i])
    if left >= 0 and left < tonumber(ARGV[2 * i]) then -- -1: a foreign lock that was adopted and never expires
      call('PEXPIRE', KEYS[i], ARGV[2 * i])
    end
    answers[i] = '1'
  else
    answers[i] = '0'
  end
end
return table.concat(answers)
