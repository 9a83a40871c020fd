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

# What TCP has carried to and from host b, in bytes, at most. Lanes are not among it.
tcp_bytes() {
  on b awk '$1 == "Tcp:" && !n { n = split($0, name); next }
    $1 == "Tcp:" { for (i = 2; i <= n; ++i) if (name[i] ~ /^(In|Out)Segs$/) sum += $i; printf "%.0f\n", 1500 * sum }' \
    /proc/net/snmp
}

# on_lanes TEXT BYTES COMMAND...: like `check`, of something that moves at least so many bytes; with SOVIA at
# both ends no more than half of them may go through the kernel, which carries what comes before the lane is
# open: for the first lane of a process, that is a while.
on_lanes() {
  local text=$1 bytes=$2 before carried
  shift 2
  before=$(tcp_bytes)
  check "$text" "$@" || return
  [ "$ends" = "both ends" ] || return 0
  carried=$(($(tcp_bytes) - before))
  if [ "$carried" -lt $((bytes / 2)) ]; then
    ok "$text: over lanes"
  else
    not_ok "$text: over lanes"
    echo "  the kernel carried $carried bytes of at least $bytes"
  fi
}
