-- Compare and delete: only the holder's own token unlocks. KEYS: lock. ARGV: token[, waiter to sign out].
-- 1: deleted, 2: deleted but the user may not tell who waits, 0: not ours.
-- A release that nobody waits for is most of what a node does, so it costs no call more than compare and delete: where
-- somebody waits there is a key ':redlock:free', and it is deleted along. Two were deleted: look who waits, and put it
-- back, with the time since when the lock is free.
local call = redis.call
local deleted = 0
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and not ARGV[2] then
  return holder -- readers, or something that is no lock; but who waits for them signs out all the same
end
if holder == ARGV[1] then
  deleted = redis.pcall('DEL', KEYS[1], KEYS[1] .. ':redlock:free')
  if type(deleted) == 'table' then -- a user without rights to the other keys
    return 2 * call('DEL', KEYS[1])
  end
  if deleted == 1 and not ARGV[2] then
    return 1
  end
  deleted = 1
elseif not ARGV[2] then
  return 0
end
-- include wake
-- Whether they can be told is no part of the release: a user without rights to the queue releases all the same.
local could, told = pcall(wake, KEYS[1], ARGV[2], deleted == 1)
return could and told and deleted or 2 * deleted
