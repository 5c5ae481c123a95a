-- A fencing record is the largest token that the node was sent.
local function records(keys)
  local names = {}
  for i, key in ipairs(keys) do
    names[i] = key .. RL_FENCE_SUFFIX
  end
  return names, call('MGET', unpack(names))
end
-- The largest record.
local function largest(keys)
  local most, _, values = 0, records(keys)
  for _, record in ipairs(values) do
    most = math.max(most, tonumber(record or 0) or 0)
  end
  return most
end
-- Raises the records, prolongs their lives, and returns the largest from before. A full node refuses a script only at
-- its first write, and only if that write may need memory: PEXPIRE, which needs none, comes first.
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
-- More than a day ahead of this node's clock: one client with a wrong clock must not raise the record for all others.
local function is_far(token)
  return tonumber(token) > (call('TIME')[1] + RL_FENCE_FAR_S) * 1000000
end
