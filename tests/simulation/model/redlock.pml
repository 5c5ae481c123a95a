/*
 * Redlock with three nodes and two clients, for spin to look at all that can happen. scripts/model.sh runs it.
 *
 * Time goes by in ticks, which may come at any moment. A key lives TTL ticks at its node. A client's validity is one tick less, from its first send: the
 * missing one is the drift. Commands, and the undos behind them, are under way until the node executes them: as late as it likes, but in order, as on one
 * connection. Nodes may restart: they forget their locks, and their connections break. They keep their fencing records, which are on others, too.
 * A token is raised in one step. Clients give up whenever they like, ask on the word of clocks that show anything, and release or hold until the end.
 *
 * GUARD 1: a node that has forgotten counts for nobody for MAX_TTL ticks (quorum/guard.c, quorum_quarantine). Then two clients never hold the lock at once
 * (EXCLUSION 1 asserts it); with GUARD 0 they may. In both cases fencing tokens (quorum/fence.h) are unique, and above all that were known when the acquire
 * began.
 */
#include "common.pml"
#ifndef GUARD
#define GUARD 1
#endif
#ifndef EXCLUSION
#define EXCLUSION 1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef TICKS
#define TICKS 2
#endif

#define CLIENTS 2
#define TTL     2
#define MAX_TTL TTL
#define NOBODY  0
#define RAISES  1

/* Each attempt has a token of its own. */
#define TOKEN(c) (1 + (c) * ATTEMPTS + attempt[c])
#define AT(c, n) ((c) * NODES + (n))

/* Nodes. */
byte holder[NODES];     /* token; NOBODY: free */
byte lives[NODES];      /* ticks that its key still lives */
byte quarantine[NODES]; /* ticks that it still counts for nobody */
byte record[NODES];     /* the largest fencing token told */

/* What is under way. */
byte ask[CLIENTS * NODES];  /* token to set */
byte undo[CLIENTS * NODES]; /* token to delete, behind that */

/* Clients. */
byte attempt[CLIENTS];
bool asking[CLIENTS];
bool holding[CLIENTS];
byte granted[CLIENTS]; /* how many nodes */
byte valid[CLIENTS];   /* ticks that the lock is still its own */
byte proposal[CLIENTS];
byte seen[CLIENTS];    /* the largest record told */
byte floor[CLIENTS];   /* the largest token that anybody had when its acquire began */

byte ticks, restarts, largest, told;
bit used[32]; /* tokens that somebody had */

inline execute(c, n) {
  if
  :: ask[AT(c, n)] != NOBODY ->
     if
     :: holder[n] == NOBODY ->
        holder[n] = ask[AT(c, n)];
        lives[n] = TTL;
        told = record[n];
        record[n] = (proposal[c] > record[n] -> proposal[c] : record[n]);
        if /* an answer that comes after the client gave up counts for nothing, nor does one of a node in quarantine */
        :: asking[c] && undo[AT(c, n)] == NOBODY && quarantine[n] == 0 ->
           granted[c]++;
           seen[c] = (told > seen[c] -> told : seen[c])
        :: else
        fi
     :: else
     fi;
     ask[AT(c, n)] = NOBODY
  :: else ->
     if
     :: holder[n] == undo[AT(c, n)] -> holder[n] = NOBODY; lives[n] = 0
     :: else
     fi;
     undo[AT(c, n)] = NOBODY
  fi;
  told = 0
}

active [NODES] proctype Node() {
  byte n = _pid;
  byte c;
end:
  do
  :: atomic { ask[AT(0, n)] != NOBODY || undo[AT(0, n)] != NOBODY -> d_step { execute(0, n) } }
  :: atomic { ask[AT(1, n)] != NOBODY || undo[AT(1, n)] != NOBODY -> d_step { execute(1, n) } }
  :: d_step { n == 0 && restarts < RESTARTS -> /* one is as good as another */
       restarts++;
       holder[n] = NOBODY;
       lives[n] = 0;
       quarantine[n] = GUARD * MAX_TTL;
       ask[AT(0, n)] = NOBODY; undo[AT(0, n)] = NOBODY;
       ask[AT(1, n)] = NOBODY; undo[AT(1, n)] = NOBODY;
     }
  od
}

inline send_undo(c) {
  for (n : 0 .. NODES - 1) {
    undo[AT(c, n)] = TOKEN(c)
  };
  n = 0;
  asking[c] = false;
  holding[c] = false;
  granted[c] = 0;
  valid[c] = 0;
  seen[c] = 0
}

/* One more than was seen, on the nodes that still hold the token; counted where the record was below it. */
inline raise(c) {
  d_step {
    proposal[c] = seen[c] + 1;
    granted[c] = 0;
    for (n : 0 .. NODES - 1) {
      if
      :: holder[n] == TOKEN(c) && quarantine[n] == 0 ->
         if
         :: record[n] < proposal[c] -> record[n] = proposal[c]; granted[c]++
         :: else -> seen[c] = (record[n] > seen[c] -> record[n] : seen[c])
         fi
      :: else
      fi
    };
    n = 0
  }
}

active [CLIENTS] proctype Client() {
  byte c = _pid - NODES;
  byte n, raises;
  do
  :: attempt[c] < ATTEMPTS ->
     /* Links that still owe an answer are not asked. */
     atomic {
       (undo[AT(c, 0)] == NOBODY && undo[AT(c, 1)] == NOBODY && undo[AT(c, 2)] == NOBODY) ->
       if /* what its clock says */
       :: proposal[c] = 1
       :: c == 1 -> proposal[c] = 2
       fi;
       d_step {
         for (n : 0 .. NODES - 1) {
           ask[AT(c, n)] = TOKEN(c)
         };
         n = 0;
         raises = 0;
         asking[c] = true;
         valid[c] = TTL - 1;
         floor[c] = largest
       }
     };
     if
     :: atomic { granted[c] >= QUORUM && valid[c] > 0 -> asking[c] = false };
        do
        :: seen[c] < proposal[c] && granted[c] >= QUORUM -> break
        :: else ->
           if
           :: raises < RAISES -> raises++; raise(c)
           :: else -> break
           fi
        od;
        if
        :: d_step { seen[c] < proposal[c] && granted[c] >= QUORUM && valid[c] > 0 ->
             holding[c] = true;
             assert(proposal[c] > floor[c]);
             assert(!used[proposal[c]]);
             used[proposal[c]] = 1;
             largest = (proposal[c] > largest -> proposal[c] : largest);
             assert(!EXCLUSION || !(holding[1 - c] && valid[1 - c] > 0))
           }
        :: else
        fi
     :: true /* it gives up, or has to */
     fi;
     d_step { send_undo(c); attempt[c]++ } /* released, lost, or not had */
  :: else -> break
  od
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
         LESS(quarantine[i])
       };
       for (i : 0 .. CLIENTS - 1) {
         LESS(valid[i])
       };
       i = 0
     }
  od
}
