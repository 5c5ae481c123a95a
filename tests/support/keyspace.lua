-- The data of one Redis server, and the commands that the library and its scripts use, with the replies of Redis 7.0.
-- node_model.c loads this file with its own functions as arguments, and calls those of the table at its end.
-- simulation/model_test.c compares all of it with a real server.

local integer, fails, publish, info = ...

local space -- of the running command: its keys by name
local now, clock_us -- the server's clock in milliseconds and in microseconds
local script, declared -- the name of the running script, and the keys that it may use

local huge = math.huge
local OK = {ok = 'OK'}

local function fail(text)
  error({err = text})
end

local function read_integer(text)
  return integer(text) or fail('ERR value is not an integer or out of range')
end

local function read_float(text)
  return not text:find('^%s') and tonumber(text) or fail('ERR value is not a valid float')
end

local function format(number)
  return string.format('%.17g', number)
end

-- As in Redis, a key has expired when the clock shows more than its end, not when it shows exactly the end.
local function find(name)
  local key = space[name]
  if key and now > key.expires then
    space[name] = nil
    return nil
  end
  return key
end

local function find_typed(name, type)
  local key = find(name)
  if key and key.type ~= type then
    fail('WRONGTYPE Operation against a key holding the wrong kind of value')
  end
  return key
end

local function find_or_create(name, type)
  local key = find_typed(name, type)
  if not key then
    key = {type = type, expires = huge, members = {}}
    space[name] = key
  end
  return key
end

local function string_of(name)
  local key = find(name)
  return key and key.value or false
end

local function count_each(words, count)
  local counted = 0
  for i = 2, #words do
    counted = counted + count(words[i])
  end
  return counted
end

