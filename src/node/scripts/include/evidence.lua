-- Facts that only the server's process has, and no copied data brings along: its run_id, its role, the ID of the
-- replication history that it followed before (0: none; a server that frees its backlog clears it), and the number of
-- keys that it evicted. INFO's statistics cost as much as the others together, so that number is read only where keys
-- may be evicted: the marker says so by an 'e' in front of it.
local function may_evict(marker)
  return string.find(marker, '^2 %w+ %x+ e')
end
local function evidence(counts_evicted)
  local function field(text, name, pattern) -- a plain search first: a pattern would be tried at each byte
    local _, last = string.find(text, name, 1, true)
    return last and string.match(text, pattern, last + 1)
  end
  local replication = call('INFO', 'replication')
  local history = field(replication, 'master_replid2:', '^%x+') or '0'
  if not string.find(history, '[^0]') then
    history = '0'
  end
  return field(call('INFO', 'server'), 'run_id:', '^%w+'), field(replication, 'role:', '^%w+'), history,
    counts_evicted and field(call('INFO', 'stats'), 'evicted_keys:', '^%d+') or '0'
end
-- What a client compares: evidence, a newline, and the marker.
local function show(marker, run_id, role, history, evicted)
  return string.format('%s %s %s %s\n', run_id, role, history, may_evict(marker) and evicted or '-') .. marker
end
