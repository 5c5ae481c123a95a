-- Releases several locks at once, each as release.lua does without further arguments.
-- KEYS: locks. ARGV: the token of each.
-- Answers a digit per lock, as release.lua does. If more keys were deleted than locks, clients wait for some of them.
local call = redis.call
local answers, keys = {}, {}
for i, holder in ipairs(call('MGET', unpack(KEYS))) do -- false: no key, or not a string
  answers[i] = RL_KEY_NOT_OURS
  if holder == ARGV[i] then
    answers[i] = RL_KEY_DONE
    keys[#keys + 1] = KEYS[i]
  end
end
local ours = #keys
if ours == 0 then
  return table.concat(answers)
end
for i = 1, ours do
  keys[ours + i] = keys[i] .. RL_FREE_SUFFIX
end
local deleted = redis.pcall('DEL', unpack(keys))
if deleted == ours then
  return table.concat(answers)
end
-- include handing
-- include wake
local may_notify = type(deleted) == 'number'
if not may_notify then -- a user without rights to the other keys
  call('DEL', unpack(keys, 1, ours))
end
for i, answer in ipairs(answers) do
  if answer == RL_KEY_DONE then
    -- A user without rights to the queue releases the lock all the same.
    local ran, published = pcall(wake, KEYS[i], nil, true, nil, nil, give)
    answers[i] = may_notify and ran and published and RL_KEY_DONE or RL_KEY_UNANNOUNCED
  end
end
return table.concat(answers)
