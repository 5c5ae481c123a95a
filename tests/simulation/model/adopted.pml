/*
 * A lock that two processes hold by one token, for spin to look at all that can happen: 210,000 states, 2 s. scripts/model.sh runs it.
 *
 * A renews the lock, and heals the nodes that lack it; B has adopted it, and extends it once. Each reaches any of the nodes. Two nodes lose their data, at any
 * time, and are in quarantine then. A that finds the lock gone undoes it where it has healed it. C acquires a lock that is free. Every request is executed at
 * once: heal.pml has late ones. Time goes by in ticks, as in redlock.pml.
 *
 * C does not get the lock while A or B relies on it. Each of these can be turned off, and then it does:
 * SINCE    only nodes that were healed since a majority last confirmed the lock are undone (src/lock/lease.c, rl_lease_step)
 * LOSSES 3 no rule, but the limit that docs/design.md names
 */
#include "common.pml"
#ifndef SINCE
#define SINCE 1
#endif
#ifndef LOSSES
#define LOSSES 2
#endif

#define TTL    4
#define TICKS  7
#define NOBODY 0
#define T      1

byte holder[NODES] = T, lives[NODES] = TTL, quarantine[NODES];
bool lacks[NODES], healed[NODES];
byte valid_a = TTL - 1, valid_b, granted, absent, ticks, losses;
bool over, extended;

/* Asks the nodes that are reached. */
inline extend() {
  granted = 0;
  absent = 0;
  n = 0;
  do
  :: n < NODES -> d_step {
       lacks[n] = (holder[n] != T);
       if
       :: !lacks[n] -> lives[n] = TTL; granted++
       :: else -> absent++
       fi;
       n++
     }
  :: n < NODES -> lacks[n] = false; n++
  :: n == NODES -> break
  od
}

/* Leaves nothing behind that does not matter any more: fewer states. */
inline forget() {
  d_step {
    for (n : 0 .. NODES - 1) { lacks[n] = false };
    n = 0;
    granted = 0;
    absent = 0
  }
}

active proctype Holder() {
  byte n;
end:
  do
  :: atomic { !over && valid_a > 0 ->
       extend();
       if
       :: granted >= QUORUM ->
          valid_a = TTL - 1;
          n = 0;
          do
          :: n < NODES -> d_step {
               healed[n] = (healed[n] && !SINCE) || (lacks[n] && holder[n] == NOBODY);
               if
               :: lacks[n] && holder[n] == NOBODY -> holder[n] = T; lives[n] = TTL
               :: else
               fi;
               n++
             }
          :: n < NODES -> healed[n] = healed[n] && !SINCE; n++
          :: n == NODES -> break
          od
       :: granted < QUORUM && absent >= QUORUM -> d_step {
            over = true;
            valid_a = 0;
            for (n : 0 .. NODES - 1) {
              holder[n] = (healed[n] && holder[n] == T -> NOBODY : holder[n]);
              lives[n] = (healed[n] -> 0 : lives[n]);
              healed[n] = false
            }
          }
       :: else
       fi;
       forget()
     }
  od
}

active proctype Other() {
  byte n;
end:
  atomic { !extended ->
    extended = true;
    extend();
    valid_b = (granted >= QUORUM -> TTL - 1 : 0);
    forget()
  }
}

active [NODES] proctype Node() {
  byte n = _pid - 2;
end:
  do
  :: d_step { losses < LOSSES && holder[n] == T -> losses++; holder[n] = NOBODY; lives[n] = 0; quarantine[n] = TTL }
  od
}

#define IS_FREE(n) (holder[n] == NOBODY && quarantine[n] == 0)

active proctype Contender() {
end:
  d_step { IS_FREE(0) + IS_FREE(1) + IS_FREE(2) >= QUORUM -> assert(valid_a == 0 && valid_b == 0) }
}

active proctype Time() {
  byte i;
end:
  do
  :: d_step { ticks < TICKS ->
       ticks++;
       for (i : 0 .. NODES - 1) {
         LESS(lives[i]);
         holder[i] = (lives[i] > 0 -> holder[i] : NOBODY);
         healed[i] = healed[i] && holder[i] == T;
         LESS(quarantine[i])
       };
       i = 0;
       LESS(valid_a);
       LESS(valid_b)
     }
  od
}
