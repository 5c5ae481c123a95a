-- The lock of this key may have become free. Removes the waiter `out` from the queue, if given. If the lock is free,
-- wakes the first live waiter, on the channel that its name begins with; and the second, in case the first is dead,
-- unless the first refreshed its entry just now: waking the second is most of the cost of a hand-over. Readers at the
-- head are woken together, also while other readers hold the lock. freed: the caller has freed the lock. most: the
-- number of waiters to look at, minus one. base: of a slot, the semaphore's key, which has the queue. give: hands the
-- lock over to the first waiter instead, if it can. Returns false if the user may not publish.
-- A waiter that was subscribed when it refreshed its entry (.5 in the end of its life), and is not now, is removed:
-- its process is dead. If it lives, its client looks as soon as it is subscribed again, and enqueues it with the same
-- ticket.
local function wake(key, out, freed, most, base, give)
  base = base or key
  local queue, alive, free = base .. RL_QUEUE_SUFFIX, base .. RL_ALIVE_SUFFIX, base .. RL_FREE_SUFFIX
  if call('EXISTS', queue) == 0 then
    if out then
      call('DEL', alive, free)
    end
    return true
  end
  if out and call('ZREM', queue, out) == 1 then
    call('HDEL', alive, out, out .. ' offer')
    if call('EXISTS', queue) == 0 then
      call('DEL', alive, free) -- no waiters: nothing to remember
      return true
    end
  end
  local held = call('EXISTS', key) == 1
  if held and type(redis.pcall('ZSCORE', key, '')) == 'table' then
    return true
  end
  local clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local woken, may_publish, readers, first, dropped = 0, true, nil, nil, 0
  repeat
    first, dropped = call('ZRANGE', queue, 0, most or 7), 0
    for _, waiter in ipairs(first) do
      local ends = tonumber(call('HGET', alive, waiter) or 0)
      local reader, published = string.sub(waiter, -2) == ' r', nil
      if ends >= now then
        if readers ~= nil and reader ~= readers or not reader and (held or woken == 2) then
          break
        end
        if give and woken == 0 and not reader and ends % 1 ~= 0 and ends > now + RL_WAITER_LIFE_MS - RL_WAITER_FRESH_MS then
          published = give(key, waiter, queue, alive, free, dropped + 1 < #first)
          if published == true then
            return true
          end
        end
        published = published or redis.pcall('PUBLISH', string.match(waiter, '^%S+'), (reader and 0 or woken) .. key)
      end
      if ends < now or published == 0 and ends % 1 ~= 0 then
        call('ZREM', queue, waiter)
        call('HDEL', alive, waiter, waiter .. ' offer')
        dropped = dropped + 1
      else
        if type(published) == 'table' and published.err then
          may_publish = false
        end
        woken, readers = woken + 1, reader
        if not reader and ends > now + RL_WAITER_LIFE_MS - RL_WAITER_FRESH_MS then
          break
        end
      end
    end
  until #first == 0 or dropped < #first -- all of these were dead: the next ones
  if not held and (freed or (call('GET', free) or '0') == '0') then
    call('SET', free, now, 'PX', RL_QUEUE_LIFE_MS) -- as long as the queue lives
  end
  return may_publish
end
