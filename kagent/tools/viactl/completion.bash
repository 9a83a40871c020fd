# bash completion of Viaduct's programs: viad, viactl, viadump, viaping, viabench, vialab, lanevid and sovia.
# shellcheck shell=bash
#
# Options and commands are asked of the programs themselves (--help); what follows an option is completed
# here.

# The words of a part of PROGRAM [COMMAND] --help.
__viaduct_help() { "$@" --help 2>/dev/null; }
__viaduct_options() { __viaduct_help "$@" | grep -oE '(^|[ ,])--[a-z][a-z-]+' | tr -d ' ,' | sort -u; }
__viaduct_commands() {
  __viaduct_help "$@" | awk '/^Subcommands:/ { inside = 1; next } inside && /^  [a-z]/ { print $1 } /^[^ ]/ { inside = 0 }'
}

__viaduct_frame_types="data ack connect_moved connect_request connect_accept connect_confirm connect_reject connect_held
  disconnect disconnect_ack probe probe_ack reset name_query name_reply claim_query claim_reply stopped_query stopped_reply
  wake path"

_viaduct() {
  local program=$1 word=$2 before=$3 command= i
  local -a asked=("$program")
  COMPREPLY=()
  local commands
  commands=$(__viaduct_commands "$program")
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [ -n "$commands" ] && grep -qxF -e "${COMP_WORDS[i]}" <<<"$commands"; then
      command=${COMP_WORDS[i]}
      asked+=("$command")
      break
    fi
  done
  # What runs another program leaves the rest to that one's completion.
  if [ "${program##*/}" = sovia ] && [ "$command" = run ] && [[ $word != -* ]] && declare -F _command_offset >/dev/null; then
    for ((i = i + 1; i <= COMP_CWORD; i++)); do
      if [[ ${COMP_WORDS[i]} != -* ]]; then
        _command_offset "$i"
        return
      fi
    done
  fi
  local words=
  case $before in
    --interface | -i) words=$(ls /sys/class/net 2>/dev/null) ;;
    --log-level | -l | log-level) words="trace debug info warn error off" ;;
    --type) [ "${program##*/}" = viadump ] && words=$__viaduct_frame_types ;;
    --time | -t) words="clock epoch relative" ;;
    --sort | -o) [ "$command" = top ] && words="frames out in resent rtt" ;;
    --user) words=$(compgen -u) ;;
    --reliability) words="ud rd rr" ;;
    --wait) words="poll block" ;;
    --op) words="send write read" ;;
    --read | --write | -r | -w)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --port | -p)
      [ "${program##*/}" = viad ] && words="auto tcx xdp-native xdp-generic pcap"
      [ "$command" != "" ] && words=$(cd /proc && echo [0-9]*)
      ;;
    --pid | trace) words=$(cd /proc && echo [0-9]*) ;;
    --config | -c | --socket | -s | --log-file | --pid-file | --json-file | --plots | --markdown)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    *)
      if [[ $word == -* ]]; then
        words=$(__viaduct_options "${asked[@]}")
      elif [ -n "$commands" ] && [ -z "$command" ]; then
        words=$commands
      elif [ "${program##*/}" = sovia ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

# vialab is a script with a list of options of its own: its commands, hosts of the lab, and what the options are.
__vialab_hosts() { (cd /run/netns 2>/dev/null && printf '%s\n' "viaduct-$1-"?) | sed -n "s/^viaduct-$1-\([a-z]\)$/\1/p"; }
__vialab_names() { (cd /run/viaduct-lab 2>/dev/null && printf '%s\n' *) | grep -vxF '*'; }

_vialab() {
  local program=$1 word=$2 before=$3 words= name=lab i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD - 1; i++)); do
    [ "${COMP_WORDS[i]}" != --name ] || name=${COMP_WORDS[i + 1]}
  done
  case $before in
    --name) words=$(__vialab_names) ;;
    --from) words="a b" ;;
    --config)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    *)
      if [[ $word == -* ]]; then
        words=$(__viaduct_options "$program")
      elif [ "$COMP_CWORD" -eq 1 ]; then
        words="up faults exec mpi status down"
      elif [ "${COMP_WORDS[1]}" = exec ] || [ "${COMP_WORDS[1]}" = mpi ]; then
        # Behind the host comes the program.
        for ((i = 2; i < COMP_CWORD; i++)); do
          if [ "${COMP_WORDS[i]}" = --name ]; then
            i=$((i + 1))
          elif [ "${COMP_WORDS[1]}" = exec ] && declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
            return
          fi
        done
        words=$(__vialab_hosts "$name")
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o filenames -F _vialab vialab
complete -o filenames -F _viaduct viad viactl viadump viaping viabench lanevid sovia
