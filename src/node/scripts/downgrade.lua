-- Turns a writer's lock into a reader's, on all its keys or on none, and wakes the readers that wait. Its end stays.
-- KEYS: locks; then the free, queue, alive and fence key of each. ARGV: token, ttl in ms for keys without an expiry, waiter
-- to dequeue ('': none): the writer's, also where it did not get the lock; stays: 1: another acquire of its client uses
-- the entry, but its offer of this token ends. This node would hand the lock over to it, and its release is a reader's.
-- Answers 1: the token is a reader's now, or was already; 0: another token, or no key.
local token, ttl, waiter, stays = unpack(ARGV)
local call = redis.call
-- include shared
-- include wake
-- include offer
local count, ours = #KEYS / 5, true
for i = 1, count do
  ours = ours and (call('MGET', KEYS[i])[1] == token or is_inside(KEYS[i], token))
end
for i = 1, ours and count or 0 do
  convert(KEYS[i], token, ttl)
end
-- A user without rights to the queue downgrades the lock all the same: then readers find it when they look.
local out = waiter ~= '' and stays ~= '1' and waiter
for i = 1, count do
  local at = {lock = KEYS[i], free = KEYS[count + i], queue = KEYS[2 * count + i], alive = KEYS[3 * count + i]}
  if waiter ~= '' and not out then
    end_offer(at.alive, waiter, token)
  end
  if ours or out then
    pcall(wake, at, out, false)
  end
end
return ours and '1' or '0'
