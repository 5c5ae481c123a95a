-- What only the server's process knows, and no data set brings along: who it is, its role, whose data it took over last
-- as a replica (0: nobody's; a server that frees its backlog forgets it), how many keys it has evicted.
local function evidence()
  local replication = call('INFO', 'replication')
  local history = string.match(replication, 'master_replid2:(%x+)') or '0'
  if not string.find(history, '[^0]') then
    history = '0'
  end
  return string.match(call('INFO', 'server'), 'run_id:(%w+)'), string.match(replication, 'role:(%w+)'), history,
    string.match(call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
end
