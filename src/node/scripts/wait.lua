-- Sign in as a waiter, or refresh the entry; take the lock if that is requested, and it is this waiter's turn.
-- It is its turn if the lock is free, and fewer than `width` live waiters are ahead. For readers a lock that readers
-- hold is free, and only writers are ahead.
-- KEYS: locks, which are taken all or none. ARGV: waiter, ticket, life in ms, width, take (1; 0; 2: without an entry in
-- the queue), token, ttl in ms, proposed fencing token (0: none), life of its record in ms (0: forever), mode
-- (exclusive or shared); for a semaphore the number of its slots (otherwise 0) and the slot to take (-1: none; it is
-- free if any slot is); whether the waiter is subscribed on this node (1; 0). A reader's name ends with ' r'.
-- Answers {taken, remaining ms of the lock (0: free, -1: no expiry), live waiters ahead up to width, largest ticket
-- before this one (for a new entry), or below 0: minus the later ticket that the entry has here, largest fencing record
-- from before; of a lock that is not taken, a number for the token of a foreign holder (0: none); of a semaphore that
-- is not taken, one bit for each free slot}.
local call = redis.call
-- include fence
-- include shared
local shared = ARGV[10] == 'shared'
local ticket, life, width = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- include slots
local slots = tonumber(ARGV[11])
local function lock_of(key)
  return slots > 0 and slot(key, ARGV[12]) or key
end
-- A client of another library publishes nothing when it releases. Its tokens differ from ours, which are 40 hexadecimal
-- digits. A lock that readers hold is a sorted set, and ours.
local function foreign_holder(key)
  local token, number = redis.pcall('GET', key), 1
  if type(token) == 'table' then
    return is_open(key) and 0 or number
  end
  if not token or #token == 40 and not string.find(token, '[^0-9a-f]') then
    return 0
  end
  for i = 1, math.min(#token, 64) do
    number = (31 * number + string.byte(token, i)) % 4294967296
  end
  return math.max(number, 1)
end
-- The first waiter of a free lock is woken by the waiters behind it, which cannot take it.
local function is_to_wake(remaining)
  return remaining == 0 and (ARGV[5] == '0' or ARGV[5] == '1' and width == 1)
end
-- The remaining time of one key's lock, and the waiters ahead of this one.
local function look(key, queue, alive)
  local remaining, free = call('PTTL', lock_of(key)), key .. ':redlock:free'
  remaining = remaining == -2 and 0 or remaining == -1 and -1 or remaining + 1
  if slots > 0 and (ARGV[12] == '-1' or remaining ~= 0) then
    remaining = until_free(key, slots)
    if ARGV[12] ~= '-1' and remaining == 0 then
      remaining = 1 -- another slot is free, not this one
    end
  end
  -- Exists while there are waiters: since when the lock is free; 0: it is held, or no client has noticed its end.
  local free_since = tonumber(call('GET', free) or 0)
  if remaining ~= 0 and free_since > 0 then
    call('SET', free, 0, 'PX', 4 * life) -- taken by a client that does not know of the queue
  end
  -- If the first waiter leaves the lock free for a second, move it to the tail.
  if remaining == 0 and free_since > 0 and now - free_since > 1000 then
    local head = call('ZRANGE', queue, 0, 0)[1]
    local tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    if head and head ~= ARGV[1] then
      call('ZADD', queue, tonumber(tail) + 1, head)
    end
    call('SET', free, now, 'PX', 4 * life)
  end
  local mine, ahead, head = call('ZSCORE', queue, ARGV[1]), 0, nil
  if shared then
    local below = '(' .. (mine or ARGV[2])
    return is_open(key) and 0 or remaining, is_held_off(key, below, width == 1) and width or 0, mine, nil
  end
  local called, dropped
  repeat
    ahead, head, dropped = 0, nil, 0
    for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. (mine or ARGV[2]), 'LIMIT', 0, 8)) do
      local ends = tonumber(call('HGET', alive, waiter) or 0)
      local wakes = ends >= now and waiter ~= ARGV[1] and not head and waiter ~= called and is_to_wake(remaining)
      local published = wakes and redis.pcall('PUBLISH', string.match(waiter, '^%S+'), '0' .. lock_of(key))
      if ends < now or published == 0 and ends % 1 ~= 0 then
        call('ZREM', queue, waiter)
        call('HDEL', alive, waiter)
        dropped = dropped + 1
      elseif waiter ~= ARGV[1] then
        ahead = ahead + 1
        head = head or waiter
        called = wakes and waiter or called
      end
      if ahead >= width then
        break
      end
    end
  until dropped == 0 or ahead >= width -- dead waiters are removed, as in wake()
  -- An expired lock has no release that notes the time: a waiter behind others notes it.
  if remaining == 0 and free_since == 0 and ahead > 0 then
    call('SET', free, now, 'PX', 4 * life)
  end
  return remaining, ahead, mine, head ~= called and head
