-- Compare and delete, of a lock that has more to it than a key and a token.
-- KEYS: locks. ARGV: token, fencing token (0: none), life of its record in ms, exclusive or shared, waiter to sign out
-- ('': none), the semaphore of which it is a slot ('': none).
-- Answers as release does; 0 also when a part was not ours.
local call = redis.call
local mine, queues, freed, base = {}, {}, {}, ARGV[6] ~= '' and ARGV[6] or nil
if ARGV[4] == 'shared' then
  -- include shared
  for _, key in ipairs(KEYS) do
    if leave(key, ARGV[1]) then
      mine[#mine + 1] = key
    end
  end
else
  for i, holder in ipairs(call('MGET', unpack(KEYS))) do
    if holder == ARGV[1] then
      mine[#mine + 1] = KEYS[i]
    end
  end
  if #mine > 0 then
    call('DEL', unpack(mine))
  end
end
-- Deleted first, raised then: a full node admits it so.
if ARGV[2] ~= '0' then
  -- include fence
  raise(KEYS, ARGV[2], ARGV[3])
end
for i, key in ipairs(mine) do
  freed[key] = true
  queues[i] = (base or key) .. ':redlock:queue'
end
local deleted = #mine == #KEYS and 1 or 0
local out = ARGV[5] ~= '' and ARGV[5]
if not out and (#mine == 0 or redis.pcall('EXISTS', unpack(queues)) == 0) then
  return deleted
end
-- include wake
for _, key in ipairs(out and KEYS or mine) do
  local could, told = pcall(wake, key, out, freed[key], nil, base)
  if not (could and told) then
    deleted = 2 * math.min(deleted, 1)
  end
end
return deleted
