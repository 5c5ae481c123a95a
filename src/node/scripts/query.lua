-- Who holds it, for how long, and how many wait, in one look. KEYS: lock, or semaphore.
-- Answers {token or nil, 1 readers, 2 no lock; PTTL: -2 no key, -1 no expiry; waiters that live, -1: the user may not look; of a semaphore
-- {slot, token, ...} of those that are taken}.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and holder.err then
  if string.sub(holder.err, 1, 9) ~= 'WRONGTYPE' then
    return holder
  end
  local readers = redis.pcall('ZSCORE', KEYS[1], '')
  holder = type(readers) == 'table' and 2 or 1
end
local waiters = 0
local queue = redis.pcall('ZRANGE', KEYS[1] .. ':redlock:queue', 0, -1)
if queue.err then
  waiters = -1
elseif #queue > 0 then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  for _, waiter in ipairs(queue) do
    if tonumber(redis.call('HGET', KEYS[1] .. ':redlock:alive', waiter) or 0) >= now then
      waiters = waiters + 1
    end
  end
end
local names, taken = {}, {}
for number = 0, 31 do -- as many as a semaphore may have: how many this one has only its users know
  names[number + 1] = KEYS[1] .. ':redlock:slot:' .. number
end
for i, token in ipairs(redis.pcall('MGET', unpack(names))) do
  if token then
    taken[#taken + 1] = i - 1
    taken[#taken + 1] = token
  end
end
return {holder, redis.call('PTTL', KEYS[1]), waiters, taken}
