-- Reads who holds a lock, for how long, and how many clients wait. KEYS: lock, or semaphore; queue, alive; every slot that
-- a semaphore may have, because only its users know their number.
-- Answers {holder, left, waiters, taken}
--   holder: token; nil: none; RL_HOLDER_READERS; RL_HOLDER_FOREIGN: a key that is not a lock.
--   left: PTTL. -2: no key, -1: no expiry.
--   waiters: live ones. -1: the user may not read the queue.
--   taken: {slot, token, ...} of a semaphore.
local call = redis.call
-- include shared
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and holder.err then
  if string.sub(holder.err, 1, 9) ~= 'WRONGTYPE' then
    return holder
  end
  holder = is_open(KEYS[1]) and RL_HOLDER_READERS or RL_HOLDER_FOREIGN
end
-- include waiters
local taken = {}
for i, token in ipairs(redis.pcall('MGET', unpack(KEYS, 4))) do
  if token then
    taken[#taken + 1] = i - 1
    taken[#taken + 1] = token
  end
end
return {holder, call('PTTL', KEYS[1]), waiters_of(KEYS[2], KEYS[3]), taken}
