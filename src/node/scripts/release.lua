-- Compare and delete: only the holder's own token unlocks. KEYS: lock. ARGV: token[, waiter to dequeue].
-- Answers 1: deleted, 2: deleted, but the user may not notify the waiters, 0: another token, or no key.
-- Most releases have no waiter, so they cost no more calls than compare and delete: while clients wait there is a key
-- ':redlock:free', which is deleted along with the lock. If two keys were deleted, the waiters are notified, and the key
-- is set again with the time since which the lock is free.
local token, waiter = ARGV[1], ARGV[2]
local call = redis.call
local deleted = 0
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and not waiter then
  return holder -- readers, or a key that is not a lock; their waiters are dequeued all the same
end
if holder == token then
  deleted = redis.pcall('DEL', KEYS[1], KEYS[1] .. ':redlock:free')
  if type(deleted) == 'table' then -- a user without rights to the other keys
    return 2 * call('DEL', KEYS[1])
  end
  if deleted == 1 and not waiter then
    return 1
  end
  deleted = 1
elseif not waiter then
  return 0
end
-- include wake
-- A user without rights to the queue releases the lock all the same.
local could, told = pcall(wake, KEYS[1], waiter, deleted == 1)
return could and told and deleted or 2 * deleted
