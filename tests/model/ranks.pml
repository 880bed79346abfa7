// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one synchronous job agree on a pass. In each step a rank's
// thread launches two collectives, each of which is done when all ranks have
// launched it; the host may wait for one, as for a loss. At the end of a step
// the ranks vote, and all compact or none does.
//
//   DEATH        a rank may die at any time: others' collectives are aborted, and
//                its vote is not waited for
//   DEADLINE     a vote that takes long is a no, for who waited
//   FAILURE      an allocation between the two collectives fails, and closes its
//                rank's gate by itself to move; each rank launches them in an
//                order of its own
//
// Each of these must be reached, or nothing was proven:
//
//   REACH_PASS           all have compacted
//   REACH_GIVEN_UP       (FAILURE) the gate was not closed in time
//
// Each of these breaks one rule, and must be found out:
//
//   BUG_AGREE_INSIDE_DRAIN   a rank closes its gate, and waits for the other then
//   BUG_NO_MAX_WAIT          (FAILURE) the gate is awaited for ever

#define RANKS 2
#define STEPS 2

#define OTHER (1 - r)
#define BIT(c) (1 << (c))

byte launched[RANKS];  // bit c: collective c of all steps
byte done[RANKS];
bit is_open[RANKS] = 1;
bit inside[RANKS];  // a scope
bit dead[RANKS];
byte voted[RANKS];       // steps
byte yes[RANKS];         // bit s: in step s
byte compacted[RANKS];   // bit s: after step s
bit is_over[RANKS];

#define IS_DRAINED(r) (launched[r] == done[r])

inline LaunchCollective(c) {
  // Scopes are entered before, and over after a launch.
  atomic {
    is_open[r] ->
    inside[r] = 1
  };
  launched[r] = launched[r] | BIT(c);
  inside[r] = 0
}

// Closes the gate, moves, and opens it.
inline Compact(closed) {
  is_open[r] = 0;
  closed = 0;
  if
  :: !inside[r] && IS_DRAINED(r) -> closed = 1
#ifdef FAILURE
#ifndef BUG_NO_MAX_WAIT
  :: true
#endif
#endif
  fi;
  // Nothing is in flight while it moves.
  assert(!closed || IS_DRAINED(r));
#ifdef REACH_GIVEN_UP
  assert(closed);
#endif
  is_open[r] = 1
}

// Whether all want to compact: the same answer for all.
inline Vote(s, agreed) {
  atomic {
    if
    :: yes[r] = yes[r] | BIT(s)
    :: true
    fi;
    voted[r] = (s) + 1
  };
  agreed = 0;
  if
  :: voted[OTHER] > (s) || dead[OTHER] ->
    agreed = (yes[r] >> (s)) & 1 && (dead[OTHER] || ((yes[OTHER] >> (s)) & 1))
#ifdef DEADLINE
  :: true
#endif
  fi
}

proctype Rank(byte r) {
  byte s;
  bit agreed, closed;
  do
  :: s < STEPS ->
    if
#ifdef FAILURE
    :: r == 1 -> LaunchCollective(2 * s + 1)
    :: r == 0 -> LaunchCollective(2 * s)
#else
    :: LaunchCollective(2 * s)
#endif
    fi;
#ifdef FAILURE
    if
    :: Compact(closed)
    :: true
    fi;
#endif
    if
#ifdef FAILURE
    :: r == 1 -> LaunchCollective(2 * s)
    :: r == 0 -> LaunchCollective(2 * s + 1)
#else
    :: LaunchCollective(2 * s + 1)
#endif
    fi;
    // The host may wait for what it launched, but need not.
    if
    :: true -> IS_DRAINED(r)
    :: true
    fi;
#ifdef BUG_AGREE_INSIDE_DRAIN
    voted[r] = s + 1;
#else
    Vote(s, agreed);
    if
    :: agreed ->
      Compact(closed);
      if
      :: closed -> compacted[r] = compacted[r] | BIT(s)
      :: else
      fi
    :: else
    fi;
#endif
    closed = 0;
    agreed = 0;
    s++
  :: else -> break
  od;
  is_over[r] = 1
}

#ifdef BUG_AGREE_INSIDE_DRAIN
// Decides by itself that its rank needs a pass.
proctype Controller(byte r) {
  is_open[r] = 0;
  !inside[r] && IS_DRAINED(r);
  // Until the other rank has come as far.
  voted[OTHER] > voted[r] || is_over[OTHER];
  is_open[r] = 1
}
#endif

#define IS_READY(c) \
  ((launched[r] & BIT(c)) && !(done[r] & BIT(c)) && \
   ((launched[OTHER] & BIT(c)) || dead[OTHER]))

proctype Device(byte r) {
end:
  do
  :: d_step { IS_READY(0) -> done[r] = done[r] | BIT(0) }
  :: d_step { IS_READY(1) -> done[r] = done[r] | BIT(1) }
  :: d_step { IS_READY(2) -> done[r] = done[r] | BIT(2) }
  :: d_step { IS_READY(3) -> done[r] = done[r] | BIT(3) }
  od
}

#ifdef DEATH
// The last step of a rank, as far as others can tell.
proctype Death() {
end:
  if
  :: atomic { !is_over[1] -> dead[1] = 1 }
  :: true
  fi
}
#endif

init {
  atomic {
    run Rank(0);
    run Rank(1);
#ifdef BUG_AGREE_INSIDE_DRAIN
    run Controller(0);
#endif
    run Device(0);
    run Device(1);
#ifdef DEATH
    run Death();
#endif
  }
  is_over[0] && is_over[1];
#ifndef DEATH
#ifndef DEADLINE
#ifndef FAILURE
  // In the same steps.
  assert(compacted[0] == compacted[1]);
#endif
#endif
#endif
#ifdef REACH_PASS
  assert(compacted[0] == 0);
#endif
}