end
local function take(key, queue, alive)
  if shared then
    enter(key, ARGV[6], ARGV[7])
  else
    call('SET', lock_of(key), ARGV[6], 'NX', 'PX', ARGV[7])
    call('HDEL', alive, ' writer')
  end
  call('ZREM', queue, ARGV[1])
  call('HDEL', alive, ARGV[1])
  if call('EXISTS', queue) == 0 then
    call('DEL', alive, key .. ':redlock:free') -- no waiters: nothing to remember
  else
    call('SET', key .. ':redlock:free', 0, 'PX', 4 * life)
  end
end
local function sign_in(key, queue, alive, mine)
  local seen = tonumber(call('HGET', alive, ' seen') or 0)
  if not mine or tonumber(mine) < ticket then
    call('ZADD', queue, ARGV[2], ARGV[1])
  end
  call('PEXPIRE', queue, 4 * life) -- at once: a user without HSET must leave no key without an expiry
  call('HSET', alive, ARGV[1], now + life + (ARGV[13] == '1' and 0.5 or 0)) -- .5: subscribed
  call('PEXPIRE', alive, 4 * life)
  if not shared and slots == 0 then -- how long readers have been held off
    local readers = call('EXISTS', key) == 1 and is_open(key)
    if not (readers and call('HGET', alive, ' writer')) then
      call('HSET', alive, ' writer', now)
    end
  end
  if seen < ticket then
    call('HSET', alive, ' seen', ARGV[2])
  end
  if call('PEXPIRE', key .. ':redlock:free', 4 * life) == 0 then
    call('SET', key .. ':redlock:free', 0, 'PX', 4 * life)
  end
  return mine and 0 or seen, mine and tonumber(mine) > ticket and tonumber(mine) or 0
end
local queues, alives, mines, heads, longest, most = {}, {}, {}, {}, 0, 0
for i, key in ipairs(KEYS) do
  queues[i], alives[i] = key .. ':redlock:queue', key .. ':redlock:alive'
  local remaining, ahead, mine, head = look(key, queues[i], alives[i])
  longest = (longest == -1 or remaining == -1) and -1 or math.max(longest, remaining)
  most = math.max(most, ahead)
  mines[i] = mine
  heads[i] = remaining == 0 and head
end
local fence = ARGV[8]
if ARGV[5] == '2' and (longest ~= 0 or most >= width) then
  return {0, longest, most, 0, 0}
end
if ARGV[5] ~= '0' and longest == 0 and most < width then
  if fence ~= '0' and is_far(fence) then
    return redis.error_reply('CLOCK the fencing token is more than a day ahead of the clock of this node')
  end
  for i, key in ipairs(KEYS) do
    take(key, queues[i], alives[i])
  end
  local record = shared and largest(KEYS) or fence ~= '0' and raise(KEYS, fence, ARGV[9]) or 0
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
  return {1, tonumber(ARGV[7]), most, 0, record}
end
local seen, place, holder = 0, 0, 0
for i, key in ipairs(KEYS) do
  local before, at = sign_in(key, queues[i], alives[i], mines[i])
  seen, place = math.max(seen, before), math.max(place, at)
  holder = holder + (slots == 0 and longest ~= 0 and foreign_holder(key) or 0)
  if heads[i] then
    -- The waiter that was woken before may have moved to a later place.
    redis.pcall('PUBLISH', string.match(heads[i], '^%S+'), '0' .. lock_of(key))
  end
end
return {0, longest, most, place > 0 and -place or seen, slots > 0 and free_slots(KEYS[1], slots) or holder}
