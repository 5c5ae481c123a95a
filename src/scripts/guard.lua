-- Who this server is, and since when it may be relied on.
-- A server that restarted, was flushed, took over from another or whose clock jumped has forgotten locks.
-- KEYS: marker. ARGV: max_ttl in ms, deployment, number of nodes, what to do: look, jumped or trust.
-- The marker is: 1 run_id since max_ttl nodes why deployment. since in ms of this server's clock; 0: an operator
-- vouches for it.
-- Answers {run_id, role, time in us, since, max_ttl, nodes, why, deployment}.
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local role = string.match(redis.call('INFO', 'replication'), 'role:(%w+)')
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local since, max_ttl, nodes = math.floor(time / 1000), tonumber(ARGV[1]), tonumber(ARGV[3])
local why, deployment = 'new', ARGV[2]
local marker = redis.call('GET', KEYS[1])
if marker then
  local run, since_text, ttl, count, reason, name = string.match(marker, '^1 (%w+) (%d+) (%d+) (%d+) (%w+) (%S+)$')
  local other = run and (name ~= ARGV[2] or tonumber(count) ~= nodes)
  if other and ARGV[4] ~= 'trust' then -- only an operator's word takes it over
    return {run_id, role, time, tonumber(since_text), tonumber(ttl), tonumber(count), reason, name}
  end
  if run and not other then
    max_ttl = math.max(max_ttl, tonumber(ttl))
    why = 'restarted'
    if run == run_id and tonumber(since_text) <= since then
      since, why = tonumber(since_text), reason
    end
  end
end
if ARGV[4] == 'jumped' then
  since, why = math.floor(time / 1000), 'jumped'
elseif ARGV[4] == 'trust' then
  since, why = 0, 'trusted'
end
if role == 'master' then
  local text = string.format('1 %s %.0f %.0f %.0f %s %s', run_id, since, max_ttl, nodes, why, deployment)
  if text ~= marker then
    redis.call('SET', KEYS[1], text)
  end
end
return {run_id, role, time, since, max_ttl, nodes, why, deployment}
