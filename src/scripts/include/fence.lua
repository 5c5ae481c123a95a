-- A fencing record holds the largest token told. Raises it, lets it live on, and answers the largest there was.
local function raise(keys, token, life)
  local records, largest = {}, 0
  for i, key in ipairs(keys) do
    records[i] = key .. ':redlock:fence'
  end
  for i, record in ipairs(redis.call('MGET', unpack(records))) do
    local before = tonumber(record or 0) or 0
    largest = math.max(largest, before)
    local value = before < tonumber(token) and token or record
    if life == '0' then
      redis.call('SET', records[i], value)
    else
      redis.call('SET', records[i], value, 'PX', life)
    end
  end
  return largest
end
-- More than a day ahead of this node's clock: one mad clock must not spoil the record for all.
local function is_far(token)
  return tonumber(token) > (redis.call('TIME')[1] + 86400) * 1000000
end
