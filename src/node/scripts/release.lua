-- Compare and delete: only the holder's own token unlocks.
-- KEYS: lock. ARGV: token[, waiter to dequeue ('': none)[, 'undo' or ''[, 'stays']]].
-- The release of a lock that was held hands it over to the first waiter. With a second argument it does so even where
-- the holder had no key, if the lock is free: otherwise this node would stay out of all hand-overs that follow. An undo
-- does not: the few nodes that granted a failed attempt must not be passed from waiter to waiter. A waiter that stays is
-- not dequeued, because another acquire of its client uses the entry; but its offer of this token ends: this node, which
-- has not handed the lock over yet, would give it to the released token.
-- Answers RL_KEY_DONE; RL_KEY_UNANNOUNCED: done, but the user may not notify the waiters; RL_KEY_NOT_OURS: another
-- token, or no key.
-- Most releases have no waiter, so they cost no more calls than compare and delete: while clients wait there is a key
-- ':redlock:free', which is deleted along with the lock. If two keys were deleted, the waiters are notified, and the key
-- is set again with the time since which the lock is free.
local call = redis.call
local holder, deleted = redis.pcall('GET', KEYS[1]), nil
if holder == ARGV[1] then
  deleted = redis.pcall('DEL', KEYS[1], KEYS[1] .. RL_FREE_SUFFIX)
  if deleted == 1 and not ARGV[2] then
    return RL_KEY_DONE -- most releases end here
  end
end
local token, waiter, undo = ARGV[1], ARGV[2] ~= '' and ARGV[2] or nil, ARGV[3] == 'undo'
if waiter and ARGV[4] then
  local alive, field = KEYS[1] .. RL_ALIVE_SUFFIX, waiter .. ' offer'
  local offer = redis.pcall('HGET', alive, field)
  if type(offer) == 'string' and string.sub(offer, 1, #token) == token then
    redis.pcall('HDEL', alive, field)
  end
  waiter = nil
end
if type(holder) == 'table' and not waiter then
  return holder -- readers, or a key that is not a lock; their waiters are dequeued all the same
end
if type(deleted) == 'table' then -- a user without rights to the other keys
  call('DEL', KEYS[1])
  return RL_KEY_UNANNOUNCED
end
if deleted == 1 and not waiter then
  return RL_KEY_DONE
end
if not deleted and not waiter and (undo or not ARGV[2]) then
  return RL_KEY_NOT_OURS
end
-- include handing
-- include wake
-- A user without rights to the queue releases the lock all the same.
local ran, published = pcall(wake, KEYS[1], waiter, deleted, nil, nil, not undo and give)
if not deleted then
  return RL_KEY_NOT_OURS
end
return ran and published and RL_KEY_DONE or RL_KEY_UNANNOUNCED
