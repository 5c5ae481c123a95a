-- A semaphore is as many locks as it has permits, its slots. They share the queue of the semaphore's own name. Their keys
-- are the last `count` of KEYS.
local function slot(number, count)
  return KEYS[#KEYS - count + 1 + number]
end
-- One bit for each slot that is free.
local function free_slots(count)
  local bits = 0
  for number = 0, count - 1 do
    if call('EXISTS', slot(number, count)) == 0 then
      bits = bits + 2 ^ number
    end
  end
  return bits
end
-- The time in ms until a slot is free: 0 now, -1 never.
local function until_free(count)
  local least = -1
  for number = 0, count - 1 do
    local left = call('PTTL', slot(number, count))
    left = left == -2 and 0 or left == -1 and -1 or left + 1
    least = (least == -1 or left ~= -1 and left < least) and left or least
  end
  return least
end
