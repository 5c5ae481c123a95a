-- Enqueues a waiter, or refreshes its entry; takes the lock if that is requested, and it is this waiter's turn.
-- It is its turn if the lock is free, and no live waiter is ahead. For readers a lock that readers hold is free, and only
-- writers are ahead.
-- KEYS: locks, which are taken all or none, or a semaphore; then the free, queue, alive and fence key of each, and the
-- slots of a semaphore. ARGV: waiter: its name in the queues, which for a reader
-- ends with ' r'. ticket: its place. task: enqueue; take: take the lock, or enqueue. token. ttl: in ms. fence: the proposed fencing token (0: none). fence_life: of its record, in ms (0:
-- forever). mode: exclusive or shared. slots: a semaphore's number of slots (otherwise 0). wanted: the slots to take (below 0:
-- none; it is free if this many slots are). subscribed: 1: the waiter is subscribed on this node, 0. offer: for a hand-over ('':
-- none), as include/handing.lua reads it.
-- Answers {taken, remaining, ahead, seen, record, holder}
--   taken: 1 or 0. RL_WAIT_HANDED: no, but the lock has been handed over to this waiter.
--   remaining: ms until the lock is free. 0: it is free, -1: it does not expire.
--   ahead: 1 if a live waiter is ahead of this one, otherwise 0.
--   seen: of a new entry, the largest ticket before it. Below 0: minus the later ticket that the entry has here.
--   record: if taken, the largest fencing record from before. If not, of a semaphore one bit for each free slot, of a
--   lock a number for the holder's token (0: none), below 0 if the token has the form of ours.
--   holder: the token of the lock's holder, or ''.
local waiter, ticket, task, token, ttl, fence, fence_life, mode, slots, wanted, subscribed, offer = unpack(ARGV)
local call = redis.call
-- include shared
local shared = mode == 'shared'
slots = tonumber(slots)
-- include slots
local count = (#KEYS - slots) / 5
local records = {unpack(KEYS, 4 * count + 1, 5 * count)}
-- A client of another library publishes nothing when it releases. Its tokens mostly differ from ours. A lock that readers
-- hold is a sorted set, and ours.
local function number_of(key, holder)
  local number = 1
  if not holder then
    return is_open(key) and 0 or number
  end
  if is_token(holder) then
    return -1 - tonumber(string.sub(holder, 1, 8), 16)
  end
  for i = 1, math.min(#holder, 64) do
    number = (31 * number + string.byte(holder, i)) % 4294967296
  end
  return math.max(number, 1)
end
-- The time until enough slots are free for this waiter, and for the first one. An entry that wants several says so.
local function until_enough(queue, alive)
  local remaining, first = until_free(need), call('ZRANGE', queue, 0, 0)[1]
  local entry = first and first ~= waiter and call('HMGET', alive, first)[1] or ''
  local is_alive = (tonumber(string.sub(entry, 1, 15)) or 0) >= now
  local front = is_alive and until_free(tonumber(string.match(entry, '^%*(%d+)$', 17) or 1)) or remaining
  if remaining == 0 and chosen[1] and call('EXISTS', unpack(chosen)) > 0 then
    remaining = 1 -- other slots are free, not these
  end
  return remaining, front
end
-- The remaining time of one key's lock, and the waiters ahead of this one.
local function look(i)
  local key, free, queue, alive = KEYS[i], KEYS[count + i], KEYS[2 * count + i], KEYS[3 * count + i]
  local remaining, front = slots == 0 and call('PTTL', key) or -2, nil
  -- The holder, and a key that exists while there are waiters: since when the lock is free; 0: it is held, or no client
  -- has noticed its end.
  local values = remaining == -2 and {false, call('GET', free)} or call('MGET', key, free)
  remaining = remaining == -2 and 0 or remaining == -1 and -1 or remaining + 1
  front = remaining -- of a semaphore the first waiter may want more slots than this one, or fewer
  if slots > 0 then
    key = chosen[1] or slot(0)
    remaining, front = until_enough(queue, alive)
  end
  local free_since = tonumber(values[2] or 0)
  if front ~= 0 and free_since > 0 then
    call('SET', free, 0, 'PX', RL_QUEUE_LIFE_MS) -- taken by a client that does not know of the queue
  end
  -- If the first waiter leaves the lock free for that long, move it to the tail.
  if front == 0 and free_since > 0 and now - free_since > RL_OVERTAKE_MS then
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
  local bound, mine, ahead, head, woken, dropped, entries = ticket, nil, 0, nil, nil, nil, nil
  repeat
    ahead, head, dropped = 0, nil, 0
    local others = shared and {} or call('ZRANGEBYSCORE', queue, '-inf', '(' .. bound, 'LIMIT', '0', '1')
    entries = call('HMGET', alive, waiter, ' seen', ' writer', unpack(others))
    mine = mine or entries[1] and call('ZSCORE', queue, waiter)
    mine = mine and tonumber(mine) <= RL_TICKET_MOST and mine -- or it enters anew
    if mine and mine ~= bound then
      bound, others, dropped = mine, {}, 1 -- the entry has another place than its ticket's: look from there
    end
    local other = others[1]
    if other then
      local ends = tonumber(string.sub(entries[4] or '', 1, 15)) or 0
      -- The waiters behind the first one of a free lock wake it.
      local wakes = front == 0 and ends >= now and other ~= waiter and other ~= woken
      local published = wakes and redis.pcall('PUBLISH', string.match(other, '^%S+'), '0' .. key)
      if ends < now or published == 0 and ends % 1 ~= 0 then
        call('ZREM', queue, other)
        call('HDEL', alive, other)
        dropped = 1
      elseif other ~= waiter then
        ahead, head, woken = 1, other, wakes and other or woken
      end
    end
  until dropped == 0 or ahead == 1 -- dead waiters are removed, as in wake()
  -- An expired lock has no release that notes the time: a waiter behind others notes it.
  if front == 0 and free_since == 0 and ahead > 0 then
    call('SET', free, now, 'PX', RL_QUEUE_LIFE_MS)
  end
  if ahead > 0 and (front == -1 or front > remaining and remaining ~= -1) then
    remaining = front
  end
  local exists = remaining ~= 0
  if shared then
    ahead = is_held_off(queue, alive, '(' .. bound, not exists) and 1 or 0
    remaining = is_open(key) and 0 or remaining
  end
  return {
    lock = key, queue = queue, alive = alive, free = free, exists = exists, holder = values[1], since = values[2],
    remaining = remaining, ahead = ahead, mine = mine, seen = entries[2] or '0', writer = entries[3],
    head = remaining == 0 and head ~= woken and head,
  }
end
local function take(at)
  if shared then
    enter(at.lock, token, ttl)
  else
    for _, key in ipairs(slots > 0 and chosen or {at.lock}) do
      call('SET', key, token, 'NX', 'PX', ttl)
    end
  end
  call('ZREM', at.queue, waiter)
  call('HDEL', at.alive, waiter, shared and waiter or ' writer')
  if call('EXISTS', at.queue) == 0 then
    call('DEL', at.alive, at.free) -- no waiters: nothing to remember
  else
    call('SET', at.free, 0, 'PX', RL_QUEUE_LIFE_MS)
  end
end
-- `writer` is since when readers have been held off. It is also when the keys' expiries were set; a busy queue does not
-- set them each time. A queue of other waiters exists, so its expiry does, too.
local function enqueue(at)
  local mine, seen = tonumber(at.mine), tonumber(at.seen) or 0
  seen = seen <= RL_TICKET_MOST and seen or 0 -- a larger one was not written by a waiter
  if not mine or mine < tonumber(ticket) then
    call('ZADD', at.queue, ticket, waiter)
  end
  local writes_writer = not shared and slots == 0 and not (at.writer and at.by_readers)
  local age = writes_writer and at.since and (mine or at.ahead > 0) and now - (tonumber(at.writer) or 0) or -1
  local is_recent = age >= 0 and age < RL_QUEUE_RECENT_MS
  if not is_recent then
    call('PEXPIRE', at.queue, RL_QUEUE_LIFE_MS) -- at once: a user without HSET must leave no key without an expiry
  end
  -- As include/handing.lua reads it. .5: subscribed. Also a clock that is near 1970 fills 15 characters.
  local entry = string.format('%015.1f ', now + RL_WAITER_LIFE_MS + (subscribed == '1' and 0.5 or 0))
  entry = entry .. (slots > 0 and need > 1 and '*' .. need or offer)
  local latest = seen < tonumber(ticket) and ticket or at.seen
  if is_recent then
    local set = redis.pcall('HSET', at.alive, waiter, entry, ' seen', latest)
    if type(set) == 'table' then -- a full node accepts it behind a write that needs no memory
      call('PEXPIRE', at.queue, RL_QUEUE_LIFE_MS)
      call('HSET', at.alive, waiter, entry, ' seen', latest)
    end
  elseif not writes_writer then
    call('HSET', at.alive, waiter, entry, ' seen', latest)
  else
    call('HSET', at.alive, waiter, entry, ' seen', latest, ' writer', now)
  end
  if not is_recent then
    call('PEXPIRE', at.alive, RL_QUEUE_LIFE_MS)
    if call('PEXPIRE', at.free, RL_QUEUE_LIFE_MS) == 0 then
      call('SET', at.free, 0, 'PX', RL_QUEUE_LIFE_MS)
    end
  end
  return mine and 0 or seen, mine and mine > tonumber(ticket) and mine or 0
end
local looks, longest, most = {}, 0, 0
for i = 1, count do
  looks[i] = look(i)
  local remaining = looks[i].remaining
  longest = (longest == -1 or remaining == -1) and -1 or math.max(longest, remaining)
  most = math.max(most, looks[i].ahead)
end
if task == 'take' and longest == 0 and most == 0 then
  -- include fence
  local refusal = fence ~= '0' and not shared and objection(records, fence)
  if refusal then
    return redis.error_reply(refusal)
  end
  for _, at in ipairs(looks) do
    take(at)
  end
  local record = shared and largest(records) or fence ~= '0' and raise(records, fence, fence_life) or 0
  -- include wake
  for _, at in ipairs(shared and looks or {}) do
    pcall(wake, at, nil, false, 1) -- the next readers, which wake the readers after them
  end
  for number = 0, slots - 1 do
    if call('EXISTS', slot(number)) == 0 then
      looks[1].lock = slot(number)
      pcall(wake, looks[1], nil, false, 0) -- one more slot is free: for the next waiter
      break
    end
  end
  return {1, tonumber(ttl), most, 0, record, ''}
end
local is_lock = longest ~= 0 and slots == 0
local holder = is_lock and looks[1].holder
local named = holder or ''
if holder and string.sub(offer, 1, #holder + 1) == holder .. ' ' then
  return {RL_WAIT_HANDED, longest, 0, 0, 0, ''}
end
local seen, place, foreign, ours = 0, 0, 0, 0
for _, at in ipairs(looks) do
  local is_held = is_lock and at.exists
  at.by_readers = is_held and not at.holder and not shared and is_open(at.lock)
  local before, later = enqueue(at)
  seen, place = math.max(seen, before), math.max(place, later)
  local number = is_held and number_of(at.lock, at.holder) or 0
  named = named ~= '' and named or is_held and at.holder or ''
  foreign, ours = foreign + math.max(number, 0), ours + math.min(number, 0)
  if at.head then
    -- The waiter that was woken before may have moved to a later place.
    redis.pcall('PUBLISH', string.match(at.head, '^%S+'), '0' .. at.lock)
  end
end
local record = slots > 0 and free_slots() or foreign > 0 and foreign or ours
return {0, longest, most, place > 0 and -place or seen, record, string.sub(named, 1, RL_TOKEN_SHOWN)}
