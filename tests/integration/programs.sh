# programs.sh: for the tests that run other people's programs on SOVIA. To be sourced instead of common.sh.
# shellcheck shell=bash
#
# SOVIA_RUN      what is put before a program that is to run on SOVIA (default: "sovia run"); empty: all
#                goes over kernel TCP, which tests the tests
# PROGRAMS_FULL  if set, larger transfers and longer loads
#
# Every case is run with SOVIA at both ends, at the client's alone and at the server's alone:
#     for ends in "${all_ends[@]}"; do
#       serve LOG PROGRAM ...      on host b
#       client PROGRAM ...         on host a
#       check TEXT COMMAND ...     expect, with the ends in its text
#       stop_server
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

read -r -a sovia <<<"${SOVIA_RUN-sovia run}"
if [ ${#sovia[@]} -gt 0 ]; then
  all_ends=("both ends" client server)
else
  # shellcheck disable=SC2034  # for the tests
  all_ends=("no end")
fi
ends=
port=5000
seconds=${PROGRAMS_SECONDS:-60}
server=

# needs PROGRAM...: skips the test without one of them.
needs() {
  local program
  for program in "$@"; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
      echo "skipped: there is no $program"
      exit 77
    fi
  done
}

# The lab of the test, and the launcher in it.
lab_up() {
  must "a lab comes up" "$lab" up --name "$prefix" "$@"
  if [ ${#sovia[@]} -gt 0 ] && ! on a sh -c "command -v '${sovia[0]}'" >/dev/null; then
    echo "skipped: there is no ${sovia[0]}"
    exit 77
  fi
}

# sovia_at END: whether the programs of that end, client or server, are to be on SOVIA.
sovia_at() { [ ${#sovia[@]} -gt 0 ] && { [ "$ends" = "both ends" ] || [ "$ends" = "$1" ]; }; }

launch() {
  local end=$1
  shift
  if sovia_at "$end"; then set -- "${sovia[@]}" "$@"; fi
  "${how[@]}" "$@"
}

# client COMMAND...: on host a, for $seconds at most.
client() {
  local how=(on a timeout -k 5 "$seconds")
  launch client "$@"
}

# start_client LOG COMMAND...: in the background; $last.
start_client() {
  local how=(start a "$1" timeout -k 5 "$seconds")
  shift
  launch client "$@"
}

# serve LOG COMMAND...: on host b, in the background; $server.
serve() {
  local how=(start b "$1")
  shift
  launch server "$@"
  server=$last
}

listening() { on b ss -Hltn "sport = :$1" | grep -q .; }

# await_server LOG PORT
await_server() {
  within 15 listening "$2" && return
  not_ok "a server listens on port $2 ($ends)"
  sed 's/^/  /' "$1"
  return 1
}

# stop_server [SIGNAL]: it must end within 10 seconds.
stop_server() {
  kill -"${1:-TERM}" "$server" 2>/dev/null
  if ! within 10 gone "$server"; then
    not_ok "the server ends when it is told to ($ends)"
    kill -KILL "$server" 2>/dev/null
  fi
  { wait "$server"; } 2>/dev/null
}

check() {
  local text=$1
  shift
  if [ ${#sovia[@]} -gt 0 ]; then text="$text: SOVIA at $ends"; fi
  expect "$text" "$@"
}

# same FILE FILE
same() { cmp "$1" "$2"; }

# past_kernel LOG: of all bytes of the programs on SOVIA that have ended, in %, as their libraries say in it at their
# ends (SOVIA_STATS). False if none of them says so.
past_kernel() {
  sed -n -E 's/^sovia: .*; ([0-9.]+) of ([0-9.]+) MB \([0-9]+ %\) past the kernel.*/\1 \2/p' "$1" |
    awk '{ lane += $1; all += $2 } END { if (all == 0) exit 1; printf "%.0f\n", 100 * lane / all }'
}

# on_lanes TEXT COMMAND...: like `check`, of a client that moves much and whose standard error is not redirected. With
# SOVIA at both ends nine tenths of its bytes must go past the kernel. Bytes sent before the lane is there go through
# it, and a lane takes longer on a busy machine: the next try is to move $patience times as much, or to wait as much
# longer.
patience=1
on_lanes() {
  local text=$1 percent
  shift
  if [ "$ends" != "both ends" ]; then
    check "$text" "$@"
    return
  fi
  for patience in 1 4 16; do
    SOVIA_STATS=1 expect "$text: SOVIA at both ends" "$@" || break
    percent=$(past_kernel "$work/expect.log") || percent=none
    echo "  $percent % past the kernel"
    [ "$percent" = none ] || [ "$percent" -lt 90 ] || break
  done
  patience=1
  if [ "${percent:-none}" != none ] && [ "$percent" -ge 90 ]; then
    ok "$text: over lanes"
  else
    not_ok "$text: over lanes"
    sed 's/^/  /' "$work/expect.log"
  fi
}
