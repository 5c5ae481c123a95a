-- A fencing record holds the largest token told.
local function records(keys)
  local names = {}
  for i, key in ipairs(keys) do
    names[i] = key .. ':redlock:fence'
  end
  return names, call('MGET', unpack(names))
end
-- The largest there is.
local function largest(keys)
  local most, _, values = 0, records(keys)
  for _, record in ipairs(values) do
    most = math.max(most, tonumber(record or 0) or 0)
  end
  return most
end
-- Raises them, lets them live on, and answers the largest there was. A full node refuses a script's first write only,
-- if that one may need memory: PEXPIRE, which needs none, comes first.
local function raise(keys, token, life)
  local most, names, values = 0, records(keys)
  for i, record in ipairs(values) do
    local before = tonumber(record or 0) or 0
    most = math.max(most, before)
    local value = before < tonumber(token) and token or record
    call('PEXPIRE', names[i], life == '0' and 86400000 or life)
    if life == '0' then
      call('SET', names[i], value)
    else
      call('SET', names[i], value, 'PX', life)
    end
  end
  return most
end
-- More than a day ahead of this node's clock: one mad clock must not spoil the record for all.
local function is_far(token)
  return tonumber(token) > (call('TIME')[1] + 86400) * 1000000
end
