// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How live memory is moved while threads allocate, free and launch: what
// docs/locking.md and docs/walkthrough-pass.md say, small enough that every
// interleaving can be looked at. tests/model/verify does so.
//
// Two granules of two slots; three blocks, each on a virtual granule of its own:
// block 0 takes slot 0, block 1 slot 1, block 2 both. Blocks 0 and 1 may share a
// granule, and must where block 2 is to have one.
//
//   LEVEL=1     the mover closes the launch gate, and moves what it likes
//   LEVEL=2     it moves what is declared idle, and closes no gate
//   CAPTURE     block 0's thread captures graphs inside its scopes
//   WAITER      instead of a mover, a thread that allocates block 2: it makes room
//               where there is none, and takes that before anybody else can;
//               inside a scope of its own it is refused
//   ONE_THREAD  block 1 has none
//   INTERPRETER threads run under an interpreter's lock; so do callers of the
//               mover, or else its move hook does
//
// Each of these must be reached, or nothing was proven:
//
//   REACH_MOVE               a block was moved
//   REACH_ROLLBACK           a remap failed, and all is as it was
//   REACH_MAX_WAIT           (1) the gate was not closed in time
//   REACH_LEFT_ALONE         (2) a block was freed or used during its move
//   REACH_ROOM_MADE          (WAITER) block 2 lives where another moved away
//   REACH_REFUSED            (WAITER) there was none inside a scope
//
// Each of these breaks one rule of the protocol, and must be found out:
//
//   BUG_REMAP_BEFORE_COPY    the copy is not waited for
//   BUG_FREE_IGNORED         (2) a block freed during its move is moved on
//   BUG_REUSE_IGNORED        (2) likewise one that was used again
//   BUG_OPEN_BEFORE_ACCESS   (1) the gate opens before access is set
//   BUG_TOKEN_BEFORE_EXIT    (1) tokens are read before scopes are over
//   BUG_NO_ROLLBACK          a failed remap leaves its block unmapped
//   BUG_MOVE_IN_SCOPE        (WAITER) room is made inside a scope
//   BUG_WAIT_AT_GATE_LOCKED  (INTERPRETER) a thread waits at the gate with the
//                            interpreter's lock
//   BUG_NO_MAX_WAIT          (INTERPRETER) who holds that lock waits for scopes
//                            for ever

#ifndef LEVEL
#define LEVEL 1
#endif

#define BLOCKS 3
#define GRANULES 2
#define SLOTS 2
#define NONE 9

#define READ 0
#define WRITE 1

// The block in a slot, and which of two contents.
#define VALUE(b, version) ((b) * 2 + (version) + 1)
#define CELL(g, slot) cell[(g) * SLOTS + (slot)]
#define OCCUPIED(g, slot) occupied[(g) * SLOTS + (slot)]
#define SLOT(b) ((b) == 1 -> 1 : 0)
#define LAST_SLOT(b) ((b) == 0 -> 0 : 1)

// --- The device ---

byte mapped[BLOCKS] = NONE;  // the granule beneath a block's addresses
bit accessible[BLOCKS];
byte cell[4];
bit version[BLOCKS];  // of what kernels wrote last
bit is_written[BLOCKS];

// A stream for each block, of one kernel at a time. Whether there is one; whether
// the last token stands for it.
chan kernels0 = [1] of { bit };
chan kernels1 = [1] of { bit };
chan kernels2 = [1] of { bit };
bit in_flight[BLOCKS];
bit token[BLOCKS];
bit idle_token[BLOCKS];  // LEVEL 2: before the block was declared idle

bit is_copying;
byte copied_block, copied_from, copied_to;

// --- The pool ---

bit mutex;
bit turn;
byte booked[BLOCKS] = NONE;  // what the books say of `mapped`
bit occupied[4];
bit live[BLOCKS];
bit cached[GRANULES];  // in the store's cache: nobody's
bit held[GRANULES];    // LEVEL 2: a move goes on there
bit idle[BLOCKS];
bit was_used[BLOCKS];  // since the move began that goes on

bit is_open = 1;  // the gate
byte open_scopes;
byte waiting;  // at the closed gate
byte owed;     // of those, who may enter before it closes again

