# outage.sh: outages that connections live on through. To be sourced.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
needs /usr/bin/python3

# link_fails SECONDS, agent_stops SECONDS, agent_dies SECONDS
# The link is down until no lane is left, too: on a busy machine that takes longer.
link_fails() {
  local is=0
  ip -n "viaduct-$prefix-a" link set via0 down
  sleep "$1"
  within 60 all_are_lost || { echo "not all lanes have broken"; is=1; }
  ip -n "viaduct-$prefix-a" link set via0 up
  return $is
}
agent_stops() {
  kill -STOP "$(agent a)"
  sleep "$1"
  kill -CONT "$(agent a)"
}
agent_dies() {
  kill -KILL "$(agent b)"
  sleep "$1"
  start b "$work/agent.log" viad --config "/run/viaduct-lab/$prefix/viad.conf" --interface via0 --name b \
    --socket @viaduct --foreground
}

# stat_of HOST PROGRAM NAME: a counter of SOVIA's.
stat_of() {
  on "$1" sovia stat --prometheus "$(cat "$work/$2.pid")" |
    awk -v name="sovia_$3" 'index($1, name "{") == 1 { n = $NF } END { print n + 0 }'
}
has_lanes() {
  [ "$(stat_of a call lanes_opened)" -ge 5 ] && [ "$(stat_of b serve lanes_opened)" -ge 5 ] &&
    [ "$(stat_of a call starts_sent)" -ge 5 ] && [ "$(stat_of b serve starts_sent)" -ge 5 ]
}

all_are_lost() { [ "$(stat_of a call lanes_lost)" -ge 5 ] && [ "$(stat_of b serve lanes_lost)" -ge 5 ]; }

# outage BYTES LIMIT COMMAND...: connections with lanes, idle ones and one with a transfer of so many bytes each way,
# live on through it, and come to their end within LIMIT seconds after it.
outage() {
  local program=$here/outage_programs.py bytes=$1 limit=$2 is=0 caller lost
  shift 2
  # shellcheck disable=SC2034  # for programs.sh
  ends="both ends" seconds=1000
  serve "$work/server" /usr/bin/python3 "$program" serve 5000 "$work" "$bytes"
  await_server "$work/server" 5000 || return
  start_client "$work/client" /usr/bin/python3 "$program" call b 5000 "$work" "$bytes"
  caller=$last
  within 30 test -s "$work/serve.pid" && within 30 test -s "$work/call.pid" || { echo "they do not meet"; return 1; }
  within 60 has_lanes || { echo "there are no lanes"; return 1; }
  touch "$work/lanes"
  within 60 test -e "$work/serve.up" && within 60 test -e "$work/call.up" || { echo "no transfer"; return 1; }
  "$@" || is=1
  lost="$(stat_of a call lanes_lost) of the client's lanes were lost, $(stat_of b serve lanes_lost) of the server's"
  touch "$work/over"
  within "$limit" gone "$caller" || { echo "the client does not end"; is=1; }
  within 20 gone "$server" || { echo "the server does not end"; is=1; }
  echo "$lost"
  cat "$work/client" "$work/server"
  grep -q "all right" "$work/client" && grep -q "all right" "$work/server" && return $is
}

# outage_in_lab NAME PLACEMENT TEXT BYTES LIMIT COMMAND...: as a case in a lab of its own; to be run in a subshell.
outage_in_lab() {
  local name=$1 text="$2: $3"
  export VIADUCT_PLACEMENT=$2
  shift 3
  prefix=$prefix-$name work=$work/$name
  mkdir "$work"
  if lab_up >"$work/lab"; then expect "$text" outage "$@"; else cat "$work/lab"; fi
  "$lab" down --name "$prefix" >/dev/null
}
