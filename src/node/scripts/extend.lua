-- Never shortens: an answer that was lost must not leave the key a shorter life than its holder counts on.
-- KEYS: lock. ARGV: token, ttl in ms. 1: has at least ttl now, 0: not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 and left < tonumber(ARGV[2]) then -- -1: a foreign lock that never expires
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
