# setup.sh: what ./demo, ./check and the benches of programs and applications have in common. To be sourced; `program` is the
# script's name, `root` the source directory, and `script` the script's path where it is not $root/$program.
# shellcheck shell=bash disable=SC2154
#
#   outer script      installs packages, starts the inner one, and does nothing more
#     |
#     +- inner script, in a process name space and a mount name space of its own
#          builds, makes namespaces and processes ...
#
# The kernel ends every process of a process name space when its first one ends, and the first one
# is ended when the outer script dies (kill -9 included). Network namespaces, their links and the
# XDP programs on these go with the last process. So nothing can be left behind, however the script
# ends, and two of them do not see each other's hosts.

# Everything that a Debian 12 needs, to build and to run the tests.
readonly packages=(
  autoconf automake libtool autoconf-archive make gcc g++ libc6-dev pkg-config
  clang bpftool libbpf-dev libxdp-dev libelf-dev zlib1g-dev linux-libc-dev
  libpcap-dev libnl-3-dev libnl-route-3-dev libseccomp-dev
  libfabric-dev libfabric-bin openmpi-bin libopenmpi-dev
  libspdlog-dev libcli11-dev libtomlplusplus-dev libgtest-dev libgmock-dev
  iproute2 iputils-ping util-linux procps ethtool nftables spin tshark
  # Programs that run on SOVIA, to show and to test it; byacc and libncurses-dev build two of them.
  byacc libncurses-dev curl ftp-ssl ftpd-ssl iperf3 netbase netpipe-tcp nginx-light openbsd-inetd openssl
  python3 redis-server redis-tools rsync socat tnftp wrk
)
# Only `make bench-programs` runs these.
# shellcheck disable=SC2034  # for that script
readonly bench_packages=(haproxy libmemcached-tools memcached openssh-client openssh-server postgresql sockperf)
# Only `make bench-applications` runs these.
# shellcheck disable=SC2034  # for that script
readonly application_packages=(apache2 libapache2-mod-php libnfs-utils libtirpc-dev nfs-ganesha nfs-ganesha-vfs
  php-pgsql postgresql rpcbind)
# Only tests/integration/sovia_languages.test runs these, if they are there: `apt-get install` them for it.
# shellcheck disable=SC2034
readonly language_packages=(default-jdk-headless glusterfs-server golang-go nodejs php-cli python3-uvloop)
# Units of services that come with these packages. None of them is wanted: programs run in labs.
readonly -A services=([apache2]=apache2 [haproxy]=haproxy [memcached]=memcached [nfs-ganesha]=nfs-ganesha
  [nginx-light]=nginx [openbsd-inetd]=inetd [openssh-server]=ssh [postgresql]=postgresql [redis-server]=redis-server
  [rpcbind]=rpcbind [rsync]=rsync)

export LC_ALL=C
build=$root/build

step() { printf '\n=== %s: %s\n' "$program" "$*"; }
die() { printf '%s: %s\n' "$program" "$*" >&2; exit 1; }

require_root() {
  [ "$(id -u)" -eq 0 ] || die "must be run as root: it installs packages and makes network namespaces"
}

