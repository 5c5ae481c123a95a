-- Facts that only the server's process has, and no copied data brings along: its role; the ID of its replication history,
-- which is new after a restart, and when a replica becomes a master; and the number of keys that it evicted. INFO's
-- statistics cost more than the rest, so that number is read only where keys may be evicted: the marker says so by an
-- 'e' in front of it.
local function may_evict(marker)
  return string.find(marker, '^2 %w+ %x+ e')
end
local function field(text, name, pattern) -- a plain search first: a pattern would be tried at each byte
  local _, last = string.find(text, name, 1, true)
  return last and string.match(text, pattern, last + 1)
end
-- What a client compares: evidence, a newline, and the marker.
local function show(marker)
  local replication = call('INFO', 'replication')
  local evicted = may_evict(marker) and field(call('INFO', 'stats'), 'evicted_keys:', '^%d+') or '-'
  return string.format('%s %s %s\n', field(replication, 'role:', '^%w+'), field(replication, 'master_replid:', '^%x+'),
    evicted) .. marker
end
