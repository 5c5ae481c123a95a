-- Reads the locks among some keys. KEYS: of each lock, or slot of a semaphore, its key, its queue's, and the waiters'.
-- Answers for each key false: it is no lock; or {holder, left, waiters, reader, end, ...}
--   holder: the beginning of the value; RL_HOLDER_READERS. left: PTTL. waiters: live ones; -1: the user may not read them.
--   reader, end: of a lock that readers hold, each one's token, and for how many ms it is a reader.
local call = redis.call
-- include shared
-- include waiters
local answers, queues, first, ends = {}, {}, nil, nil
for i = 2, #KEYS, 3 do
  queues[#queues + 1] = KEYS[i]
end
local awaited = redis.pcall('EXISTS', unpack(queues)) ~= 0
for i = 1, #KEYS, 3 do
  local key = KEYS[i]
  local value, left, answer = redis.pcall('GETRANGE', key, 0, RL_TOKEN_LAST), call('PTTL', key), false
  if type(value) == 'string' then
    answer = left ~= -2 and {value, left}
  else
    first = left > 0 and redis.pcall('ZRANGE', key, 0, 0) -- first: another program's set may be large
    if first and not first.err and is_token(first[1] or '') and is_open(key) then
      answer = {RL_HOLDER_READERS, left, 0}
      for at, member in ipairs(call('ZRANGE', key, 0, -1, 'WITHSCORES')) do
        ends = at % 2 == 0 and tonumber(member) - now
        answer[3 + at] = ends or member
      end
    end
  end
  if answer then
    answer[3] = awaited and waiters_of(KEYS[i + 1], KEYS[i + 2]) or 0
  end
  answers[#answers + 1] = answer
end
return answers
