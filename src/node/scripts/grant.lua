-- Grants a lock whole or not at all.
-- KEYS: locks. ARGV: token, ttl in ms, proposed fencing token (0: none), life of its record in ms (0: for ever),
-- exclusive or shared; of a semaphore, whose key is then not a lock itself: how many slots it has (0: none), and which
-- to take.
-- Answers -1: held by another, less one bit for each slot that is free; else the largest fencing record there was
-- before.
local call = redis.call
if ARGV[6] ~= '0' then
  -- include slots
  if call('EXISTS', slot(KEYS[1], ARGV[7])) == 1 then
    return -1 - free_slots(KEYS[1], tonumber(ARGV[6]))
  end
  call('SET', slot(KEYS[1], ARGV[7]), ARGV[1], 'PX', ARGV[2])
  return 0
end
if ARGV[5] == 'shared' then
  -- include fence
  -- include shared
  for _, key in ipairs(KEYS) do
    if not is_open(key) or is_held_off(key, '+inf') then
      return -1
    end
  end
  for _, key in ipairs(KEYS) do
    enter(key, ARGV[1], ARGV[2])
  end
  return largest(KEYS)
end
if call('EXISTS', unpack(KEYS)) > 0 then
  return -1
end
-- include fence
local fence = ARGV[3]
if fence ~= '0' and is_far(fence) then
  return redis.error_reply('CLOCK the fencing token is more than a day ahead of the clock of this node')
end
for _, key in ipairs(KEYS) do
  call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return fence ~= '0' and raise(KEYS, fence, ARGV[4]) or 0
