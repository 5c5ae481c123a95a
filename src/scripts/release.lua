-- Compare and delete: only the holder's own token unlocks. KEYS: lock. ARGV: token. 1: deleted, 0: not ours.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
