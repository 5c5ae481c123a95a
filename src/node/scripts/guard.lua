-- Writes the marker of this server; quorum/marker.h describes it. The client has judged the facts, which plain commands
-- showed: a server may refuse INFO in a script. Only `since` and the time of writing are of this server's clock, now: after
-- all that the client has seen.
-- KEYS: marker. ARGV: judged: the marker that the client has judged ('': none), which must still be there; or *: an operator
-- vouches for the server, whatever its marker is. facts: of the new marker, the words behind the 2. since: in ms ('': now).
-- max_ttl, nodes, why, nonce, deployment.
-- Answers {time, marker}
--   time: this server's clock in us. marker: the text that is there now. Another one than the client's: nothing is
--   written.
local judged, facts, since, max_ttl, nodes, why, nonce, deployment = unpack(ARGV)
local found = redis.pcall('GETRANGE', KEYS[1], 0, RL_MARKER_LAST)
if type(found) == 'table' then
  return found
end
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
since = since ~= '' and since or string.format('%.0f', math.floor(time / 1000))
local function text(written, name)
  return string.format('2 %s %s %s %s %s %s %s %s', facts, since, written, max_ttl, nodes, why, name, deployment)
end
if judged == '*' then
  local written, ttl, count, name, other =
    string.match(found, '^2 %w+ %x+ e?%d+ %d+ %d+ (%d+) (%d+) (%d+) %w+ (%x+) (%S+)$')
  if found ~= '' and (not ttl or #ttl > 10) then
    return {time, found}
  end
  if other == deployment and count == nodes and tonumber(ttl) > tonumber(max_ttl) then
    max_ttl = ttl
  end
  if written and text(written, name) == found then
    return {time, found} -- another nonce would be news to all clients
  end
elseif found ~= judged then
  return {time, found}
end
local marker = text(string.format('%.0f', time), nonce)
local set = redis.pcall('SET', KEYS[1], marker)
return set.err and set or {time, marker}
