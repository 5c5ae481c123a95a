-- A lock may have become free. Removes the waiter `out` from the queue, if given. If the lock is free,
-- wakes the first live waiter, on the channel that its name begins with. Readers at the head are woken together, also
-- while other readers hold the lock. freed: the caller has freed the lock, and the text of its ':redlock:free' key, or
-- true. most: the number of readers to wake, minus one. at: the keys: lock, free, queue and alive; of a slot the last
-- three are the semaphore's. give: hands the lock over to the first waiter instead, if it can; the caller that also says
-- `freed` has deleted the key. It passes over waiters whose client hears no messages; if no other can be handed the
-- lock, the first one is woken. Returns false if the user may not publish.
-- A waiter that was subscribed when it refreshed its entry (.5 in the end of its life), and is not now, is removed:
-- its process is dead. If it lives, its client looks as soon as it is subscribed again, and enqueues it with the same
-- ticket.
local function may_not(err) -- an error of rights names the user, on every server; a full node's does not
  return string.find(type(err) == 'table' and err.err or err, '[Uu]ser ') ~= nil
end
-- The lock is kept for a while after its release: the first waiter looks until when.
local function announce(at)
  local head = redis.pcall('ZRANGE', at.queue, 0, 0)
  local channel = head[1] and string.match(head[1], '^%S+')
  return not may_not(head.err and head or channel and redis.pcall('PUBLISH', channel, '0' .. at.lock) or '')
end
local function wake(at, out, freed, most, give)
  local key, free, queue, alive = at.lock, at.free, at.queue, at.alive
  local first, last, held, now, done, more = '0', most or '1', false, nil, false, nil -- texts: numbers cost a call more
  local woken, may_publish, readers, changed, passed = 0, true, nil, out or freed, 0
  repeat
    local page, kept = call('ZRANGE', queue, first, last), 0
    local entries = page[1] and call('HMGET', alive, out or '', unpack(page))
    more = #page > last - first
    if entries and out and entries[1] then
      call('ZREM', queue, out)
      call('HDEL', alive, out)
      out, page, more = nil, {}, true -- the page without it
    elseif entries and not now then
      held = not (freed and give) and call('EXISTS', key) == 1
      if held and type(redis.pcall('ZSCORE', key, '')) == 'table' then
        return true
      end
      local clock = call('TIME')
      now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    end
    for i, waiter in ipairs(page) do
      local entry = entries[i + 1] or ''
      local ends = tonumber(string.sub(entry, 1, 15)) or 0
      local reader, published = string.sub(waiter, -2) == ' r', nil
      local is_fresh = ends > now + RL_WAITER_LIFE_MS - RL_WAITER_FRESH_MS
      local passes = give and woken == 0 and passed < 8 and ends >= now and string.sub(entry, 17) == RL_OFFER_DEAF
      if passes then
        passed, kept = passed + 1, kept + 1
      else
        if ends >= now then
          if readers ~= nil and reader ~= readers or not reader and held or woken > (most or 7) then
            done = true
            break
          end
          if give and woken == 0 and not reader and ends % 1 ~= 0 and is_fresh then
            published = give(key, waiter, entry)
            if published == true then
              call('ZREM', queue, waiter)
              call('HDEL', alive, waiter)
              if i == #page and not more and passed == 0 then
                call('DEL', alive, free) -- no waiters: nothing to remember
              elseif freed ~= '0' then
                call('SET', free, 0, 'PX', RL_QUEUE_LIFE_MS)
              end
              return true
            end
          end
          if passed > 0 then
            return wake(at, nil, freed, most)
          end
          published = published or redis.pcall('PUBLISH', string.match(waiter, '^%S+'), '0' .. key)
        end
        if ends < now or published == 0 and ends % 1 ~= 0 then
          call('ZREM', queue, waiter)
          call('HDEL', alive, waiter)
          changed = true
        else
          if type(published) == 'table' and published.err then
            may_publish = may_publish and not may_not(published)
          end
          woken, readers, kept = woken + 1, reader, kept + 1
          if not reader then
            done = true
            break
          end
        end
      end
    end
    first = first + kept
    last = first + 7
  until done or not more
  if passed > 0 then
    return wake(at, nil, freed, most)
  end
  if woken == 0 and not done then
    if changed then
      call('DEL', alive, free) -- no waiters: nothing to remember
    end
  elseif not held and (freed or (call('GET', free) or '0') == '0') then
    call('SET', free, now, 'PX', RL_QUEUE_LIFE_MS) -- as long as the queue lives
  end
  return may_publish
end
-- The same, for a user that may lack rights: only that makes it false.
local function try_to_wake(...)
  local ran, published = pcall(wake, ...)
  if ran then
    return published
  end
  return not may_not(published)
end
