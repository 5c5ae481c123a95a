-- What only the server's process knows, and no data set brings along: who it is, its role, whose data it took over last
-- as a replica (0: nobody's; a server that frees its backlog forgets it), how many keys it has evicted.
local function evidence()
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
    field(call('INFO', 'stats'), 'evicted_keys:', '^%d+') or '0'
end
