-- Turns a writer's lock into a reader's, on all its keys or on none, and wakes the readers that wait. Its end stays.
-- KEYS: locks; then the free, queue, alive and fence key of each. ARGV: token, ttl in ms for keys without an expiry, waiter
-- to dequeue ('': none): the writer's, where it did not get the lock in its turn.
-- Answers 1: the token is a reader's now, or was already; 0: another token, or no key.
local token, ttl, waiter = unpack(ARGV)
local call = redis.call
-- include shared
-- include wake
local count = #KEYS / 5
for i = 1, count do
  if call('MGET', KEYS[i])[1] ~= token and not is_inside(KEYS[i], token) then
    return '0'
  end
end
for i = 1, count do
  convert(KEYS[i], token, ttl)
end
-- A user without rights to the queue downgrades the lock all the same: then readers find it when they look.
for i = 1, count do
  local at = {lock = KEYS[i], free = KEYS[count + i], queue = KEYS[2 * count + i], alive = KEYS[3 * count + i]}
  pcall(wake, at, waiter ~= '' and waiter, false)
end
return '1'