-- NX, GET, and PX with a life at the end: other options are syntax errors.
local function set(words)
  local only_new, gets, life
  for i = 4, #words do
    local option = words[i]:upper()
    only_new, gets = only_new or option == 'NX', gets or option == 'GET'
    if option == 'PX' and i == #words - 1 then
      life = read_integer(words[#words])
      break
    elseif option ~= 'NX' and option ~= 'GET' then
      fail('ERR syntax error')
    end
  end
  if life and life <= 0 then
    fail("ERR invalid expire time in 'set' command")
  end
  local name = words[2]
  local key = gets and find_typed(name, 'string') or find(name)
  local before = key and key.value or false
  if not key or not only_new then
    space[name] = {type = 'string', value = words[3], expires = life and now + life or huge}
  end
  if gets then
    return before
  end
  return (not key or not only_new) and OK
end

local function pexpire(words)
  local life, key = read_integer(words[3]), find(words[2])
  if key then
    key.expires = now + life
    space[words[2]] = life > 0 and key or nil
  end
  return key and 1 or 0
end

-- The members of a hash are its fields, in no order. Those of a sorted set are ordered by score, then by name.

local function place_of(key, name)
  for i, member in ipairs(key and key.members or {}) do
    if member.name == name then
      return i, member
    end
  end
end

local function value_of(key, name)
  local _, member = place_of(key, name)
  return member and member.value or false
end

-- A collection that becomes empty is deleted.
local function remove_members(words, type)
  local key, removed = find_typed(words[2], type), 0
  for i = 3, key and #words or 0 do
    local place = place_of(key, words[i])
    if place then
      table.remove(key.members, place)
      removed = removed + 1
    end
  end
  if key and #key.members == 0 then
    space[words[2]] = nil
  end
  return removed
end

local function hset(words)
  if #words % 2 ~= 0 then
    fail("ERR wrong number of arguments for 'hset' command")
  end
  local key, added = find_or_create(words[2], 'hash'), 0
  for i = 3, #words, 2 do
    local _, member = place_of(key, words[i])
    if not member then
      member = {name = words[i]}
      table.insert(key.members, member)
      added = added + 1
    end
    member.value = words[i + 1]
  end
  return added
end

local function zadd(words)
  local score, name = read_float(words[3]), words[4]
  local members = find_or_create(words[2], 'zset').members
  local place, at = place_of({members = members}, name), 1
  if place then
    table.remove(members, place)
  end
  while members[at] and (members[at].score < score or members[at].score == score and members[at].name < name) do
    at = at + 1
  end
  table.insert(members, at, {name = name, score = score})
  return place and 0 or 1
end

local function zrange(words)
  local from, to = read_integer(words[3]), read_integer(words[4])
  local key, listed = find_typed(words[2], 'zset'), {}
  local members = key and key.members or {}
  from, to = from < 0 and from + #members or from, to < 0 and to + #members or to
  for i = math.max(from, 0) + 1, math.min(to + 1, #members) do
    table.insert(listed, members[i].name)
    if words[5] then -- WITHSCORES
      table.insert(listed, format(members[i].score))
    end
  end
  return listed
end

-- The members up to a score, or below it: -inf score LIMIT 0 most, -inf (score LIMIT 0 most
local function zrangebyscore(words)
  local most = words[7] and read_integer(words[7]) or #words ~= 4 and fail('ERR syntax error')
  local text, below = words[4]:gsub('^%(', '')
  local high = text == '' and 0 or tonumber(text) or fail('ERR min or max is not a float')
  local key, listed = find_typed(words[2], 'zset'), {}
  for _, member in ipairs(key and key.members or {}) do
    if (member.score < high or member.score == high and below == 0) and #listed ~= most then
      table.insert(listed, member.name)
    end
  end
  return listed
end

-- Least and most words, including the name; what replies.
local commands = {
  GET = {2, 2, function(words) return (find_typed(words[2], 'string') or {value = false}).value end},
  GETRANGE = {4, 4, function(words) -- from the beginning only
    return (find_typed(words[2], 'string') or {value = ''}).value:sub(words[3] + 1, words[4] + 1)
  end},
  MGET = {2, huge, function(words)
    local values = {}
    for i = 2, #words do
      values[i - 1] = string_of(words[i])
    end
    return values
  end},
  SET = {3, 16, set},
  DEL = {2, huge, function(words)
    return count_each(words, function(name)
      local found = find(name)
      space[name] = nil
      return found and 1 or 0
    end)
  end},
  EXISTS = {2, huge, function(words)
    return count_each(words, function(name) return find(name) and 1 or 0 end)
  end},
  PTTL = {2, 2, function(words)
    local key = find(words[2])
    return not key and -2 or key.expires == huge and -1 or key.expires - now
  end},
  PEXPIRE = {3, 3, pexpire},
  DBSIZE = {1, 1, function()
    local count = 0
    for _ in pairs(space) do
      count = count + 1
    end
    return count
  end},
  TIME = {1, 1, function() return {format(math.floor(clock_us / 1e6)), format(clock_us % 1e6)} end},
  PING = {1, 2, function(words) return words[2] or {ok = 'PONG'} end},
  INFO = {1, huge, info},
  PUBLISH = {3, 3, function(words) return publish(words[2], words[3]) end},
  HGET = {3, 3, function(words) return value_of(find_typed(words[2], 'hash'), words[3]) end},
  HLEN = {2, 2, function(words) return #(find_typed(words[2], 'hash') or {members = {}}).members end},
  HMGET = {3, huge, function(words)
    local key, values = find_typed(words[2], 'hash'), {}
    for i = 3, #words do
      values[i - 2] = value_of(key, words[i])
    end
    return values
  end},
  HSET = {4, huge, hset},
  HDEL = {3, huge, function(words) return remove_members(words, 'hash') end},
  ZADD = {4, 4, zadd},
  ZREM = {3, huge, function(words) return remove_members(words, 'zset') end},
  ZSCORE = {3, 3, function(words)
    local _, member = place_of(find_typed(words[2], 'zset'), words[3])
    return member and format(member.score) or false
  end},
  ZRANGE = {4, 5, zrange},
  ZRANGEBYSCORE = {4, 7, zrangebyscore},
}

local function execute(words)
  local name = words[1]:upper()
  local command = commands[name]
  if not command then
    if script then
      fails(script .. ".lua: the model does not know the command '" .. words[1] .. "'")
    end
    return {err = "ERR unknown command '" .. words[1] .. "'"}
  elseif #words < command[1] or #words > command[2] then
    return {err = "ERR wrong number of arguments for '" .. name:lower() .. "' command"}
  end
  local done, reply = pcall(command[3], words)
  if not done and type(reply) ~= 'table' then
    fails('keyspace.lua: ' .. tostring(reply))
  end
  return reply
end

-- A script must name every key that it uses in KEYS, as some servers demand. Publishing uses none.
local function check_keys(words)
  local name = words[1]:upper()
  local all = name == 'MGET' or name == 'DEL' or name == 'EXISTS'
  local none = name == 'TIME' or name == 'INFO' or name == 'PUBLISH'
  for i = 2, none and 1 or all and #words or 2 do
    if not declared[words[i]] then
      fails(script .. ".lua: the script has not declared the key '" .. words[i] .. "'")
    end
  end
end

redis = {error_reply = function(text) return {err = text} end}

function redis.pcall(...)
  local words = {...}
  for i = 1, select('#', ...) do
    if type(words[i]) == 'number' then
      words[i] = format(words[i])
    elseif type(words[i]) ~= 'string' then
      return {err = 'ERR Lua redis lib command arguments must be strings or integers'}
    end
  end
  check_keys(words)
  return execute(words)
end

function redis.call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    error(reply)
  end
  return reply
end

local function begin(keys, microseconds)
  space, clock_us, now = keys, microseconds, math.floor(microseconds / 1000)
end

-- A value as RESP, converted as Redis converts the value of a script.
local function encode(value)
  local kind = type(value)
  if kind == 'string' then
    return '$' .. #value .. '\r\n' .. value .. '\r\n'
  elseif kind == 'number' then
    return string.format(':%.0f\r\n', value < 0 and math.ceil(value) or math.floor(value))
  elseif kind ~= 'table' then
    return value and ':1\r\n' or '$-1\r\n'
  elseif value.err or value.ok then
    return (value.err and '-' .. value.err or '+' .. value.ok) .. '\r\n'
  end
  local parts = {}
  for i, part in ipairs(value) do
    parts[i] = encode(part)
  end
  return '*' .. #parts .. '\r\n' .. table.concat(parts)
end

local served = {}

function served.command(keys, microseconds, ...)
  begin(keys, microseconds)
  return encode(execute({...}))
end

function served.get(keys, microseconds, name)
  begin(keys, microseconds)
  return string_of(name)
end

-- An error that is no error of a command is a bug of the script or of the model.
function served.script(keys, microseconds, name, run, key_count, ...)
  begin(keys, microseconds)
  script, declared, KEYS, ARGV = name, {}, {}, {}
  for i, word in ipairs({...}) do
    if i <= key_count then
      KEYS[i] = word
      declared[word] = true
    else
      ARGV[i - key_count] = word
    end
  end
  local done, value = pcall(run)
  script = nil
  if done then
    return encode(value)
  elseif type(value) ~= 'table' then
    return encode({err = 'ERR ' .. fails(name .. '.lua: ' .. tostring(value))})
  end
  return encode({err = value.err .. ' script: ' .. name .. ', on @user_script:1.'})
end

function served.copy(keys, revived)
  local copies = {}
  for name, key in pairs(keys) do
    local copy = {type = key.type, value = key.value, expires = key.expires, revived = key.revived or revived, members = {}}
    for i, member in ipairs(key.members or {}) do
      copy.members[i] = {name = member.name, value = member.value, score = member.score}
    end
    copies[name] = copy
  end
  return copies
end

-- Removes the keys for which the function returns true, in the order of their names. Returns their number.
function served.evict(keys, is_chosen)
  local names, evicted = {}, 0
  for name in pairs(keys) do
    table.insert(names, name)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    if is_chosen() then
      keys[name] = nil
      evicted = evicted + 1
    end
  end
  return evicted
end

-- A string is seen with its value, a collection once for each member.
function served.each(keys, see)
  for name, key in pairs(keys) do
    if key.type == 'string' then
      see(name, key.value, key.expires, key.revived)
    end
    for _, member in ipairs(key.members or {}) do
      see(name, member.name, math.min(key.expires, member.score or huge), key.revived)
    end
  end
end

return served
