-- Who holds it, for how long, in one look. KEYS: lock. Token or nil, and PTTL: -2 no key, -1 no expiry.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and holder.err then
  if string.sub(holder.err, 1, 9) ~= 'WRONGTYPE' then
    return holder
  end
  holder = '(not a string)'
end
return {holder, redis.call('PTTL', KEYS[1])}
