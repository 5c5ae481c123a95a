-- Proof for a client that compares it with the guard script's last answer: evidence, a newline, and the marker.
-- KEYS: marker. Writes nothing.
local call = redis.call
-- include evidence
local marker = call('GETRANGE', KEYS[1], 0, RL_MARKER_LAST)
return show(marker, evidence(may_evict(marker)))