bit is_capturing;
bit interpreter;  // its lock

#ifdef INTERPRETER
#define TAKE_INTERPRETER atomic { !interpreter -> interpreter = 1 };
#define LEAVE_INTERPRETER interpreter = 0;
#else
#define TAKE_INTERPRETER
#define LEAVE_INTERPRETER
#endif

// What holds whenever nobody is at the books.
inline Check() {
  d_step {
    byte b_ = 0;
    byte g_ = 0;
    do
    :: b_ < BLOCKS ->
      // I3; and I4: what is mapped can be used, but between unmap and set-access.
      assert(booked[b_] == mapped[b_]);
      assert(mapped[b_] == NONE || accessible[b_]);
      assert(!live[b_] || mapped[b_] != NONE);
      b_++
    :: else -> break
    od;
    do
    :: g_ < GRANULES ->
      // I2, by each slot: it is taken if one live block is there, by no two.
      assert(OCCUPIED(g_, 0) == ((live[0] && mapped[0] == g_) +
                                 (live[2] && mapped[2] == g_)));
      assert(OCCUPIED(g_, 1) == ((live[1] && mapped[1] == g_) +
                                 (live[2] && mapped[2] == g_)));
      // I6
      assert(!cached[g_] || (mapped[0] != g_ && mapped[1] != g_ &&
                             mapped[2] != g_));
      assert(!cached[g_] || !is_copying || (copied_from != g_ &&
                                            copied_to != g_));
      g_++
    :: else -> break
    od;
    b_ = 0;
    g_ = 0
  }
}

inline Lock() { atomic { !mutex -> mutex = 1 } }
inline Unlock() {
  Check();
  mutex = 0
}

inline Occupy(b, g) {
  OCCUPIED(g, SLOT(b)) = 1;
  OCCUPIED(g, LAST_SLOT(b)) = 1
}
// What is left there is nobody's.
inline Vacate(b, g) {
  OCCUPIED(g, SLOT(b)) = 0;
  OCCUPIED(g, LAST_SLOT(b)) = 0;
  CELL(g, SLOT(b)) = 0;
  CELL(g, LAST_SLOT(b)) = 0
}

// Both slots of a granule are free, and no move goes on there.
#define HAS_ROOM(b, g) \
  (!OCCUPIED(g, SLOT(b)) && !OCCUPIED(g, LAST_SLOT(b)) && !held[g])

inline Unmap(b) {
  mapped[b] = NONE;
  accessible[b] = 0;
  booked[b] = NONE
}

// Unmaps what has nothing live of the slots of granule g that b is to have.
inline Clear(b, g) {
  d_step {
    if
    :: b == 2 && mapped[0] == g && !live[0] -> Unmap(0)
    :: else
    fi;
    if
    :: b == 2 && mapped[1] == g && !live[1] -> Unmap(1)
    :: else
    fi;
    if
    :: b != 2 && mapped[2] == g && !live[2] -> Unmap(2)
    :: else
    fi
  }
}

// Block b is live on granule g, which has room for it.
inline Place(b, g) {
  Clear(b, g);
  d_step {
    cached[g] = 0;
    mapped[b] = g;
    accessible[b] = 1;
    booked[b] = g;
    live[b] = 1;
    Occupy(b, g)
  }
}

// --- Moves ---

// Maps block b to granule `to` and back again if a call fails: then `moved` is 0
// and all is as it was (I10). The driver may fail in each step forward.
inline Remap(b, to, from, moved) {
  moved = 0;
  from = mapped[b];
  // I4: no use is open.
  assert(in_flight[b] == 0);
  assert(!is_capturing);
  accessible[b] = 0;
  mapped[b] = NONE;
  if
  :: mapped[b] = to;
#ifdef BUG_OPEN_BEFORE_ACCESS
    OpenGate();
#endif
    if
    :: accessible[b] = 1;
      moved = 1
    :: mapped[b] = NONE  // set-access has failed
    fi
  :: skip  // map has failed
  fi;
  if
  :: !moved ->
#ifndef BUG_NO_ROLLBACK
    mapped[b] = from;
    accessible[b] = 1;
    assert(booked[b] == from)
#endif
#ifdef REACH_ROLLBACK
    assert(false)
#endif
  :: else ->
#ifdef REACH_MOVE
    assert(false);
#endif
    booked[b] = to;
    Vacate(b, from);
    Occupy(b, to);
    Release(from)
  fi
}

