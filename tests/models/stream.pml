/* A direction of a connection: one stream of bytes, two carriers. The kernel's stream carries plain bytes. A lane carries
 * bytes too, and may break at any moment, losing its tail. The sender needs no answer to go on by the other carrier:
 *
 *   - It goes up to the lane at any time. The first packet says behind how many of the kernel's bytes it comes.
 *   - It goes down when the first packet is known to have arrived, and says so on the lane. A MARK stands before the kernel's
 *     next bytes and says which byte follows: the first that may not have arrived. It goes up again when all have.
 *   - It goes down when the lane breaks, too. If not even the first packet is known to have arrived there is no MARK, and the
 *     bytes of all packets follow.
 *
 * A receiver reads no more of the kernel's than was there before it took in what the lane has brought: a MARK behind it
 * would be taken for data. Verified: the receiver takes each byte once and in order, a good end comes behind all bytes, and
 * no state is without a way on, unless an end has died.
 *
 * A byte is its offset. -DPLANTED=1: no MARK stands before bytes that are sent again. 2: the MARK is for the next byte,
 * whatever has arrived. 3: the receiver does not drop what it has already. 4: it reads what the kernel has by then. 5: it
 * goes up although it owes a MARK.
 */
#define BYTES 4
#define LANES 2

mtype = { raw, mark };        /* of the kernel: a byte; which byte follows */
mtype = { first, data, down } /* of a lane: data behind a number of the kernel's; data; the kernel goes on */

chan kernel = [16] of { mtype, byte };
chan lane = [3] of { mtype, byte, byte };   /* on its way */
chan inbox = [12] of { mtype, byte, byte }; /* in the receiver's memory */
byte arrived, completed;                    /* packets of the present stay on the lane; the sender knows of the second */
byte lanes = 1;
bool live = true, broken;                   /* the lane; both ends notice that it has broken */
bool sender_left = true, receiver_left = true; /* the ends are ready for another lane */
bool kernel_ended, dead, done, reset;

#define on_way (len(lane) != 0)

