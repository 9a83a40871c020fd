/* A direction of a connection: one numbered stream, two carriers. The kernel's stream carries bytes raw, or each as a record
 * with its offset; a lane carries them with offsets, and may break at any moment, losing its tail. The sender needs no answer
 * to go on by the other carrier. Verified: the receiver takes each byte once and in order, an end that is told as good comes
 * behind all bytes, and no state is without a way on, unless an end has died.
 *
 * A byte is its offset. SECRET stands before the first record if the receiver may not know where the records begin, as
 * FRAMED may have been lost with the lane. -DPLANTED=1: the sender leaves SECRET out. 2: it does not send again what a lane
 * may have lost. 3: the receiver takes what it has already.
 */
#define BYTES 3
#define LANES 2

mtype = { raw, record, go_raw, secret, framed, data, end };

/* What, an offset, and which lane it is of: a lane that was left may still bring something. */
chan kernel = [8] of { mtype, byte, byte };
chan lane = [2] of { mtype, byte, byte };
bool lane_up, lane_broken;  /* broken: both ends will notice */
bool framed_came;           /* FRAMED is acknowledged */
bool came[BYTES + 1];       /* by this lane: acknowledged */
bool kernel_ended;          /* FIN, or a death */
bool dead, done, reset;
byte trusted = 1;           /* the lane that the receiver is ready for: the one before has been left, and read to its end */

active proctype sender() {
  byte next, lanes, i;
  bool is_framed, is_marked;
  bool by_lane[BYTES + 1]; /* sent by the lane, and not known to have come */
  do
  :: done || reset -> break
  :: !dead && next < BYTES && !is_framed -> kernel ! raw, next, lanes; next++
  /* Records begin: the lane says at which offset. */
  :: !dead && !is_framed && lanes < LANES && lanes < trusted && !lane_up && !lane_broken && next < BYTES ->
    atomic {
      lanes++;
      lane_up = true;
      framed_came = false;
      is_framed = true;
      is_marked = false;
      lane ! framed, next, lanes
    }
  :: !dead && is_framed && lane_up && !lane_broken && next < BYTES && nfull(lane) ->
    atomic { by_lane[next] = true; lane ! data, next, lanes; next++ }
  /* A long burst goes by the kernel, once the receiver knows where records begin. */
  :: !dead && is_framed && next < BYTES && (framed_came || is_marked) -> kernel ! record, next, lanes; next++
  /* The lane has broken, or is given up: what may not have come goes by the kernel. It may leave for good. */
  :: atomic { !dead && is_framed && lane_up -> lane_broken = true };
    if
    :: !framed_came && !is_marked ->
#if PLANTED != 1
      kernel ! secret, 0, lanes;
#endif
      is_marked = true
    :: else
    fi;
    i = 0;
    do
    :: i < BYTES && by_lane[i] && !came[i] ->
#if PLANTED != 2
      kernel ! record, i, lanes;
#endif
      by_lane[i] = false; i++
    :: i < BYTES && !(by_lane[i] && !came[i]) -> by_lane[i] = false; i++
    :: i == BYTES -> break
    od;
    lane_up = false;
    if
    :: true -> kernel ! go_raw, next, lanes; is_framed = false
    :: true
    fi
  :: !dead && next == BYTES && !lane_up -> kernel ! end, next, lanes; kernel_ended = true; break
  :: atomic { !dead -> dead = true; kernel_ended = true }; break
  od
}

/* The network: a lane loses its tail. */
active proctype breaks() {
  byte x, n;
  mtype what;
end_network:
  do
  :: atomic { lane_up && !lane_broken -> lane_broken = true };
    do
    :: lane ? what, x, n
    :: true -> break
    od
  :: atomic { lane_broken && !lane_up && empty(lane) -> lane_broken = false } /* it is over at both ends */
  :: done || reset -> break
  od
}

inline take(x) {
  if
  :: x == next -> taken++; next++
  :: x > next -> beyond[x] = true
  :: x < next
  fi;
  do
  :: next < BYTES && beyond[next] -> beyond[next] = false; taken++; next++
  :: else -> break
  od
}

active proctype receiver() {
  byte next, taken, x, from, n;
  byte raw_at;         /* the offset of the kernel's next raw byte */
  byte known, left;    /* the lane whose records begin at `from`; lanes up to `left` have been left */
  bool is_raw = true;  /* the kernel's next bytes are raw */
  bool beyond[BYTES + 1];
  do
  :: done || reset -> break
  :: atomic { lane ? framed, x, n ->
      if
      :: n > left && n > known -> known = n; from = x; framed_came = true
      :: else
      fi }
  :: atomic { lane ? data, x, n ->
      if
      :: n > left -> came[x] = true; take(x)
      :: else
      fi }
  /* Raw bytes come before the offset at which records begin. */
  :: atomic { is_raw && kernel ? [raw, x, n] -> kernel ? raw, x, n; assert(x == raw_at); raw_at++; take(x) }
  :: atomic { is_raw && known > left && raw_at >= from && !(kernel ? [raw, x, n]) -> is_raw = false }
  :: atomic { is_raw && kernel ? [secret, x, n] -> kernel ? secret, x, n;
      is_raw = false;
      if
      :: known < n -> known = n; from = raw_at
      :: else
      fi }
  :: atomic { !is_raw && kernel ? [secret, x, n] -> kernel ? secret, x, n }
  :: atomic { !is_raw && kernel ? [record, x, n] -> kernel ? record, x, n;
#if PLANTED == 3
      taken++; next++
#else
      take(x)
#endif
    }
  :: atomic { is_raw && kernel ? [record, x, n] && known <= left -> assert(false) } /* a record that the reader would take for data */
  :: atomic { !is_raw && kernel ? [go_raw, x, n] -> kernel ? go_raw, x, left; assert(x <= next); is_raw = true; raw_at = x; trusted = left + 1 }
  :: atomic { kernel ? [end, eval(next), n] -> kernel ? end, x, n; assert(taken == BYTES && next == BYTES); done = true }
  :: atomic { kernel_ended && dead && empty(kernel) && empty(lane) -> reset = true }
  od;
  assert(taken == next && next <= BYTES)
}
