-- A fencing record is the largest token that the node was sent: a number. A key that holds anything else is another
-- program's, and is not changed. names: the records' keys.
-- The largest record.
local function largest(names)
  local most = 0
  for _, record in ipairs(call('MGET', unpack(names))) do
    most = math.max(most, tonumber(record or 0) or 0)
  end
  return most
end
-- Raises the records, prolongs their lives, and returns the largest from before. A full node refuses a script only at
-- its first write, and only if that write may need memory: PEXPIRE, which needs none, comes first.
local function raise(names, token, life)
  local most = 0
  for i, record in ipairs(call('MGET', unpack(names))) do
    local before = tonumber(record or 0)
    most = math.max(most, before or 0)
    if before and (record or call('EXISTS', names[i]) == 0) then
      local value = before < tonumber(token) and token or record
      call('PEXPIRE', names[i], life == '0' and 86400000 or life)
      if life == '0' then
        call('SET', names[i], value)
      else
        call('SET', names[i], value, 'PX', life)
      end
    end
  end
  return most
end
-- Why the token cannot be recorded, or nil. A token far ahead comes from a client with a wrong clock, which must not raise
-- the record for all others.
local function objection(names, token)
  if tonumber(token) > (call('TIME')[1] + RL_FENCE_FAR_S) * 1000000 then
    return 'CLOCK the fencing token is more than a day ahead of the clock of this node'
  end
  for i, record in ipairs(call('MGET', unpack(names))) do
    if not tonumber(record or 0) or not record and call('EXISTS', names[i]) == 1 then
      return 'ERR the key of the fencing record holds something else: another program uses it'
    end
  end
end
