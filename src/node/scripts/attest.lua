-- Proof for a client that compares it with the guard script's last answer: evidence, a newline, and the marker.
-- KEYS: marker. Writes nothing.
local call = redis.call
-- include evidence
return show(call('GETRANGE', KEYS[1], 0, RL_MARKER_LAST))
