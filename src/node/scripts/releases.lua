-- Releases several locks at once, each as release.lua does without further arguments.
-- KEYS: locks. ARGV: the token of each; then one character per lock. 1: its first waiter is only woken, 0: it may be
-- handed the lock.
-- Answers a digit per lock, as release.lua does.
local call = redis.call
local count, names = #KEYS, {}
for i, key in ipairs(KEYS) do
  names[i], names[count + i] = key, key .. RL_FREE_SUFFIX
end
local values = redis.pcall('MGET', unpack(names)) -- a lock that clients wait for has the second key
local may_notify = not values.err
if not may_notify then -- a user without rights to the other keys, or to MGET
  values = {}
  for i, key in ipairs(KEYS) do
    values[i] = redis.pcall('GET', key)
    if type(values[i]) == 'table' and string.sub(values[i].err, 1, 9) ~= 'WRONGTYPE' then
      return values[i]
    end
  end
end
local answers, ours, free = {}, {}, {}
for i = 1, count do
  answers[i] = RL_KEY_NOT_OURS
  if values[i] == ARGV[i] and not ours[KEYS[i]] then -- a lock that is here twice is handed over once
    ours[KEYS[i]] = true
    answers[i] = may_notify and RL_KEY_DONE or RL_KEY_UNANNOUNCED
    ours[#ours + 1] = KEYS[i]
    free[i] = values[count + i] or nil
  end
end
if #ours > 0 then
  call('DEL', unpack(ours))
end
if not next(free) then
  return table.concat(answers)
end
-- include handing
-- include wake
for i, since in pairs(free) do
  -- A user without rights to the queue releases the lock all the same.
  local hands = string.sub(ARGV[count + 1], i, i) == '0' and give
  answers[i] = try_to_wake(KEYS[i], nil, since, nil, nil, hands) and RL_KEY_AWAITED or RL_KEY_UNANNOUNCED
end
return table.concat(answers)