// A granule without mappings goes to the cache.
inline Release(g) {
  d_step {
    if
    :: mapped[0] != g && mapped[1] != g && mapped[2] != g -> cached[g] = 1
    :: else
    fi
  }
}

inline StartCopy(b, to) {
  atomic {
    copied_block = b;
    copied_from = mapped[b];
    copied_to = to;
    is_copying = 1
  }
}

// --- The gate ---

inline OpenGate() {
  d_step {
    is_open = 1;
    owed = waiting
  }
}

inline GiveUp() {
#ifdef REACH_MAX_WAIT
  assert(false);
#endif
  OpenGate()
}

// Closes it and drains. `closed` is 0, and it is open, where max_wait was over
// first: whatever is waited for may take that long.
inline CloseGate(closed) {
  closed = 0;
  owed == 0;
  is_open = 0;
#ifdef BUG_TOKEN_BEFORE_EXIT
  token[0] == 0 && token[1] == 0 && token[2] == 0;
#endif
  if
  :: open_scopes == 0 ->
    if
#ifndef BUG_TOKEN_BEFORE_EXIT
    :: token[0] == 0 && token[1] == 0 && token[2] == 0 -> closed = 1
#ifndef BUG_NO_MAX_WAIT
    :: true -> GiveUp()
#endif
#else
    :: closed = 1
#endif
    fi
#ifndef BUG_NO_MAX_WAIT
  :: true -> GiveUp()
#endif
  fi
}

// Counted before the gate is looked at, as the closer closes it before it
// counts.
inline EnterScope() {
  open_scopes++;
  if
  :: is_open
  :: else ->
    atomic {
      open_scopes--;
      waiting++
    };
#ifndef BUG_WAIT_AT_GATE_LOCKED
    LEAVE_INTERPRETER
#endif
    atomic {
      is_open ->
      waiting--;
      open_scopes++;
      if
      :: owed > 0 -> owed--
      :: else
      fi
    };
#ifndef BUG_WAIT_AT_GATE_LOCKED
    TAKE_INTERPRETER
#endif
  fi
}

inline LeaveScope(b) {
  d_step {
    token[b] = in_flight[b];
    open_scopes--
  }
}

// --- Threads ---

inline Launch(b, kernels) {
  atomic {
    nfull(kernels);
    assert(live[b]);
    in_flight[b] = 1;
    if
    :: kernels!WRITE
    :: is_written[b] -> kernels!READ
    fi
  }
}

// What is done under the lock in one step here has no part in which the device
// or a thread without the lock could see the difference.
inline Allocate(b, g) {
  atomic {
    !mutex ->
    if
    :: booked[b] != NONE && !HAS_ROOM(b, booked[b]) && !held[booked[b]] ->
      // There is no room where it was mapped.
      Unmap(b)
    :: else
    fi;
    if
    :: booked[b] != NONE && HAS_ROOM(b, booked[b]) -> g = booked[b]
    :: booked[b] == NONE && HAS_ROOM(b, 0) -> g = 0
    :: booked[b] == NONE && HAS_ROOM(b, 1) -> g = 1
    :: booked[b] == NONE -> g = NONE  // or the driver has failed
    :: booked[b] != NONE && held[booked[b]] -> g = NONE
    fi;
    if
    :: g != NONE -> Place(b, g)
    :: else
    fi;
    g = 0;
    Check()
  }
}

// What follows on its stream alone may have the memory at once; for all others
// the block counts as live until its work is done. Here that is awaited.
inline Free(b) {
  atomic {
    !mutex && !in_flight[b] ->
    live[b] = 0;
    idle[b] = 0;
    was_used[b] = 0;
    version[b] = 0;
    is_written[b] = 0;
    Vacate(b, booked[b]);
    Check()
  }
}

inline Declare(b, is_idle) {
  atomic {
    !mutex ->
    idle[b] = is_idle;
    idle_token[b] = in_flight[b];
    was_used[b] = 1
  }
}

