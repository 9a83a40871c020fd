# conformance.sh: shared by the runs of the VIPL conformance suite. To be sourced; brings up the lab.
# shellcheck shell=bash
#
#   host a   via0 10.77.0.1 <---> 10.77.0.2 via0   host b      VIA; cut in some tests
#            ctl0 10.76.0.1 <---> 10.76.0.2 ctl0               the suite's control connection
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

unset GTEST_OUTPUT
# The suite is to see how a provider ends: a granted program must not go on until the next agent comes. And
# it registers as much as there may be: seconds of each run with the limit that scale.test runs into.
printf '%s\n' '[granted]' 'reattach_ms = 0' '[limits]' 'regions = 8192' >"$work/viad.conf"
must "a lab comes up" "$lab" up --name "$prefix" --config "$work/viad.conf"
on a sh -c 'command -v vipl-conformance' >/dev/null ||
  { echo "skipped: vipl-conformance is not built"; finish; }

a=viaduct-$prefix-a b=viaduct-$prefix-b
make_control_link() {
  ip link add ctl0 netns "$a" type veth peer name ctl0 netns "$b" &&
    ip -n "$a" address add 10.76.0.1/24 dev ctl0 && ip -n "$a" link set ctl0 up &&
    ip -n "$b" address add 10.76.0.2/24 dev ctl0 && ip -n "$b" link set ctl0 up
}
must "a link for the control connection comes up" make_control_link

# Ends the agent of host a and starts another.
pid_file=/run/viaduct-lab/$prefix/a.pid
cat >"$work/kill-agent" <<END
pid=\$(cat $pid_file)
kill -KILL \$pid
while kill -0 \$pid 2>/dev/null; do sleep 0.02; done
END
cat >"$work/start-agent" <<END
setsid viad --config /run/viaduct-lab/$prefix/viad.conf --interface via0 --name a \
  --socket @viaduct --foreground >$work/agent.log 2>&1 </dev/null &
echo \$! >$pid_file
tries=0
until viad --counters >/dev/null 2>&1; do
  tries=\$((tries + 1))
  [ \$tries -lt 200 ] || exit 1
  sleep 0.05
done
END

# The suite: as it is, or vipl-conformance-asan, with a library that sanitizers watch.
suite=vipl-conformance

# serve HOST: starts the peer there, as $server.
serve() {
  local placement=$on_a
  [ "$1" = a ] || placement=$on_b
  start "$1" "$work/peer.log" env VIADUCT_PLACEMENT="$placement" "$suite" --serve
  server=$last
  within 10 grep -q serving "$work/peer.log" || {
    cat "$work/peer.log"
    return 1
  }
}

# placed ON_A ON_B: where the suite's stack and the peer's are to run.
placed() { on_a=$1 on_b=$2; }

# Ends it; false if one of its sessions ended badly (a crash, a sanitizer's report).
stop_serving() {
  kill -TERM "$server"
  wait "$server" && return
  cat "$work/peer.log"
  return 1
}

# conform MODE ARGUMENT...: runs the suite on host a. One line for each test; the table only if the
# run as a whole has failed although no test did.
conform() {
  local mode=$1 is=0
  shift
  on a timeout 900 env VIADUCT_PLACEMENT="$on_a" "$suite" "$@" \
    >"$work/suite.log" 2>&1 </dev/null || is=$?
  sed -n -E -e "s/^\[       OK \] (.*) \(.*/ok: $mode: \1/p" \
    -e "s/^\[  SKIPPED \] (.*) \(.*/skipped: $mode: \1/p" \
    -e "s/^\[  FAILED  \] (.*) \([0-9]+ ms\)$/not ok: $mode: \1/p" "$work/suite.log"
  if [ $is -eq 0 ]; then
    ok "$mode: all that is expected was seen"
    return
  fi
  failures=$((failures + 1))
  echo "not ok: $mode: the suite ended with status $is"
  # The reasons: the lines between the start and the end of a failed test, and the table.
  awk '/^\[ RUN      \]/ { text = ""; next }
    /^\[       OK \]|^\[  SKIPPED \]/ { text = ""; next }
    /^\[  FAILED  \].*ms\)$/ { printf "%s%s\n", text, $0; text = ""; next }
    /^--- coverage/ { exit }
    { text = text $0 "\n" }' "$work/suite.log" | sed 's/^/  /'
  sed -n '/^--- [0-9]* missing/,$p' "$work/suite.log" | sed 's/^/  /'
  tail -n 3 "$work/suite.log" | sed 's/^/  /'
}

two_hosts() {
  local mode=$1
  shift
  must "$mode: a peer starts on the other host" serve b
  conform "$mode" "$@" --peer 10.76.0.2 --device nic0 --name a --peer-name b \
    --cut "ip link set via0 down" --mend "ip link set via0 up" \
    --kill-provider "sh $work/kill-agent" --start-provider "sh $work/start-agent"
  expect "$mode: the peer ends well" stop_serving
}

# The tests that depend on the place of a stack and on the threads that drive it; all tests take minutes.
threads_and_order='FunctionConnect*:FunctionPeer*:FunctionCq*:FunctionNotify*'
threads_and_order+=':SemanticsThreads*:SemanticsCq*:SemanticsOrder*:SemanticsState*:Checklist*'

# The own host's address: two processes, then one.
one_host() {
  must "$1: a peer starts on the same host" serve a
  conform "$1, two processes" --peer 127.0.0.1 --device nic0 --name a --peer-name a
  conform "$1, one process" --peer self --device nic0 --name a --peer-name a
  expect "$1: the peer ends well" stop_serving
}

# The loopback device is the agent's own, so there is but one placement.
loopback=/dev/via_lo
loopback() {
  must "$1: a peer starts on the same host" serve a
  conform "$1, two processes" --peer 127.0.0.1 --device $loopback --name a --peer-name a
  conform "$1, one process" --peer self --device $loopback --name a --peer-name a
  expect "$1: the peer ends well" stop_serving
}