active proctype sender() {
  byte next, kernels, stay, at, i; /* stay: the first byte of the present stay on the lane; at: packets of this stay */
  bool up, owes_mark;
  byte owed;
  sender_left = false;
  do
  :: done || reset -> break
  /* By the kernel. */
  :: atomic { !dead && !up && next < BYTES ->
      if
      :: owes_mark -> kernel ! mark, owed; kernels++; owes_mark = false
      :: else
      fi };
    kernel ! raw, next; kernels++; next++
  /* Up. */
#if PLANTED == 5
  :: atomic { !dead && !up && live && !broken && completed == at && next < BYTES && nfull(lane) ->
#else
  :: atomic { !dead && !up && live && !broken && completed == at && !owes_mark && next < BYTES && nfull(lane) ->
#endif
      up = true; stay = next; arrived = 0; completed = 0; at = 1;
      lane ! first, next, kernels; next++ }
  :: atomic { !dead && up && live && !broken && next < BYTES && nfull(lane) -> lane ! data, next, 0; next++; at++ }
  /* Down. */
  :: atomic { !dead && up && live && !broken && completed != 0 && nfull(lane) ->
      lane ! down, 0, 0; up = false; owes_mark = true;
#if PLANTED == 2
      i = next;
#else
      i = stay + completed;
#endif
      owed = i };
    do
    :: i < next ->
      if
      :: owes_mark -> kernel ! mark, owed; kernels++; owes_mark = false
      :: else
      fi;
      kernel ! raw, i; kernels++; i++
    :: else -> break
    od
  /* The lane has broken, or is given up. */
  :: atomic { !dead && live && !sender_left && (broken || true) -> broken = true; sender_left = true };
    if
    :: up ->
      i = stay + completed;
#if PLANTED != 1
      if
      :: completed != 0 -> owes_mark = true; owed = i
      :: else
      fi;
#endif
      up = false;
      do
      :: i < next ->
        if
        :: owes_mark -> kernel ! mark, owed; kernels++; owes_mark = false
        :: else
        fi;
        kernel ! raw, i; kernels++; i++
      :: else -> break
      od
    :: else
    fi
  /* Another lane. */
  :: atomic { !dead && sender_left && receiver_left && lanes < LANES && !owes_mark && !on_way && empty(inbox) ->
      lanes++; live = true; broken = false; sender_left = false; receiver_left = false; at = 0; arrived = 0; completed = 0 }
  :: atomic { !dead && next == BYTES && (!up || completed == at) -> kernel_ended = true }; break
  :: atomic { !dead -> dead = true; kernel_ended = true; broken = true }; break
  od
}

/* The network: packets arrive, the sender learns of it a little later, or never. */
active proctype network() {
  byte x, k;
  mtype what;
end_network:
  do
  :: atomic { lane ? what, x, k ->
      if
      :: what != down -> arrived++
      :: else
      fi;
      inbox ! what, x, k }
  :: atomic { !broken && completed < arrived -> completed = arrived }
  :: atomic { !broken && live -> broken = true }
  :: atomic { broken && on_way -> do
      :: nempty(lane) -> lane ? what, x, k
      :: empty(lane) -> break
      od }
  :: done || reset -> break
  od
}

active proctype receiver() {
  byte next, kernels, x, n, k, drop, limit;
  byte stay;     /* the first byte of this stay on the lane */
  mtype what;
  bool up, awaits_mark, late;
  receiver_left = false;
  do
  :: done || reset -> break
  /* The lane's. */
  :: atomic { !up && !awaits_mark && !late && inbox ? [first, x, eval(kernels)] ->
      inbox ? first, x, n; assert(x == next); up = true; stay = next; next++ }
  /* It has come too late: the sender has noticed the end of the lane, and sends its bytes again without a MARK. */
  :: atomic { !up && !awaits_mark && !late && inbox ? [first, x, k] ->
      inbox ? <first, x, k>;
      if
      :: k < kernels ->
        assert(broken);
        late = true
      :: k >= kernels
      fi }
  :: atomic { late && nempty(inbox) -> inbox ? what, x, k }
  :: atomic { up && inbox ? [data, x, n] -> inbox ? data, x, n; assert(x == next); next++ }
  :: atomic { up && inbox ? [down, x, n] -> inbox ? down, x, n; up = false; awaits_mark = true }
  :: atomic { up && broken && empty(inbox) && empty(lane) -> up = false; awaits_mark = true }
  :: atomic { broken && !receiver_left && empty(inbox) && empty(lane) && !up -> receiver_left = true; late = false }
  /* The MARK, or none: then the bytes of the whole stay follow. */
  :: atomic { awaits_mark && nempty(kernel) ->
      if
      :: kernel ? [mark, x] -> kernel ? mark, x; kernels++
      :: !(kernel ? [mark, x]) -> x = stay
      fi;
      assert(x <= next);
      drop = next - x; awaits_mark = false }
  :: atomic { drop != 0 && kernel ? [raw, x] -> kernel ? raw, x; kernels++;
#if PLANTED == 3
      next++;
#else
      assert(x == next - drop);
#endif
      drop-- }
  /* The kernel's: first as many as there are, then the lane is looked at. */
  :: !up && !awaits_mark && drop == 0 && nempty(kernel) ->
    n = len(kernel);
    atomic {
      limit = n;
#if PLANTED == 4
      limit = len(kernel);
#else
      if
      :: !late && inbox ? [first, x, k] -> inbox ? <first, x, k>; limit = (k < kernels -> 0 : k - kernels)
      :: late || !(inbox ? [first, x, k])
      fi;
#endif
      do
      :: limit != 0 && nempty(kernel) && n != 0 -> kernel ? what, x; kernels++; assert(what == raw && x == next); next++; limit--; n--
      :: else -> break
      od }
  :: atomic { kernel_ended && empty(kernel) && empty(inbox) && empty(lane) && !up && drop == 0 && !dead ->
      assert(next == BYTES); done = true }
  :: atomic { kernel_ended && up && empty(kernel) && empty(inbox) && empty(lane) && !dead && next == BYTES -> done = true }
  :: atomic { kernel_ended && dead && empty(kernel) && empty(inbox) && empty(lane) -> reset = true }
  od;
  assert(next <= BYTES)
}