proctype Thread(byte b; chan kernels) {
  byte g;
progress:
end:
  do
  :: !live[b] ->
    TAKE_INTERPRETER
    Allocate(b, g);
    LEAVE_INTERPRETER
    goto progress
  :: live[b] && in_flight[b] == 0 ->
    Free(b);
    goto progress
#if LEVEL == 1
  :: live[b] ->
    TAKE_INTERPRETER
    EnterScope();
    LEAVE_INTERPRETER
    // The interpreter lets others run at any time.
    TAKE_INTERPRETER
    Launch(b, kernels);
#ifdef CAPTURE
    if
    :: b == 0 ->
      is_capturing = 1;
      is_capturing = 0
    :: skip
    fi;
#endif
    LEAVE_INTERPRETER
    LeaveScope(b);
    goto progress
#else
  :: live[b] && !idle[b] ->
    Launch(b, kernels);
    goto progress
  :: live[b] && !idle[b] ->
    Declare(b, 1);
    goto progress
  :: live[b] && idle[b] ->
    // MarkActive: waits for one remap at most.
    Declare(b, 0);
    Launch(b, kernels);
    goto progress
#endif
  od
}

#if LEVEL == 1

// Makes room for block b by moving the other of the two that can share, and
// takes it under the same lock.
inline MoveAndAllocate(b, g, to, from, moved) {
  // From where to where: 0 to 1's granule, if they have one each.
  if
  :: live[0] && live[1] && !live[2] && booked[0] != booked[1] ->
    to = booked[1];
    StartCopy(0, to);
    !is_copying;
    Remap(0, to, from, moved);
    if
    :: moved ->
      if
      :: booked[b] != NONE && booked[b] != from -> Unmap(b)
      :: else
      fi;
      Place(b, from)
    :: else
    fi
  :: else
  fi
}

proctype Waiter(byte b; chan kernels) {
  byte g, to, from;
  bit moved, closed;
progress:
end:
  do
  :: !live[b] ->
    Allocate(b, g);
    if
    :: !live[b] ->
      atomic { !turn -> turn = 1 };
      CloseGate(closed);
      if
      :: closed ->
        Lock();
        MoveAndAllocate(b, g, to, from, moved);
        // The room it made was not taken by others.
        assert(!moved || live[b]);
#ifdef REACH_ROOM_MADE
        assert(!moved);
#endif
        moved = 0;
        Unlock();
        OpenGate()
      :: else
      fi;
      closed = 0;
      turn = 0
    :: else
    fi;
    goto progress
  :: !live[b] ->
    // Inside a scope of its own: refused, as the gate would never close.
    EnterScope();
    Allocate(b, g);
#ifdef BUG_MOVE_IN_SCOPE
    if
    :: !live[b] ->
      atomic { !turn -> turn = 1 };
      owed == 0;
      is_open = 0;
      open_scopes == 0;
      OpenGate();
      turn = 0
    :: else
    fi;
#endif
#ifdef REACH_REFUSED
    assert(live[b]);
#endif
    LeaveScope(b);
    goto progress
  :: live[b] ->
    EnterScope();
    Launch(b, kernels);
    LeaveScope(b);
    goto progress
  :: live[b] && in_flight[b] == 0 ->
    Free(b);
    goto progress
  od
}

proctype Mover() {
  byte b, to, from;
  bit moved, closed;
#ifdef INTERPRETER
  bit is_inside;  // called by a thread that runs in it
#endif
progress:
end:
  do
  :: true ->
    atomic { !turn -> turn = 1 };
#ifdef INTERPRETER
    if
    :: atomic { !interpreter -> interpreter = 1; is_inside = 1 }
    :: is_inside = 0
    fi;
#endif
    CloseGate(closed);
    if
    :: closed ->
#ifdef INTERPRETER
      // Its hook is run in the interpreter.
      if
      :: !is_inside ->
        TAKE_INTERPRETER
        LEAVE_INTERPRETER
      :: else
      fi;
#endif
      Lock();
      if
      :: live[0] -> b = 0
      :: live[1] -> b = 1
      :: !live[0] && !live[1] -> b = NONE
      fi;
      if
      :: b != NONE ->
        to = 1 - booked[b];
        if
        :: HAS_ROOM(b, to) ->
          // Nothing is live in the slot, but something may be mapped to it.
          Clear(b, to);
          cached[to] = 0;
          StartCopy(b, to);
#ifndef BUG_REMAP_BEFORE_COPY
          !is_copying;
#endif
          Remap(b, to, from, moved);
          if
          :: !moved -> Release(to)
          :: else
          fi
        :: else
        fi
      :: else
      fi;
#ifdef BUG_REMAP_BEFORE_COPY
      mutex = 0;
#else
      Unlock();
#endif
      OpenGate()
    :: else
    fi;
#ifdef INTERPRETER
    if
    :: is_inside -> LEAVE_INTERPRETER is_inside = 0
    :: else
    fi;
#endif
    d_step {
      b = 0;
      to = 0;
      from = 0;
      moved = 0;
      closed = 0;
      turn = 0
    };
    goto progress
  od
}

