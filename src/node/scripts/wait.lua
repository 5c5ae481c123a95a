-- Enqueues a waiter, or refreshes its entry; takes the lock if that is requested, and it is this waiter's turn.
-- It is its turn if the lock is free, and fewer than `width` live waiters are ahead. For readers a lock that readers
-- hold is free, and only writers are ahead.
-- KEYS: locks, which are taken all or none; or a semaphore. ARGV: waiter: its name in the queues, which for a reader
-- ends with ' r'. ticket: its place. width: see above. task: enqueue; take: take the lock, or enqueue; try: take it, but
-- do not enqueue. token. ttl: in ms. fence: the proposed fencing token (0: none). fence_life: of its record, in ms (0:
-- forever). mode: exclusive or shared. slots: a semaphore's number of slots (otherwise 0). wanted: the slot to take (-1:
-- none; it is free if any slot is). subscribed: 1: the waiter is subscribed on this node, 0. offer: for a hand-over ('':
-- none), as include/handing.lua reads it.
-- Answers {taken, remaining, ahead, seen, record}
--   taken: 1 or 0. RL_WAIT_HANDED: no, but the lock has been handed over to this waiter.
--   remaining: ms until the lock is free. 0: it is free, -1: it does not expire.
--   ahead: live waiters ahead of this one, counted up to width.
--   seen: of a new entry, the largest ticket before it. Below 0: minus the later ticket that the entry has here.
--   record: if taken, the largest fencing record from before. If not, of a semaphore one bit for each free slot, of a
--   lock a number for the token of a foreign holder (0: none).
local waiter, ticket, width, task, token, ttl, fence, fence_life, mode, slots, wanted, subscribed, offer = unpack(ARGV)
local call = redis.call
-- include fence
-- include shared
local shared = mode == 'shared'
width, slots = tonumber(width), tonumber(slots)
-- include slots
local function lock_of(key)
  return slots > 0 and slot(key, wanted) or key
end
-- A client of another library publishes nothing when it releases. Its tokens differ from ours, which are 40 hexadecimal
-- digits. A lock that readers hold is a sorted set, and ours.
local function foreign_holder(key, holder)
  local number = 1
  if type(holder) == 'table' then
    return is_open(key) and 0 or number
  end
  if not holder or #holder == 40 and not string.find(holder, '[^0-9a-f]') then
    return 0
  end
  for i = 1, math.min(#holder, 64) do
    number = (31 * number + string.byte(holder, i)) % 4294967296
  end
  return math.max(number, 1)
end
-- The first waiter of a free lock is woken by the waiters behind it, which cannot take it.
local function is_to_wake(remaining)
  return remaining == 0 and (task == 'enqueue' or task == 'take' and width == 1)
end
-- The remaining time of one key's lock, and the waiters ahead of this one.
local function look(key, queue, alive)
  local remaining, free = call('PTTL', lock_of(key)), key .. RL_FREE_SUFFIX
  remaining = remaining == -2 and 0 or remaining == -1 and -1 or remaining + 1
  if slots > 0 and (wanted == '-1' or remaining ~= 0) then
    remaining = until_free(key, slots)
    if wanted ~= '-1' and remaining == 0 then
      remaining = 1 -- another slot is free, not this one
    end
  end
  -- Exists while there are waiters: since when the lock is free; 0: it is held, or no client has noticed its end.
  local free_since = tonumber(call('GET', free) or 0)
  if remaining ~= 0 and free_since > 0 then
    call('SET', free, 0, 'PX', RL_QUEUE_LIFE_MS) -- taken by a client that does not know of the queue
  end
  -- If the first waiter leaves the lock free for that long, move it to the tail.
  if remaining == 0 and free_since > 0 and now - free_since > RL_OVERTAKE_MS then
    local head, tail = call('ZRANGE', queue, 0, 0)[1], call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    while tail[1] and tonumber(tail[2]) > RL_TICKET_MOST do -- nothing could be behind it
      call('ZREM', queue, tail[1])
      tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    end
    if tail[1] and head ~= waiter then
      call('ZADD', queue, tonumber(tail[2]) + 1, head)
    end
    call('SET', free, now, 'PX', RL_QUEUE_LIFE_MS)
  end
  local mine, ahead, head = call('ZSCORE', queue, waiter), 0, nil
  mine = mine and tonumber(mine) <= RL_TICKET_MOST and mine -- or it enters anew
  if shared then
    ahead = is_held_off(key, '(' .. (mine or ticket), width == 1) and width or 0
    return is_open(key) and 0 or remaining, ahead, mine, nil
  end
  local woken, dropped
  repeat
    ahead, head, dropped = 0, nil, 0
    for _, other in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. (mine or ticket), 'LIMIT', 0, width)) do
      local ends = tonumber(call('HGET', alive, other) or 0)
      local wakes = ends >= now and other ~= waiter and not head and other ~= woken and is_to_wake(remaining)
      local published = wakes and redis.pcall('PUBLISH', string.match(other, '^%S+'), '0' .. lock_of(key))
      if ends < now or published == 0 and ends % 1 ~= 0 then
        call('ZREM', queue, other)
        call('HDEL', alive, other, other .. ' offer')
        dropped = dropped + 1
      elseif other ~= waiter then
        ahead = ahead + 1
        head = head or other
        woken = wakes and other or woken
      end
      if ahead >= width then
        break
      end
    end
  until dropped == 0 or ahead >= width -- dead waiters are removed, as in wake()
  -- An expired lock has no release that notes the time: a waiter behind others notes it.
  if remaining == 0 and free_since == 0 and ahead > 0 then
    call('SET', free, now, 'PX', RL_QUEUE_LIFE_MS)
  end
  return remaining, ahead, mine, head ~= woken and head
