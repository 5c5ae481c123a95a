-- The number of live waiters in a queue; -1: the user may not read the queue.
local function waiters_of(queue, alive)
  local waiters, names = 0, redis.pcall('ZRANGE', queue, 0, -1)
  if names.err then
    return -1
  end
  for first = 1, #names, 50 do
    local last = math.min(first + 49, #names)
    for _, entry in ipairs(call('HMGET', alive, unpack(names, first, last))) do
      if (tonumber(string.sub(entry or '', 1, 15)) or 0) >= now then
        waiters = waiters + 1
      end
    end
  end
  return waiters
end
