/*
 * A holder that heals, and another process that releases the lock by its token, for spin to look at all that can happen: 23,000 states, 1 s. scripts/model.sh
 * runs it.
 *
 * A holds the lock with three nodes. Node 2 may lose the key, and is in quarantine then. A renews the lock, and heals the nodes that lack it. B has the token,
 * too: it may rely on the lock, and releases it. C acquires a lock that is free on a majority, or has one key of a failed attempt for a while. Heals are late,
 * and one is sent again because the node did not know the script. A releases the lock, finds it gone, or is cut off until its validity ends.
 *
 * C holds the lock beside nobody, no renewal that began after B's release is confirmed, and after a release no key stays. Each of these can be turned off:
 * ONE    the client heals a node again only after the reply to the heal before (src/lock/renewal.c, nodes_to_heal)
 * RESEND it sends no heal again behind the end of the lock (src/lock/round.c, resend)
 * UNDO   a lock that is gone is undone where it was healed since a majority last confirmed it (src/lock/lease.c, is_left)
 * LEFT   a lock of which another process has the token is not undone when its validity ends (the same)
 * APART  no rule, but the limit that docs/design.md names: no renewal is under way during the release. Otherwise the heals that follow may move the lock to
 *        nodes where the release has been already.
 */
#include "common.pml"
#ifndef ONE
#define ONE 1
#endif
#ifndef RESEND
#define RESEND 1
#endif
#ifndef UNDO
#define UNDO 1
#endif
#ifndef LEFT
#define LEFT 1
#endif
#ifndef APART
#define APART 1
#endif

#define RENEWALS 3
#define NOBODY   0
#define T        1 /* A's token, and B's */
#define C        2

/* Votes of a renewal. */
#define NONE    0
#define ASKED   1
#define GRANTED 2
#define ABSENT  3

/* A heal: on its way to the node, or the reply to A. */
#define SENT     1
#define RESENT   2 /* behind the undo */
#define DONE     3
#define HELD     4
#define NOSCRIPT 5

/* Why A does not hold the lock any more. */
#define RELEASED 1
#define GONE     2
#define EXPIRED  3

byte holder[NODES] = T;
bool forgot; /* node 2 */
byte vote[NODES], heal[NODES];
bool healed[NODES], may_hold[NODES] = true, undo[NODES], release[NODES];
bool second;                                 /* a heal of node 2 behind the other one */
byte over, renewals, deleted;                /* A's; deleted: by B's release */
bool relies, released, reported, late, taken; /* relies: B. late: A's renewal began after the release was reported */

#define COUNT(a, x) ((a[0] == x) + (a[1] == x) + (a[2] == x))
#define ANY(a)      (a[0] || a[1] || a[2])
#define DELETE(n)   holder[n] = (holder[n] == T -> NOBODY : holder[n])
#define SET(n)      holder[n] = (holder[n] == NOBODY -> T : holder[n])

active [NODES] proctype Node() {
  byte n = _pid;
end:
  do
  :: d_step { vote[n] == ASKED -> vote[n] = (holder[n] == T -> GRANTED : ABSENT) }
  :: d_step { heal[n] == SENT || (heal[n] == RESENT && !undo[n]) -> SET(n); heal[n] = (holder[n] == T -> DONE : HELD) }
  :: d_step { heal[n] == SENT && n == 2 -> heal[n] = NOSCRIPT }
  :: d_step { second && n == 2 && heal[n] != SENT -> second = false; SET(n) }
  :: d_step { undo[n] && heal[n] != SENT && !(second && n == 2) -> undo[n] = false; DELETE(n) }
  :: d_step { release[n] -> release[n] = false; deleted = deleted + (holder[n] == T); DELETE(n) }
  :: d_step { n == 2 && !forgot -> forgot = true; DELETE(n) }
  od
}

/* Sends the undo to these nodes. */
#define END(why, nodes) over = why; for (n : 0 .. NODES - 1) { undo[n] = nodes; vote[n] = NONE }; n = 0
#define TAKE(n)         d_step { heal[n] >= DONE && heal[n] != NOSCRIPT -> may_hold[n] = may_hold[n] && heal[n] != HELD; heal[n] = NONE }

active proctype Holder() {
  byte n;
end:
  do
  :: d_step { !over && !ANY(vote) && renewals < RENEWALS && (!ANY(release) || !APART) ->
       renewals++;
       late = reported;
       for (n : 0 .. NODES - 1) { vote[n] = ASKED };
       n = 0
     }
  :: d_step { !over && COUNT(vote, GRANTED) >= QUORUM && COUNT(vote, ASKED) == 0 ->
       assert(!late);
       for (n : 0 .. NODES - 1) {
         healed[n] = healed[n] && heal[n] != NONE;
         if
         :: vote[n] == ABSENT && heal[n] == NONE -> heal[n] = SENT; healed[n] = true; may_hold[n] = true
         :: vote[n] == ABSENT && heal[n] != NONE -> second = (n == 2 && !ONE)
         :: else
         fi;
         vote[n] = NONE
       };
       n = 0
     }
  :: d_step { !over && COUNT(vote, ABSENT) >= QUORUM -> END(GONE, UNDO && healed[n]) }
  :: d_step { !over -> released = true; relies = false; END(RELEASED, may_hold[n]) }
  :: d_step { !over -> END(EXPIRED, !LEFT && may_hold[n]) }
  :: TAKE(0)
  :: TAKE(1)
  :: TAKE(2)
  :: d_step { heal[2] == NOSCRIPT -> heal[2] = (!over -> SENT : (RESEND -> NONE : RESENT)) }
  od
}

active proctype Other() {
end:
  d_step { COUNT(holder, T) >= QUORUM && !over -> relies = true };
  d_step { !ANY(vote) || !APART ->
    released = true;
    relies = false;
    release[0] = true; release[1] = true; release[2] = true
  };
  d_step { !ANY(release) -> reported = (deleted >= QUORUM) }
}

active proctype Contender() {
  byte n;
end:
  do
  :: d_step { !taken && (holder[0] == NOBODY) + (holder[1] == NOBODY) + (holder[2] == NOBODY && !forgot) >= QUORUM ->
       assert((over || released) && !relies);
       taken = true;
       for (n : 0 .. NODES - 1) { holder[n] = (holder[n] == NOBODY -> C : holder[n]) };
       n = 0
     }
  :: d_step { !taken && holder[2] == NOBODY -> holder[2] = C } /* an attempt, which it undoes */
  :: d_step { !taken && holder[2] == C -> holder[2] = NOBODY }
  od
}

active proctype End() {
end:
  d_step { released && (over == RELEASED || over == GONE) && !ANY(undo) && !ANY(release) && !ANY(heal) && !second ->
    assert(COUNT(holder, T) == 0)
  }
}
