-- Extends locks (keep), or sets them again where they are missing (heal), and raises their fencing records.
-- KEYS: the locks' keys, one lock after the other; then the fence key of each. ARGV: keep or heal; then of each lock the number of keys, token, ttl
-- in ms, fencing token (0: none), life of its record in ms (0: forever), mode (exclusive or shared).
-- Answers for each lock the largest fencing record from before; RL_KEEP_ABSENT: a key is missing or another holder's;
-- RL_KEEP_REFUSED: done, but the fencing token is refused.
local task = ARGV[1]
local call = redis.call
-- include fence
-- include shared
-- include prolong
local act = {}
function act.keep(keys, token, ttl)
  for _, holder in ipairs(call('MGET', unpack(keys))) do
    if holder ~= token then
      return false
    end
  end
  for _, key in ipairs(keys) do
    prolong(key, token, token, ttl)
  end
  return true
end
function act.heal(keys, token, ttl)
  local holders = call('MGET', unpack(keys))
  for i, holder in ipairs(holders) do
    if holder ~= token and (holder or call('EXISTS', keys[i]) == 1) then
      return false
    end
  end
  for i, key in ipairs(keys) do
    if not prolong(key, holders[i], token, ttl) then
      local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
      if type(set) == 'table' and set.err then -- a full node refuses the first one: nothing has been set
        return false
      end
    end
  end
  return true
end
function act.shared(keys, token, ttl)
  for _, key in ipairs(keys) do
    local mine = is_inside(key, token) or call('MGET', key)[1] == token
    if not mine and not (task == 'heal' and is_open(key)) then
      return false
    end
  end
  for _, key in ipairs(keys) do
    if convert(key, token, ttl) then -- a full node admits ZADD behind a write that needs no memory
      call('PEXPIRE', key, string.format('%.0f', math.max(call('PTTL', key), tonumber(ttl))))
    end
    enter(key, token, ttl)
  end
  return true
end
local answers, at, all = {}, 0, #KEYS / 2
for lock = 2, #ARGV, 6 do
  local count, token, ttl, fence, fence_life, mode = unpack(ARGV, lock, lock + 5)
  local keys, names, answer = {}, {}, 0
  for i = 1, tonumber(count) do
    keys[i], names[i] = KEYS[at + i], KEYS[all + at + i]
  end
  at = at + #keys
  local mine = act[mode == 'shared' and 'shared' or task](keys, token, ttl)
  if not mine then
    answer = RL_KEEP_ABSENT
  elseif fence ~= '0' then
    answer = objection(names, fence) and RL_KEEP_REFUSED or raise(names, fence, fence_life)
  end
  answers[#answers + 1] = answer
end
return answers
