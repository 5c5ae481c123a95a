/*
 * A node with two servers and three witnesses of who is its master (quorum/witness.h), for spin to look at all that can happen:
 * 6,400,000 states, half a minute. scripts/model.sh runs it.
 *
 * Two failovers lead there and back: configuration 0 is server 0, 1 is server 1, 2 is server 0 again. A failover is decided at any time, and a witness hears of
 * it at any later time. The new master was a replica, with the lock's key or without, so it has another history than its marker says; or it was cut off and never
 * followed the other. The old master goes on for a client that reaches it. A client asks a witness at any time, and uses a master that the witnesses confirm: the
 * first client that sees another history there, or comes with a later configuration than the marker has, puts the server into quarantine. A client acquires the
 * lock, or extends its own, also in quarantine, as often as it can. Time goes by in ticks.
 *
 * Two clients never have the node's vote at once, because of six rules. Each can be turned off, and then they do:
 * MAJORITY a configuration is confirmed by most of the witnesses, not by one (quorum/witness.c, agreed)
 * AGE      their word counts for LASTS ticks (quorum_witnesses_confirmation)
 * LONGER   the quarantine is that much longer than a lock (QUORUM_GUARD_MARGIN in quorum/guard.h)
 * SETTLES  before as much time has passed, a lock is not extended there either (quorum_guard_counts_held); nor kept for at_least_ms
 * EPOCH    they must say the same configuration, not the same server (quorum/witness.c, agreed)
 * TERM     the marker has the configuration: with a later one there is quarantine, though the history is the same (quorum/marker.c, loss)
 */
#include "common.pml"
#ifndef MAJORITY
#define MAJORITY 1
#endif
#ifndef AGE
#define AGE 1
#endif
#ifndef LONGER
#define LONGER 1
#endif
#ifndef SETTLES
#define SETTLES 1
#endif
#ifndef EPOCH
#define EPOCH 1
#endif
#ifndef TERM
#define TERM 1
#endif

#define WITNESSES 3
#define LASTS     1
#define TTL       2
#define LAST      2 /* configuration */
#define NONE      2 /* client */

#define SERVER(k)  ((k) % 2)
#define OLD        (LASTS + 1)
#define QUARANTINE (TTL + (LONGER -> LASTS : 0))
#define OLDER(x)   x = (AGE && x < OLD -> x + 1 : x)

byte decided;          /* the last configuration */
byte knows[WITNESSES]; /* the configuration that the witness says */
byte heard[2], by[2], heard_age[2] = OLD; /* what one witness has said to the client, until another says the same */
byte confirmed[2], confirmed_age[2] = OLD;
bool other[2]; /* history than the server's marker says */
byte marker[2], quarantine[2], owner[2] = NONE, ttl[2]; /* of the servers */
byte valid[2];                                          /* the node's vote for the client */

inline uses(c, k) {
  if
  :: other[SERVER(k)] || (TERM && marker[SERVER(k)] < k) ->
     other[SERVER(k)] = false;
     marker[SERVER(k)] = MAX(marker[SERVER(k)], k);
     quarantine[SERVER(k)] = QUARANTINE
  :: else ->
     if
     :: (owner[SERVER(k)] == NONE && quarantine[SERVER(k)] == 0) ||
        (owner[SERVER(k)] == c && (!SETTLES || quarantine[SERVER(k)] < QUARANTINE - LASTS)) ->
        owner[SERVER(k)] = c;
        ttl[SERVER(k)] = TTL;
        valid[c] = TTL;
        assert(valid[1 - (c)] == 0)
     :: else
     fi
  fi
}

#define SAME(k, l) (EPOCH -> (k) == (l) : SERVER(k) == SERVER(l))
#define ASK(c, w)                                                                                                        \
  d_step { heard_age[c] > 0 || heard[c] != knows[w] || by[c] != w ->                                                     \
    heard[c] = knows[w]; by[c] = w; heard_age[c] = 0 }                                                                   \
  :: d_step { heard_age[c] < OLD && (by[c] != w || !MAJORITY) && SAME(heard[c], knows[w]) ->                             \
    confirmed[c] = heard[c]; confirmed_age[c] = heard_age[c] }

active [2] proctype Client() {
  byte c = _pid;
end:
  do
  :: ASK(c, 0)
  :: ASK(c, 1)
  :: ASK(c, 2)
  :: d_step { confirmed_age[c] < OLD -> uses(c, confirmed[c]) }
  od
}

active [WITNESSES] proctype Witness() {
  byte w = _pid - 2;
end:
  do
  :: d_step { knows[w] < decided -> knows[w]++ }
  od
}

active proctype Failover() {
end:
  do
  :: decided < LAST -> atomic {
       decided++;
       if
       :: other[SERVER(decided)] = true; owner[SERVER(decided)] = NONE; ttl[SERVER(decided)] = 0
       :: other[SERVER(decided)] = true;
          owner[SERVER(decided)] = owner[1 - SERVER(decided)];
          ttl[SERVER(decided)] = ttl[1 - SERVER(decided)]
       :: decided == LAST /* it was cut off, and has what it had */
       fi
     }
  od
}

active proctype Time() {
  byte i;
end:
  do
  :: d_step {
       for (i : 0 .. 1) {
         OLDER(heard_age[i]);
         heard[i] = (heard_age[i] == OLD -> 0 : heard[i]); /* does not matter any more: fewer states */
         by[i] = (heard_age[i] == OLD -> 0 : by[i]);
         OLDER(confirmed_age[i]);
         confirmed[i] = (confirmed_age[i] == OLD -> 0 : confirmed[i]);
         LESS(quarantine[i]);
         LESS(ttl[i]);
         owner[i] = (ttl[i] > 0 -> owner[i] : NONE);
         LESS(valid[i])
       };
       i = 0
     }
  od
}
