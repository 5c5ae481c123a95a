/*
 * Clients whose max_ttl differs, for spin to look at all that can happen: 700,000 states, 2 s. scripts/model.sh runs it.
 *
 * The nodes have markers of clients with a short max_ttl. A joins with a longer one, and acquires a lock with a ttl as long, from any majority. Then nodes lose
 * their keys, two in all: one that restarts keeps its marker, which is another server's then; one that is flushed does not. The clients read markers whenever
 * they like, and write those anew that are missing, of another server, or with too small a max_ttl. B, whose ttl and own max_ttl are short, asks one node after
 * the other for the lock while A relies on it.
 *
 * B does not get it, because of six rules. Each can be turned off, and then it does:
 * LIMIT   a client's ttl is not above its max_ttl (src/client/options.c)
 * LARGEST the largest max_ttl that a client has read from any node counts on every node (quorum/guard.c, quorum_guard_learn)
 * KEEPS   a marker that is written anew keeps the larger max_ttl (quorum/marker.c, quorum_marker_judge)
 * WRITES  a client that knows a larger one writes it to the other markers (the same; src/node/guard.c, take_max_ttl)
 * PROOF   a grant counts only if the marker behind it is the one that the client has judged (quorum/attest.c, quorum_attest_prove)
 * VOIDS   grants of nodes in quarantine by a max_ttl that was learned after them do not count (quorum/guard.c, quorum_guard_voids)
 * KNOWN   no rule, but the limit that docs/design.md names: a flushed node's max_ttl is in all other markers. A client that has reached only nodes that forgot
 *         cannot know it.
 */
#include "common.pml"
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef LARGEST
#define LARGEST 1
#endif
#ifndef KEEPS
#define KEEPS 1
#endif
#ifndef WRITES
#define WRITES 1
#endif
#ifndef PROOF
#define PROOF 1
#endif
#ifndef VOIDS
#define VOIDS 1
#endif
#ifndef KNOWN
#define KNOWN 1
#endif

#define SHORT  2
#define LONG   4
#define LOSSES 2
#define NOBODY 0
#define A      0
#define B      1

#define NONE 0 /* no marker */

/* What a client knows of a node's marker. */
#define NEVER  0
#define BEFORE 1 /* another one than there is */
#define JUDGED 2

#define AT(c, n) ((c) * NODES + (n))
#define OWN      (LIMIT -> LONG : SHORT) /* A's max_ttl */

byte holder[NODES];
byte says[NODES] = SHORT, age[NODES] = LONG; /* the marker: its max_ttl; ticks since its server can be relied on, up to LONG */
bool lost[NODES];                             /* the server has restarted since */

byte knows[2] = SHORT; /* the largest max_ttl */
byte judged[2 * NODES];
bool asking, asked[NODES], holds, held;
byte granted[2], ticks, began, losses;

#define CHANGED(c, n) judged[AT(c, n)] = (judged[AT(c, n)] == JUDGED -> BEFORE : judged[AT(c, n)])

/* A client reads a marker, and writes it anew. */
inline look(c, n) {
  if
  :: says[n] == NONE || lost[n] ->
     says[n] = (KEEPS && says[n] > knows[c] -> says[n] : knows[c]);
     age[n] = 0;
     lost[n] = false;
     CHANGED(1 - c, n)
  :: says[n] != NONE && !lost[n] && says[n] < knows[c] && WRITES -> says[n] = knows[c]; CHANGED(1 - c, n)
  :: else
  fi;
  judged[AT(c, n)] = JUDGED;
  if
  :: LARGEST && says[n] > knows[c] ->
     knows[c] = says[n];
     granted[c] = (VOIDS -> 0 : granted[c])
  :: else
  fi
}

#define IS_OVER(c, n) (age[n] >= MAX(knows[c], says[n]))
#define COUNTS(c, n) (judged[AT(c, n)] == JUDGED -> IS_OVER(c, n) : !PROOF && judged[AT(c, n)] == BEFORE)

inline execute(c, n) {
  if
  :: holder[n] == NOBODY ->
     holder[n] = c + 1;
     granted[c] = granted[c] + COUNTS(c, n)
  :: else
  fi
}

#define LOOK(c, n) d_step { (c == B || held) && (judged[AT(c, n)] != JUDGED || (says[n] < knows[c] && WRITES)) -> look(c, n) }
#define VOTE(n) d_step { asking && !asked[n] && judged[AT(B, n)] != NEVER -> asked[n] = true; execute(B, n) }

/* Joins, and acquires the lock at once: redlock.pml has late requests. */
active proctype Holder() {
  byte n;
end:
  atomic {
    !asking && !holds ->
    knows[A] = OWN;
    do
    :: n < NODES -> d_step { look(A, n); execute(A, n); n++ }
    :: n < NODES -> d_step { look(A, n); n++ } /* without the lock */
    :: !KNOWN && n < NODES -> n++ /* cannot reach it */
    :: n == NODES -> break
    od;
    n = 0;
    held = (granted[A] >= QUORUM)
  };
  do
  :: LOOK(A, 0)
  :: LOOK(A, 1)
  :: LOOK(A, 2)
  od
}

active proctype Other() {
end:
  do
  :: LOOK(B, 0)
  :: LOOK(B, 1)
  :: LOOK(B, 2)
  :: d_step { !asking && !holds && held -> asking = true; began = ticks }
  :: VOTE(0)
  :: VOTE(1)
  :: VOTE(2)
  :: d_step { asking && granted[B] >= QUORUM && began == ticks -> asking = false; holds = true; assert(false) }
  od
}

active [NODES] proctype Node() {
  byte n = _pid - 2;
end:
  do
  :: d_step { held && losses < LOSSES && (!KNOWN || !WRITES || (says[(n + 1) % NODES] >= knows[A] && says[(n + 2) % NODES] >= knows[A])) ->
       losses++;
       holder[n] = NOBODY;
       says[n] = NONE;
       CHANGED(A, n);
       CHANGED(B, n)
     }
  :: d_step { held && losses < LOSSES && says[n] != NONE && !lost[n] ->
       losses++;
       holder[n] = NOBODY;
       lost[n] = true;
       CHANGED(A, n);
       CHANGED(B, n)
     }
  od
}

active proctype Time() {
  byte i;
end:
  do
  :: d_step { ticks < LONG - 2 -> /* beyond that A does not rely on the lock */
       ticks++;
       for (i : 0 .. NODES - 1) { age[i] = (age[i] < LONG -> age[i] + 1 : LONG) };
       i = 0
     }
  od
}
