-- A semaphore is as many locks as it has permits, its slots. They share the queue of the semaphore's own name. Their keys
-- are the last `slots` of KEYS. wanted: the numbers of the slots to take; or minus the number of slots: any.
local function slot(number)
  return KEYS[#KEYS - slots + 1 + number]
end
local need, chosen = -(tonumber(wanted) or 0), {}
if need <= 0 then
  for number in string.gmatch(wanted, '%d+') do
    chosen[#chosen + 1] = slot(number)
  end
  need = #chosen
end
-- One bit for each slot that is free.
local function free_slots()
  local bits = 0
  for number = 0, slots - 1 do
    if call('EXISTS', slot(number)) == 0 then
      bits = bits + 2 ^ number
    end
  end
  return bits
end
-- The time in ms until this many slots are free: 0 now, -1 never.
local function until_free(many)
  local times = {}
  for number = 1, slots do
    local left = call('PTTL', slot(number - 1))
    times[number] = left == -2 and 0 or left == -1 and math.huge or left + 1
  end
  table.sort(times)
  return (times[many] or math.huge) < math.huge and times[many] or -1
end
