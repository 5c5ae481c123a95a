-- Compare and delete: only the holder's own token unlocks.
-- KEYS: lock, free, queue, alive[, marker]; or only the lock: the user may use no other. ARGV: token[, waiter to dequeue ('': none)[, 'undo', '' or rest[, 'stays']]].
-- rest: the lock is kept for this many ms, instead of being deleted and handed over.
-- The release of a lock that was held hands it over to the first waiter. With a second argument it does so even where
-- the holder had no key, if the lock is free: otherwise this node would stay out of all hand-overs that follow. An undo
-- does not: the few nodes that granted a failed attempt must not be passed from waiter to waiter. A waiter that stays is
-- not dequeued, because another acquire of its client uses the entry; but its offer of this token ends: this node, which
-- has not handed the lock over yet, would give it to the released token.
-- Answers RL_KEY_DONE; RL_KEY_AWAITED: done, and clients wait, or waited within the last seconds; RL_KEY_UNANNOUNCED:
-- done, but the user may not notify the waiters; RL_KEY_NOT_OURS: another token, or no key.
-- Most releases have no waiter, so they cost no more calls than compare and delete: while clients wait there is a key
-- ':redlock:free', which is read along with the lock.
local call = redis.call
local values = KEYS[2] and redis.pcall('MGET', KEYS[1], KEYS[2]) or {err = ''} -- an error: a user without MGET
local holder, free, rest, deleted = values[1] or redis.pcall('GET', KEYS[1]), values[2], tonumber(ARGV[3]), nil
if holder == ARGV[1] then
  deleted = rest and call('PEXPIRE', KEYS[1], rest) or call('DEL', KEYS[1])
  if not free and not ARGV[2] and not values.err then
    return RL_KEY_DONE -- most releases end here
  end
end
local token, waiter, undo = ARGV[1], ARGV[2] ~= '' and ARGV[2] or nil, rest or ARGV[3] == 'undo'
if waiter and ARGV[4] then
  -- include offer
  end_offer(KEYS[4], waiter, token)
  waiter = nil
end
if type(holder) == 'table' and not waiter then
  return holder -- readers, or a key that is not a lock; their waiters are dequeued all the same
end
if deleted and values.err then
  return RL_KEY_UNANNOUNCED
end
if deleted and not free and not waiter then
  return RL_KEY_DONE
end
if not deleted and not waiter and (undo or not ARGV[2]) then
  return RL_KEY_NOT_OURS
end
-- include handing
-- include wake
-- A user without rights to the queue releases the lock all the same.
local at = {lock = KEYS[1], free = KEYS[2], queue = KEYS[3], alive = KEYS[4]}
local announced = try_to_wake(at, waiter, deleted and not rest and (free or true), nil, not undo and give)
if rest and deleted then
  announced = announce(at)
end
if not deleted then
  return RL_KEY_NOT_OURS
end
return not announced and RL_KEY_UNANNOUNCED or free and RL_KEY_AWAITED or RL_KEY_DONE
