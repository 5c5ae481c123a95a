-- A lock that readers share is a sorted set of their tokens, scored by the time at which each expires. The key expires
-- with the last of them; for other clients it is a key that exists.
local stamp = call('TIME')
local now = stamp[1] * 1000 + math.floor(stamp[2] / 1000)
-- 40 hexadecimal digits; then nothing, or a slash, the time and a label.
local function is_token(text)
  return #text >= 40 and not string.find(string.sub(text, 1, 40), '[^0-9a-f]') and (#text == 40 or
    string.sub(text, 41, 41) == '/')
end
-- Free, or shared. A key that is not a lock is neither: one of another type, or a sorted set without an expiry or with a
-- member that is no token, which another program uses.
local function is_open(key)
  local left = call('PTTL', key)
  if left < 0 then
    return left == -2
  end
  local members = redis.pcall('ZRANGE', key, 0, -1)
  for _, member in ipairs(members) do
    if not is_token(member) then
      return false
    end
  end
  return not members.err
end
local function is_inside(key, token)
  local ends = redis.pcall('ZSCORE', key, token)
  return type(ends) == 'string' and tonumber(ends) > now
end
local function enter(key, token, ttl)
  local before = tonumber(call('ZSCORE', key, token) or 0)
  call('ZADD', key, string.format('%.0f', math.max(before, now + tonumber(ttl))), token)
  for _, gone in ipairs(call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 64)) do
    call('ZREM', key, gone)
  end
  if call('PTTL', key) < tonumber(ttl) then
    call('PEXPIRE', key, ttl)
  end
end
-- A writer that becomes a reader: its key becomes a set that has its token for as long as the key would have lived. ttl:
-- for a key without an expiry. Returns whether the token is, or was already, inside.
local function convert(key, token, ttl)
  if call('MGET', key)[1] ~= token then
    return is_inside(key, token)
  end
  local left = call('PTTL', key)
  call('DEL', key) -- first: a full node admits ZADD behind a write that needs no memory
  enter(key, token, left < 0 and ttl or left + 1)
  return true
end
-- rest: for how many ms the token stays in the set. Returns whether it was inside: one that has expired is there as long as
-- another reader is, and is not kept.
local function leave(key, token, rest)
  if call('MGET', key)[1] == token then -- of a writer that became a reader, which this node does not know
    return (rest > 0 and call('PEXPIRE', key, string.format('%.0f', rest)) or call('DEL', key)) == 1
  end
  local mine = is_inside(key, token)
  if redis.pcall('ZREM', key, token) ~= 1 or not mine then
    return false
  end
  if rest > 0 then -- a full node admits ZADD behind ZREM
    call('ZADD', key, string.format('%.0f', now + rest), token)
  end
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if last then
    call('PEXPIRE', key, string.format('%.0f', tonumber(last) - now))
  end
  return true
end
-- A waiting writer keeps new readers out; of a lock that readers hold for 10 s of every 20 s (not always): readers that
-- stay indefinitely must not block other readers indefinitely.
local function is_held_off(queue, alive, below, always)
  local since = tonumber(call('HMGET', alive, ' writer')[1] or 0)
  if not always and (since == 0 or (now - since) % 20000 >= 10000) then
    return false
  end
  for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', below, 'LIMIT', 0, 64)) do
    if string.sub(waiter, -2) ~= ' r' and (tonumber(string.sub(call('HMGET', alive, waiter)[1] or '', 1, 15)) or 0) >= now then
      return true
    end
  end
  return false
end