# missing_packages PACKAGE...: those that are not installed.
missing_packages() {
  local package
  for package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

# Debian's packages ask this file, where there is one, before they start their services.
readonly policy=/usr/sbin/policy-rc.d
readonly policy_mark="# viaduct: no service is started while its packages are installed"

forbid_services() {
  [ ! -e $policy ] || return 0
  printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >$policy
  chmod 755 $policy
}

# Also when the file is from a run that was killed.
allow_services() {
  if grep -q -s -x -F "$policy_mark" $policy; then rm -f $policy; fi
}

# disable_services PACKAGE...: those of packages that have just been installed, so that they are not started
# with the machine either.
disable_services() {
  local package
  [ -d /run/systemd/system ] || return 0
  for package in "$@"; do
    [ -z "${services[$package]:-}" ] || systemctl --quiet disable "${services[$package]}" || :
  done
}

# install_packages [PACKAGE...]: what of these, or of ${packages[@]}, is not there.
install_packages() {
  local missing log
  [ $# -gt 0 ] || set -- "${packages[@]}"
  command -v dpkg-query >/dev/null ||
    die "this is not Debian: install what doc/build.md lists, then build with configure and make"
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  step "installing ${missing[*]}"
  log=$(mktemp)
  # Only one process at a time can change the system's packages; the second one waits.
  local get=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -y)
  trap allow_services EXIT
  forbid_services
  if ! { "${get[@]}" install --no-install-recommends "${missing[@]}" ||
    { "${get[@]}" update && "${get[@]}" install --no-install-recommends "${missing[@]}"; }; } \
    >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "these packages can't be had: ${missing[*]}"
  fi
  rm -f "$log"
  allow_services
  trap - EXIT
  disable_services "${missing[@]}"
}

# ---------------------------------------------------------------------------- containment

# stop PROCESS STATUS: ends the inner script, and this one with that status.
stop() {
  kill -KILL "$1" 2>/dev/null
  printf '\n%s: stopped; nothing is left behind\n' "$program" >&2
  exit "$2"
}

# Runs this script again, contained, and ends as it ends.
contain() {
  local inner status=0
  export DEBIAN_FRONTEND=noninteractive
  VIADUCT_CONTAINED=$program setpriv --pdeathsig KILL \
    unshare --mount --pid --fork --kill-child --mount-proc \
    "${script:-$root/$program}" "$@" &
  inner=$!
  trap 'stop $inner 129' HUP
  trap 'stop $inner 130' INT
  trap 'stop $inner 143' TERM
  wait $inner || status=$?
  exit $status
}

# In the inner script: directories that would be shared with the rest of the system, and so could
# outlive it, become its own.
contained() {
  [ "${VIADUCT_CONTAINED:-}" = "$program" ] && [ $$ -eq 1 ]
}

prepare_container() {
  local directory
  mount -t tmpfs -o mode=755 none /run || die "can't mount in a mount name space of its own"
  for directory in /run/netns /run/lock /run/viaduct-lab /run/tmp; do mkdir -p "$directory"; done
  export TMPDIR=/run/tmp
  if mkdir -p /etc/netns 2>/dev/null; then mount -t tmpfs -o mode=755 none /etc/netns; fi
}

# ---------------------------------------------------------------------------- building

# Runs a command, showing its output only if it fails.
quietly() {
  local log=/run/$program.log
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    die "failed: $*"
  fi
}

# The same of make: on a terminal it says meanwhile how far it is.
quietly_make() {
  local begin=$SECONDS log=/run/$program.log shower
  [ -t 1 ] || { quietly make "$@"; return; }
  # It ends with the build, or with this script, whose processes all end with it.
  while sleep 1; do
    printf '\r    %d s, %d files compiled ' $((SECONDS - begin)) "$(grep -c '^  C[CX]' "$log" 2>/dev/null || :)"
  done &
  shower=$!
  quietly make "$@"
  kill $shower
  wait $shower 2>/dev/null || :
  printf '\r\033[K'
}

# build_ftp: the ftp programs of the papers, as ./demo builds them. Without the network benches leave out what needs them.
build_ftp() {
  local upstream=$VIADUCT_BUILD/examples/ftp/upstream
  [ ! -x "$upstream/plain/in.ftpd" ] || return 0
  { "$root/examples/ftp/fetch" "$upstream/sources" &&
    SOVIA_BUILD=$VIADUCT_BUILD "$root/examples/ftp/build" "$upstream/sources" "$upstream"; } >/run/ftp.log 2>&1 ||
    tail -n 3 /run/ftp.log >&2
}

# build_tree WHAT ARGUMENT...: makes in build/ with these arguments. Two builds in one tree would tread on
# each other, so one waits.
build_tree() {
  local what=$1 jobs
  shift
  jobs=$(nproc)
  mkdir -p "$build"
  exec 9>"$build/.lock"
  if ! flock -n 9; then
    step "waiting for another build in $build"
    flock 9
  fi
  cd "$root" || die "$root is gone"
  if [ ! -x configure ] || [ configure.ac -nt configure ] || [ ! -f Makefile.in ]; then
    step "making configure"
    mkdir -p m4 build-aux
    quietly autoreconf -fi
  fi
  cd "$build" || die "$build is gone"
  if [ ! -f Makefile ] || [ ../configure -nt config.status ]; then
    step "configuring in $build"
    # /bin/sh runs configure and libtool in half of the time that bash takes.
    # Line numbers are all that the tests need to know of the programs; nothing is linked with static
    # libraries, for which all would be compiled twice; what only tests are made of may be slower.
    quietly env CONFIG_SHELL=/bin/sh ../configure --disable-static --enable-fast-build CFLAGS='-O2 -g1' CXXFLAGS='-O2 -g1' TEST_CXXFLAGS=-O1
  fi
  step "building $what in $build with $jobs jobs"
  quietly_make -j"$jobs" "$@"
  exec 9>&-
}
