-- Releases several locks at once, each as release.lua does without further arguments.
-- KEYS: locks, then the free key of each. ARGV: the token of each.
-- Answers a digit per lock, as release.lua does; or RL_KEY_APART: clients wait for the lock, so release.lua, which may
-- use their keys, must release it. Naming those keys for every lock here would cost all the others.
local call = redis.call
local count = #ARGV
local values = redis.pcall('MGET', unpack(KEYS)) -- a lock that clients wait for has the second key
local may_notify = not values.err
if not may_notify then -- a user without MGET
  values = {}
  for i = 1, count do
    values[i] = redis.pcall('GET', KEYS[i])
    if type(values[i]) == 'table' and string.sub(values[i].err, 1, 9) ~= 'WRONGTYPE' then
      return values[i]
    end
  end
end
local answers, ours = {}, {}
for i = 1, count do
  answers[i] = RL_KEY_NOT_OURS
  if values[i] == ARGV[i] and values[count + i] then
    answers[i] = RL_KEY_APART
  elseif values[i] == ARGV[i] and not ours[KEYS[i]] then -- a lock that is here twice is released once
    ours[KEYS[i]] = true
    answers[i] = may_notify and RL_KEY_DONE or RL_KEY_UNANNOUNCED
    ours[#ours + 1] = KEYS[i]
  end
end
if #ours > 0 then
  call('DEL', unpack(ours))
end
return table.concat(answers)
