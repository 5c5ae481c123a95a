-- Extend, for several locks at once. KEYS: locks. ARGV: token and ttl in ms of each.
-- Answers one character a lock: 1 has at least its ttl now, 0 not ours.
local answers = {}
for i, key in ipairs(KEYS) do
  local holder = redis.pcall('GET', key)
  if type(holder) == 'table' and holder.err and string.sub(holder.err, 1, 9) ~= 'WRONGTYPE' then
    return holder
  end
  if holder == ARGV[2 * i - 1] then
    if redis.call('PTTL', key) < tonumber(ARGV[2 * i]) then
      redis.call('PEXPIRE', key, ARGV[2 * i])
    end
    answers[i] = '1'
  else
    answers[i] = '0'
  end
end
return table.concat(answers)
