-- Who this server is, and since when it may be relied on.
-- A server that restarted, was flushed, took over another's data, evicted keys or whose clock jumped has lost locks.
-- KEYS: marker. ARGV: max_ttl: the client's, in ms. deployment. nodes: their number. task: look; jumped: the client has
-- found that this server's clock jumped; trust: an operator vouches for it. new_nonce: for a marker that is written. Of
-- the marker that this client saw last seen_nonce ('': none), and seen_us: when, by this server's clock.
-- The marker is: 2 run_id history [e]evicted swaps since written max_ttl nodes why nonce deployment. since in ms of this
-- server's clock, 0: an operator vouches for it; written in us; e: keys may be evicted; swaps: SWAPDB calls. The nonce
-- makes each rewritten marker unique.
-- Answers {run_id, role, time, since, max_ttl, nodes, why, deployment, policy, nonce, shown}
--   time: this server's clock in us. policy: its maxmemory-policy. shown: the text of a proof now. The others:
--   of the marker. why is taken, and nothing is written, if the key holds anything else than a marker of this format;
--   full, if the marker must be written, and the server is at its memory limit.
local max_ttl, deployment, nodes, task, new_nonce, seen_nonce, seen_us = unpack(ARGV)
local call = redis.call
-- include evidence
local policy = string.match(call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or ''
local swaps = string.match(call('INFO', 'commandstats'), 'cmdstat_swapdb:calls=(%d+)') or '0'
local evicts = policy ~= '' and policy ~= 'noeviction'
local run_id = field(call('INFO', 'server'), 'run_id:', '^%w+')
local replication = call('INFO', 'replication')
local role = field(replication, 'role:', '^%w+')
-- The history that the server followed before. 0: none; a server that frees its backlog clears it.
local history = field(replication, 'master_replid2:', '^%x+') or '0'
if not string.find(history, '[^0]') then
  history = '0'
end
local evicted = field(call('INFO', 'stats'), 'evicted_keys:', '^%d+') or '0'
local clock = call('TIME')
local time = clock[1] * 1000000 + clock[2]
local since, why = math.floor(time / 1000), 'new'
max_ttl, nodes = tonumber(max_ttl), tonumber(nodes)
local marker = redis.pcall('GETRANGE', KEYS[1], 0, RL_MARKER_LAST)
if type(marker) == 'table' then
  if string.sub(marker.err, 1, 9) ~= 'WRONGTYPE' then
    return marker
  end
  marker = 'of another type'
end
local run, other_history, evicted_then, swaps_then, since_then, written, ttl, count, reason, nonce, name =
  string.match(marker, '^2 (%w+) (%x+) e?(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%w+) (%x+) (%S+)$')
if run and (tonumber(since_then) > 9e12 or tonumber(ttl) > 4294967295 or tonumber(count) > 4294967295) then
  run = nil -- numbers that no client writes, and no reply can carry
end
-- The format before this one, which no release ever wrote, counts as missing.
if not run and marker ~= '' and not string.find(marker, '^1 %w+ %d+ %d+ %d+ %w+ %S+$') then
  return {run_id, role, time, since, max_ttl, nodes, 'taken', deployment, policy, '', ''}
end
local other = run and (name ~= deployment or tonumber(count) ~= nodes)
if other and task ~= 'trust' then -- only an operator's word takes it over
  return {run_id, role, time, tonumber(since_then), tonumber(ttl), tonumber(count), reason, name, policy, nonce, ''}
end
if run and not other then
  max_ttl = math.max(max_ttl, tonumber(ttl))
  history = history == '0' and run == run_id and other_history or history
  if run ~= run_id or tonumber(since_then) > since then
    why = 'restarted'
  elseif history ~= other_history then
    why = 'copied'
  elseif evicted ~= evicted_then then
    why = 'evicted'
  elseif swaps ~= swaps_then or nonce ~= seen_nonce and tonumber(written) + 1000000 < tonumber(seen_us) then
    why = 'replaced' -- with older data than this client has seen here
  else
    since, why = tonumber(since_then), reason
  end
end
if task == 'jumped' then
  since, why = math.floor(time / 1000), 'jumped'
elseif task == 'trust' then
  since, why = 0, 'trusted'
end
local function text(at, name_of_it)
  return string.format('2 %s %s %s%s %s %.0f %s %.0f %.0f %s %s %s', run_id, history, evicts and 'e' or '', evicted,
    swaps, since, at, max_ttl, nodes, why, name_of_it, deployment)
end
if role == 'master' and not (run and text(written, nonce) == marker) then
  nonce = new_nonce
  marker = text(string.format('%.0f', time), nonce)
  local set = redis.pcall('SET', KEYS[1], marker)
  if type(set) == 'table' and set.err then
    if task == 'trust' or not string.match(set.err, '^%-?OOM ') then
      return set
    end
    return {run_id, role, time, since, max_ttl, nodes, 'full', deployment, policy, '', ''}
  end
end
if role == 'master' then
  call('GET', KEYS[1]) -- an error without the right to it: the proofs of grants need it
end
return {run_id, role, time, since, max_ttl, nodes, why, deployment, policy, nonce or '',
  show(marker)}
