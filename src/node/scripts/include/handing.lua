-- Gives a free lock, on its release, to a waiter that offers to take it so: sets the key to the value in the waiter's
-- offer, and publishes the grant. The caller removes the waiter's entry.
-- An entry is 15 characters, until when the waiter is alive, a space, and the offer, if any: the value, its ttl in ms, a
-- number for the waiter, and the marker whose proof the grant needs ('': none). RL_OFFER_DEAF: its client hears no messages.
-- Of a waiter for several permits it is '*' and their number.
-- The marker must be that of the caller, KEYS[5]: a script uses no other key.
-- The grant is 'G', the value, the waiter's number, the size of the key, the key, and the text of a proof.
-- Returns true: done; 0: the waiter's process is dead; nil: it makes no offer, or this user may not do it.
-- include evidence
local function give(key, waiter, entry)
  local value, ttl, number, marker = string.match(entry, '^ (%x+%S*) (%d+) (%d+) (.*)$', 16)
  local shown = ''
  if value and marker ~= '' then
    local text = marker == KEYS[5] and redis.pcall('GETRANGE', marker, 0, RL_MARKER_LAST)
    if type(text) ~= 'string' then
      return nil
    end
    local may_read, proof = pcall(show, text)
    if not may_read then
      return nil
    end
    shown = proof
  end
  local set = value and redis.pcall('SET', key, value, 'PX', ttl)
  if not set or set.err then
    return nil
  end
  local grant = 'G' .. value .. ' ' .. number .. ' ' .. #key .. ' ' .. key .. shown
  local received = redis.pcall('PUBLISH', string.match(waiter, '^%S+'), grant)
  if type(received) ~= 'number' or received == 0 then
    call('DEL', key)
    return received == 0 and 0 or nil
  end
  return true
end
