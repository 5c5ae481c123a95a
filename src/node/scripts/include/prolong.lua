-- Prolongs a key that has this token as its value. Never shortens its life: when a reply is lost, the key must live at
-- least as long as the holder relies on. Returns false for another token, or none: the caller has read `holder`.
local function prolong(key, holder, token, ttl)
  if holder ~= token then
    return false
  end
  local left = call('PTTL', key)
  if left >= 0 and left < tonumber(ttl) then -- -1: a foreign lock that never expires
    call('PEXPIRE', key, ttl)
  end
  return true
end