#else

proctype Mover() {
  byte b, to, from;
  bit moved, is_good;
progress:
end:
  do
  :: true ->
    Lock();
    if
    :: live[0] && idle[0] && idle_token[0] == 0 -> b = 0
    :: live[1] && idle[1] && idle_token[1] == 0 -> b = 1
    :: else -> b = NONE
    fi;
    if
    :: b != NONE && HAS_ROOM(b, 1 - booked[b]) ->
      to = 1 - booked[b];
      from = booked[b];
      Clear(b, to);
      d_step {
        cached[to] = 0;
        held[to] = 1;
        held[from] = 1;
        was_used[b] = 0
      };
      Unlock();
      StartCopy(b, to);
#ifndef BUG_REMAP_BEFORE_COPY
      !is_copying;
#endif
      Lock();
      is_good = live[b] && idle[b] && !was_used[b] && idle_token[b] == 0;
#ifdef BUG_FREE_IGNORED
      is_good = is_good || !live[b];
#endif
#ifdef BUG_REUSE_IGNORED
      is_good = live[b] && in_flight[b] == 0;
#endif
      if
      :: is_good -> Remap(b, to, from, moved)
      :: else
#ifdef REACH_LEFT_ALONE
        -> assert(false)
#endif
      fi;
      d_step {
        held[0] = 0;
        held[1] = 0
      };
      if
      :: !moved -> Release(to)
      :: else
      fi
    :: else
    fi;
#ifdef BUG_REMAP_BEFORE_COPY
    mutex = 0;
#else
    Unlock();
#endif
    d_step {
      b = 0;
      to = 0;
      from = 0;
      moved = 0;
      is_good = 0
    };
    goto progress
  od
}

#endif

// --- The device runs ---

inline Run(b, kernels) {
  d_step {
    kernels?kind ->
    // An access to a hole is fatal (I4).
    assert(mapped[b] != NONE && accessible[b]);
    if
    :: kind == READ ->
      // I1
      assert(CELL(mapped[b], SLOT(b)) == VALUE(b, version[b]));
      assert(CELL(mapped[b], LAST_SLOT(b)) == VALUE(b, version[b]))
    :: else ->
      version[b] = 1 - version[b];
      CELL(mapped[b], SLOT(b)) = VALUE(b, version[b]);
      CELL(mapped[b], LAST_SLOT(b)) = VALUE(b, version[b]);
      is_written[b] = 1
    fi;
    in_flight[b] = 0;
    token[b] = 0;
    idle_token[b] = 0;
    kind = 0
  }
}

proctype Device() {
  bit kind;
end:
  do
  :: Run(0, kernels0)
  :: Run(1, kernels1)
#ifdef WAITER
  :: Run(2, kernels2)
#endif
  :: is_copying ->
    d_step {
      CELL(copied_to, SLOT(copied_block)) =
          CELL(copied_from, SLOT(copied_block));
      is_copying = 0;
      copied_block = 0;
      copied_from = 0;
      copied_to = 0
    }
  od
}

init {
  atomic {
    cached[0] = 1;
    cached[1] = 1;
    run Thread(0, kernels0);
#ifndef ONE_THREAD
    run Thread(1, kernels1);
#endif
#ifdef WAITER
    run Waiter(2, kernels2);
#else
    run Mover();
#endif
    run Device()
  }
}
