/*
 * Readers with different ttls, for spin to look at all that can happen: 1,500,000 states, 4 s. scripts/model.sh runs it.
 *
 * A node keeps the end of each reader, and one expiry for them all. Two readers enter, extend with another ttl and leave, and a writer acquires the lock as
 * soon as a majority of the nodes has no reader. The first one may be a writer that holds the lock on a majority and becomes a reader. A command reaches each
 * node as late as it likes. The reply to an extension may be lost: the reader then relies on the end that it had before. Time goes by in ticks; a validity is one tick shorter than the ttl.
 *
 * A writer never holds the lock beside a reader, because of five rules, four of them of src/node/scripts/include/shared.lua. Each can be turned off, and then
 * one does:
 * ENTER   a reader that enters does not shorten the expiry (enter)
 * LONGER  an extension does not shorten the reader's end (the same)
 * LEAVE   a reader that leaves sets the expiry to the last end of the readers that stay (leave)
 * KEPT    a downgrade keeps the end of the writer's key (convert)
 * COUNTS  the client counts itself as a reader from the first request of a downgrade on (src/client/extend.c, downgrade_start)
 */
#include "common.pml"
#ifndef ENTER
#define ENTER 1
#endif
#ifndef LONGER
#define LONGER 1
#endif
#ifndef LEAVE
#define LEAVE 1
#endif
#ifndef KEPT
#define KEPT 1
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

#define LONG   4
#define SHORT  2
#define TICKS  3

#define AT(r, n)  ((r) * NODES + (n))

byte lasts[2 * NODES]; /* ticks that the reader's entry lasts */
byte expiry[NODES];    /* ticks that the key lasts, with all entries */
bool writer[NODES];
byte wanted[2 * NODES]; /* on the way: the ttl of an entry or extension */
bool leaving[2 * NODES];
byte valid[2], valid_writer, ticks;
byte began[2];
bool entered[2];
bool text[NODES], excludes; /* reader 0's key is a writer's; it relies on being one */

inline check() {
  assert(valid_writer == 0 || (valid[0] == 0 && valid[1] == 0));
  assert(!excludes || valid[0] == 0 || valid[1] == 0)
}

/* A reader's command arrives. */
inline execute(r, n) {
  if
  :: leaving[AT(r, n)] ->
     leaving[AT(r, n)] = false;
     wanted[AT(r, n)] = 0;
     if
     :: text[n] && r == 0 -> text[n] = false; expiry[n] = 0
     :: lasts[AT(r, n)] > 0 ->
        lasts[AT(r, n)] = 0;
        expiry[n] = (LEAVE || lasts[AT(1 - (r), n)] == 0 -> lasts[AT(1 - (r), n)] : 1) /* 1: an end that is no reader's */
     :: else
     fi
  :: else ->
     if
     :: text[n] && r == 0 -> /* its end stays */
        text[n] = false;
        lasts[AT(0, n)] = (KEPT -> expiry[n] : wanted[AT(0, n)]);
        expiry[n] = lasts[AT(0, n)]
     :: else
     fi;
     if
     :: !writer[n] && !text[n] && (lasts[AT(r, n)] > 0 || !entered[r]) ->
        lasts[AT(r, n)] = (LONGER -> MAX(lasts[AT(r, n)], wanted[AT(r, n)]) : wanted[AT(r, n)]);
        expiry[n] = (ENTER -> MAX(expiry[n], lasts[AT(r, n)]) : lasts[AT(r, n)])
     :: else
     fi;
     wanted[AT(r, n)] = 0
  fi
}

active [NODES] proctype Node() {
  byte n = _pid;
end:
  do
  :: d_step { wanted[AT(0, n)] > 0 || leaving[AT(0, n)] -> execute(0, n) }
  :: d_step { wanted[AT(1, n)] > 0 || leaving[AT(1, n)] -> execute(1, n) }
  od
}

#define HAS(r, n)   (lasts[AT(r, n)] > 0 && wanted[AT(r, n)] == 0 && expiry[n] > 0)
#define HAS_MOST(r) (HAS(r, 0) + HAS(r, 1) + HAS(r, 2) >= QUORUM)
#define ANY(a)  (a[0] || a[1] || a[2])
#define IDLE(r)     (!wanted[AT(r, 0)] && !wanted[AT(r, 1)] && !wanted[AT(r, 2)])

/* A reader that gets no majority in time does nothing more; its entries end. */
active [2] proctype Reader() {
  byte r = _pid - NODES;
  byte n, ends;
end:
  if
  :: d_step { r == 0 && !ANY(expiry) && !ANY(writer) && ticks == 0 ->
       for (n : 0 .. QUORUM - 1) { text[n] = true; expiry[n] = LONG };
       n = 0;
       entered[0] = true;
       excludes = true;
       valid[0] = LONG - 1
     };
     d_step { valid[0] > 0 -> /* the downgrade */
       for (n : 0 .. NODES - 1) { wanted[AT(0, n)] = 1 };
       n = 0;
       excludes = !COUNTS
     };
     d_step { !excludes || HAS_MOST(0) -> excludes = false }
  :: d_step {
       ends = (r == 0 -> LONG : SHORT) - 1;
       for (n : 0 .. NODES - 1) { wanted[AT(r, n)] = ends + 1 };
       began[r] = ticks;
       n = 0
     };
     d_step { HAS_MOST(r) && ends > ticks - began[r] -> entered[r] = true; valid[r] = ends - (ticks - began[r]); check() }
  fi;
  d_step { valid[r] > 0 && IDLE(r) -> /* extends with the other ttl; the replies are lost */
    for (n : 0 .. NODES - 1) { wanted[AT(r, n)] = (r == 0 -> SHORT : LONG) };
    n = 0
  };
  d_step { valid[r] > 0 && IDLE(r) ->
    valid[r] = 0;
    for (n : 0 .. NODES - 1) { leaving[AT(r, n)] = true };
    n = 0
  }
}

/* Gets the lock at once, or leaves nothing. */
active proctype Writer() {
  byte n;
end:
  d_step { (expiry[0] == 0) + (expiry[1] == 0) + (expiry[2] == 0) >= QUORUM ->
    for (n : 0 .. NODES - 1) { writer[n] = (expiry[n] == 0) };
    n = 0;
    valid_writer = TICKS;
    check()
  }
}

active proctype Time() {
  byte i;
end:
  do
  :: d_step { ticks < TICKS ->
       ticks++;
       for (i : 0 .. 2 * NODES - 1) { LESS(lasts[i]) };
       for (i : 0 .. NODES - 1) {
         LESS(expiry[i]);
         text[i] = text[i] && expiry[i] > 0;
         lasts[AT(0, i)] = (expiry[i] > 0 -> lasts[AT(0, i)] : 0);
         lasts[AT(1, i)] = (expiry[i] > 0 -> lasts[AT(1, i)] : 0)
       };
       i = 0;
       LESS(valid[0]);
       LESS(valid[1]);
       LESS(valid_writer)
     }
  od
}
