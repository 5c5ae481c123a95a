-- Compare and delete: only the holder's own token unlocks. KEYS: lock. ARGV: token[, waiter to sign out].
-- 1: deleted, 2: deleted but the user may not tell who waits, 0: not ours.
-- What follows the first lines is not needed, and not even made, in a release that nobody waits for, which is most of what a node does.
local call = redis.call
local deleted = 0
if call('GET', KEYS[1]) == ARGV[1] then
  deleted = call('DEL', KEYS[1])
elseif not ARGV[2] then
  return 0
end
if not ARGV[2] and redis.pcall('EXISTS', KEYS[1] .. ':redlock:queue') == 0 then
  return deleted
end
-- include wake
-- Whether they can be told is no part of the release: a user without rights to the queue releases all the same.
local could, told = pcall(wake, KEYS[1], ARGV[2])
return could and told and deleted or 2 * deleted
