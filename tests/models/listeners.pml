/* The thread that hears the lanes: one of the program's that sleep, or the background thread (sovia/lane/listener.h). A
 * frame that comes while none hears it lies there until one looks.
 *
 * The states are the code's: role is g_role of listener.cc; asleep, woken: the list of sleepers of waiting.cc and their
 * words; rung: the background thread's wake event. A lease is a sleep that ends by itself. Verified: each frame is heard
 * in the end, whatever the threads of the program do. With -DPLANTED=1 the background thread, which has seen that nobody
 * listens and has lost the race for the role, sleeps without a lease: then a frame is heard by nobody.
 */
#define PROGRAMS 2
#define VISITS 2 /* of each thread of the program */
#define FRAMES 2

mtype = { nobody, background, program };
mtype role = nobody;
bool asleep[PROGRAMS], woken[PROGRAMS];
bool rung;
byte frames;

#define other(i) (1 - i)

inline take_in() { frames = 0 }

proctype peer() {
  byte sent;
  do
  :: sent < FRAMES -> atomic { frames++; sent++ }
  :: sent == FRAMES -> break
  od
}

/* The right to hear; the background thread is told that it has lost it. */
inline take() {
  atomic {
    if
    :: !listens && role == nobody -> role = program; listens = true
    :: !listens && role == background -> role = program; rung = true; listens = true
    :: else
    fi
  }
}

/* Under the lock of the sleepers. */
inline leave(i) {
  atomic {
    asleep[i] = false;
    woken[i] = false;
    if
    :: listens -> role = nobody; listens = false
    :: else
    fi;
    if
    :: role == nobody && asleep[other(i)] -> woken[other(i)] = true
    :: else
    fi
  }
}

proctype thread(byte i) {
  bool listens;
  byte visits;
  do
  :: visits < VISITS ->
    visits++;
    asleep[i] = true;
    do
    :: take();
      take_in(); /* a look before the sleep */
      if
      :: listens -> frames > 0 || woken[i]
      :: !listens -> woken[i]
      :: true -> break /* its own reasons: what it waits for is there, a signal, a timeout */
      fi;
      woken[i] = false;
      take_in();
      if
      :: true
      :: true -> break
      fi
    od;
    leave(i)
  :: true -> break /* the program is away for good */
  od
}

proctype background_thread() {
  do
  :: role == program -> skip /* the lease */
  :: role != program ->
    /* Here a thread of the program may take the role. */
    if
    :: atomic { role == nobody -> role = background };
      do
      :: role != background -> break
      :: role == background && frames > 0 -> take_in()
      :: role == background && rung -> break
      od;
      rung = false;
      atomic {
        if
        :: role == background -> role = nobody
        :: else
        fi
      }
    :: role != nobody ->
#if PLANTED == 1
      rung;
#endif
      rung = false
    fi
  od
}

init {
  atomic {
    run peer();
    run thread(0);
    run thread(1);
    run background_thread()
  }
}

ltl each_frame_is_heard { [] (frames > 0 -> <> (frames == 0)) }