end
local function take(key, queue, alive)
  if shared then
    enter(key, token, ttl)
  else
    call('SET', lock_of(key), token, 'NX', 'PX', ttl)
    call('HDEL', alive, ' writer')
  end
  call('ZREM', queue, waiter)
  call('HDEL', alive, waiter, waiter .. ' offer')
  if call('EXISTS', queue) == 0 then
    call('DEL', alive, key .. RL_FREE_SUFFIX) -- no waiters: nothing to remember
  else
    call('SET', key .. RL_FREE_SUFFIX, 0, 'PX', RL_QUEUE_LIFE_MS)
  end
end
local function enqueue(key, queue, alive, mine, holder)
  local seen = call('HGET', alive, ' seen') or '0'
  seen = (tonumber(seen) or RL_TICKET_MOST + 1) <= RL_TICKET_MOST and seen or '0'
  if not mine or tonumber(mine) < tonumber(ticket) then
    call('ZADD', queue, ticket, waiter)
  end
  call('PEXPIRE', queue, RL_QUEUE_LIFE_MS) -- at once: a user without HSET must leave no key without an expiry
  -- .5: subscribed
  local entry = now + RL_WAITER_LIFE_MS + (subscribed == '1' and 0.5 or 0)
  local latest = tonumber(seen) < tonumber(ticket) and ticket or seen
  local by_readers = type(holder) == 'table' and is_open(key)
  if shared or slots > 0 or by_readers and call('HGET', alive, ' writer') then
    call('HSET', alive, waiter, entry, waiter .. ' offer', offer, ' seen', latest)
  else -- how long readers have been held off
    call('HSET', alive, waiter, entry, waiter .. ' offer', offer, ' seen', latest, ' writer', now)
  end
  call('PEXPIRE', alive, RL_QUEUE_LIFE_MS)
  if call('PEXPIRE', key .. RL_FREE_SUFFIX, RL_QUEUE_LIFE_MS) == 0 then
    call('SET', key .. RL_FREE_SUFFIX, 0, 'PX', RL_QUEUE_LIFE_MS)
  end
  return mine and 0 or tonumber(seen), mine and tonumber(mine) > tonumber(ticket) and tonumber(mine) or 0
end
local queues, alives, mines, heads, longest, most = {}, {}, {}, {}, 0, 0
for i, key in ipairs(KEYS) do
  queues[i], alives[i] = key .. RL_QUEUE_SUFFIX, key .. RL_ALIVE_SUFFIX
  local remaining, ahead, mine, head = look(key, queues[i], alives[i])
  longest = (longest == -1 or remaining == -1) and -1 or math.max(longest, remaining)
  most = math.max(most, ahead)
  mines[i] = mine
  heads[i] = remaining == 0 and head
end
if task == 'try' and (longest ~= 0 or most >= width) then
  return {0, longest, most, 0, 0}
end
if task ~= 'enqueue' and longest == 0 and most < width then
  if fence ~= '0' and is_far(fence) then
    return redis.error_reply('CLOCK the fencing token is more than a day ahead of the clock of this node')
  end
  for i, key in ipairs(KEYS) do
    take(key, queues[i], alives[i])
  end
  local record = shared and largest(KEYS) or fence ~= '0' and raise(KEYS, fence, fence_life) or 0
  -- include wake
  for _, key in ipairs(shared and KEYS or {}) do
    pcall(wake, key, nil, false, 1) -- the next readers, which wake the readers after them
  end
  for number = 0, slots - 1 do
    if call('EXISTS', slot(KEYS[1], number)) == 0 then
      pcall(wake, slot(KEYS[1], number), nil, false, 0, KEYS[1]) -- one more slot is free: for the next waiter
      break
    end
  end
  return {1, tonumber(ttl), most, 0, record}
end
local holders = {}
for i, key in ipairs(longest ~= 0 and slots == 0 and KEYS or {}) do
  holders[i] = redis.pcall('GET', key)
end
if holders[1] and holders[1] == string.match(offer, '^%x+') then
  return {RL_WAIT_HANDED, longest, 0, 0, 0}
end
local seen, place, holder = 0, 0, 0
for i, key in ipairs(KEYS) do
  local before, at = enqueue(key, queues[i], alives[i], mines[i], holders[i])
  seen, place = math.max(seen, before), math.max(place, at)
  holder = holder + foreign_holder(key, holders[i])
  if heads[i] then
    -- The waiter that was woken before may have moved to a later place.
    redis.pcall('PUBLISH', string.match(heads[i], '^%S+'), '0' .. lock_of(key))
  end
end
return {0, longest, most, place > 0 and -place or seen, slots > 0 and free_slots(KEYS[1], slots) or holder}
