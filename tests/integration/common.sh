# common.sh: shared by the integration tests. To be sourced first.
# shellcheck shell=bash
#
# A test makes labs whose names begin with $prefix; all of them are taken down and every program that
# was started with `start` is ended when the test ends, however it ends. Each case prints one line,
# "ok: ...", "not ok: ..." or "skipped: ..."; `finish` ends the test. Exit status 77: not run.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../lab/vialab
prefix=test-$(basename "$0" .test)-$$
failures=0
started=()

if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: only root can make network namespaces"
  exit 77
fi
# The test driver of Automake runs tests in the build tree.
if [ -z "${VIADUCT_BUILD:-}" ] && [ -x ./viad ]; then
  VIADUCT_BUILD=$PWD
  export VIADUCT_BUILD
fi

work=$(mktemp -d)
echo 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0' >"$work/pressure"

clean_up() {
  local pid directory
  # Only those that are still there: the number of an ended one may be another process's by now.
  for pid in $(jobs -p); do
    kill -KILL "$pid" 2>/dev/null
    { wait "$pid"; } 2>/dev/null
  done
  for directory in /run/viaduct-lab/"$prefix"*/; do
    if [ -d "$directory" ]; then "$lab" down --name "$(basename "$directory")" >/dev/null; fi
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

ok() { echo "ok: $*"; }
not_ok() {
  echo "not ok: $*"
  failures=$((failures + 1))
}

# expect TEXT COMMAND...: the command must succeed; else its output is shown.
expect() {
  local text=$1 is=0
  shift
  "$@" >"$work/expect.log" 2>&1 || is=$?
  if [ $is -eq 0 ]; then
    ok "$text"
  else
    not_ok "$text"
    echo "  status $is of: $*"
    sed 's/^/  /' "$work/expect.log"
    return 1
  fi
}

# processes PATTERN: their numbers, the newest last. A program's finisher has its command line, and is left out.
processes() { pgrep -f "$1" | grep -vxFf <(pgrep -x vipl-finisher); }

# refuse TEXT STATUS PATTERN COMMAND...: the command must end with this status and say, in one line at
# most of each kind, something that matches the pattern.
refuse() {
  local text=$1 status=$2 pattern=$3 is=0
  shift 3
  "$@" >"$work/refuse.log" 2>&1 </dev/null &
  within 20 gone $! || kill -KILL $!
  wait $! || is=$?
  if [ "$is" -eq "$status" ] && grep -q -E -e "$pattern" "$work/refuse.log"; then
    ok "$text"
  else
    not_ok "$text"
    echo "  status $is instead of $status, or no line matches $pattern: $*"
    sed 's/^/  /' "$work/refuse.log"
  fi
}

# Ends the test at once when what follows makes no sense.
must() {
  expect "$@" || finish
}

finish() {
  [ "$failures" -eq 0 ]
  exit
}

# Where processors are short SOVIA leaves its lanes, and a test of lanes would compare TCP with TCP: hosts of its tests have free
# processors, whatever else the machine does.
hosts_are_free=
[[ $(basename "$0") != sovia_* ]] || hosts_are_free=1

# Sets on_host to what runs `HOST COMMAND...` in the lab $prefix.
to_host() {
  on_host=("$lab" exec --name "$prefix" "$1")
  shift
  # shellcheck disable=SC2016  # for the shell on the host
  local free='[ ! -e /proc/pressure/cpu ] || mount --bind "$0" /proc/pressure/cpu; exec "$@"'
  [ -z "$hosts_are_free" ] || on_host+=(sh -c "$free" "$work/pressure")
  on_host+=("$@")
}

# on HOST COMMAND...: in the lab $prefix.
on() {
  to_host "$@"
  "${on_host[@]}"
}

# start HOST LOG COMMAND...: in the background; the process is then $last.
start() {
  local host=$1 log=$2
  shift 2
  : >"$log"  # at once: what an earlier one said there must not be taken for this one's
  to_host "$host" "$@"
  "${on_host[@]}" >"$log" 2>&1 </dev/null &
  last=$!
  started+=("$last")
}

# within SECONDS COMMAND...: asks until the command succeeds.
within() {
  local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "${EPOCHREALTIME/[.,]/}" -lt $end ] || return 1
    sleep 0.05
  done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# Starts viaping's server on a host and waits until it can be asked.
# shellcheck disable=SC2034  # `server` is for the tests
start_server() {
  start "$1" "$work/server.log" viaping --server
  server=$last
  within 10 grep -q waiting "$work/server.log" || {
    cat "$work/server.log"
    return 1
  }
}

agent() { cat "/run/viaduct-lab/$prefix/$1.pid"; }

# The value of a row of a host's counter table, "stack_drop_short" for example; NICs taken together.
counter() {
  on "$1" viad --counters |
    awk -v row="viaduct_$2" '{ name = $1; sub(/{.*/, "", name) } name == row { n += $NF; found = 1 }
      END { if (!found) exit 1; print n }'
}
