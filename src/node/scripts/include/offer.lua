-- The waiter's entry stays, without the offer of this token.
local function end_offer(alive, waiter, token)
  local entry = redis.pcall('HMGET', alive, waiter)[1]
  if entry and string.sub(entry, 17, 16 + #token) == token then
    redis.pcall('PEXPIRE', alive, RL_QUEUE_LIFE_MS) -- first: a full node accepts writes only in this order
    redis.pcall('HSET', alive, waiter, string.sub(entry, 1, 16))
  end
end
