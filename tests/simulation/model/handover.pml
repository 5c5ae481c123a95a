/*
 * Hand-over with three nodes, for spin to look at all that can happen: 930,000 states, 3 s. scripts/model.sh runs it.
 *
 * A holds the lock. B waits: each of its attempts makes every node an offer with a token of its own. A's release sets the key of each node to the token
 * that the node was offered, also where A's key has gone and the lock is free, and the node sends B a message. B holds the lock with such messages from a
 * majority, and otherwise withdraws the offer. C acquires a lock that is free. Node 0 may lose its data, and is in quarantine then. Time goes by in ticks, as in
 * redlock.pml. Releases, withdrawals and messages arrive as late as they like.
 *
 * Two clients never hold the lock at once, because of four rules. Each can be turned off, and then they do:
 * FROM_OFFER  B counts its validity from the time of its offer, not from the message (quorum/round.c, handed)
 * WHOLE       a withdrawn offer is over: B counts no message of it for a later one (src/lock/queue.c, handover_withdraw)
 * NEW_TTL     the key gets the ttl of the offer, not what was left of A's (src/node/scripts/include/handing.lua, give)
 * PROOF       a message counts only with proof that the node had not lost data (src/lock/queue.c, handover_counts)
 */
#include "common.pml"
#ifndef FROM_OFFER
#define FROM_OFFER 1
#endif
#ifndef WHOLE
#define WHOLE 1
#endif
#ifndef NEW_TTL
#define NEW_TTL 1
#endif
#ifndef PROOF
#define PROOF 1
#endif

#define TTL      3
#define TICKS    4
#define ATTEMPTS 2
#define NOBODY   0
#define A        1
#define C        2
#define B(k)     (3 + (k)) /* the token of B's attempt */

byte holder[NODES] = A, lives[NODES] = TTL; /* token, and the ticks that it still lives */
byte entry[NODES];                /* what B offered; NOBODY: nothing */

/* Under way. */
bool release[NODES];
byte withdrawal[NODES], message[NODES];
bool forgot, proven; /* node 0; proven: by its message */

/* Ticks that each may still rely on the lock; B's offer has its own. */
byte valid_a = TTL - 1, valid_b, valid_c, offered, ticks;
byte attempt, messages;
bool waiting, wants[NODES];

inline check() {
  assert((valid_a > 0) + (valid_b > 0) + (valid_c > 0) <= 1)
}

active [NODES] proctype Node() {
  byte n = _pid;
end:
  do
  :: d_step { release[n] -> /* no waiter: it deletes the key */
       release[n] = false;
       if
       :: (holder[n] == A || holder[n] == NOBODY) && entry[n] != NOBODY ->
          lives[n] = (NEW_TTL || holder[n] == NOBODY -> TTL : lives[n]);
          holder[n] = entry[n];
          message[n] = entry[n];
          proven = (n == 0 -> !forgot : proven);
          entry[n] = NOBODY
       :: holder[n] == A && entry[n] == NOBODY -> holder[n] = NOBODY; lives[n] = 0
       :: else
       fi
     }
  :: d_step { withdrawal[n] != NOBODY -> 
       entry[n] = NOBODY;
       if
       :: holder[n] == withdrawal[n] -> holder[n] = NOBODY; lives[n] = 0
       :: else
       fi;
       withdrawal[n] = NOBODY
     }
  :: d_step { n == 0 && !forgot -> forgot = true; holder[n] = NOBODY; lives[n] = 0; entry[n] = NOBODY }
  od
}

/* Holds the lock at the beginning. */
active proctype Holder() {
  byte n;
end:
  d_step { valid_a > 0 ->
    valid_a = 0;
    for (n : 0 .. NODES - 1) { release[n] = true };
    n = 0
  }
}

active proctype Waiter() {
  byte n;
end:
  do
  :: d_step { !waiting && valid_b == 0 && attempt < ATTEMPTS && withdrawal[0] == NOBODY && withdrawal[1] == NOBODY && withdrawal[2] == NOBODY ->
       waiting = true;
       offered = TTL - 1;
       for (n : 0 .. NODES - 1) { entry[n] = B(attempt) };
       if
       :: WHOLE -> messages = 0; for (n : 0 .. NODES - 1) { wants[n] = true }
       :: else -> for (n : 0 .. NODES - 1) { wants[n] = wants[n] || attempt == 0 }
       fi;
       n = 0
     }
  :: d_step { waiting && message[0] != NOBODY -> messages = messages + (wants[0] && (!WHOLE || message[0] == B(attempt)) && (!PROOF || proven)); wants[0] = false; message[0] = NOBODY }
  :: d_step { waiting && message[1] != NOBODY -> messages = messages + (wants[1] && (!WHOLE || message[1] == B(attempt))); wants[1] = false; message[1] = NOBODY }
  :: d_step { waiting && message[2] != NOBODY -> messages = messages + (wants[2] && (!WHOLE || message[2] == B(attempt))); wants[2] = false; message[2] = NOBODY }
  :: d_step { waiting && messages >= QUORUM && (!FROM_OFFER || offered > 0) ->
       waiting = false;
       valid_b = (FROM_OFFER -> offered : TTL - 1);
       check()
     }
  :: d_step { waiting -> /* it gives up */
       waiting = false;
       for (n : 0 .. NODES - 1) { withdrawal[n] = B(attempt) };
       n = 0;
       attempt++
     }
  od
}

#define IS_FREE(n) (holder[n] == NOBODY && !(n == 0 && forgot))

/* Gets the lock at once, or leaves nothing: redlock.pml has late requests. */
active proctype Contender() {
  byte n, reached = NODES;
end:
  if
  :: reached = NODES - 1
  :: true
  fi;
  d_step { IS_FREE(0) + IS_FREE(1) + (IS_FREE(2) && reached == NODES) >= QUORUM ->
    for (n : 0 .. reached - 1) {
      if
      :: holder[n] == NOBODY -> holder[n] = C; lives[n] = TTL
      :: else
      fi
    };
    n = 0;
    valid_c = TTL - 1;
    check()
  }
}

active proctype Time() {
  byte i;
end:
  do
  :: d_step { ticks < TICKS ->
       ticks++;
       for (i : 0 .. NODES - 1) {
         LESS(lives[i]);
         holder[i] = (lives[i] > 0 -> holder[i] : NOBODY)
       };
       i = 0;
       LESS(valid_a);
       LESS(valid_b);
       LESS(valid_c);
       LESS(offered)
     }
  od
}
