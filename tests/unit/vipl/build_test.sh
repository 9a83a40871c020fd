#!/bin/sh
# vipl.h and libvipl as programs meet them: every dialect compiles the header without a warning, C
# programs link with the C compiler alone, and the libraries show no names but Vip...
set -u
srcdir=${srcdir:-.}
top_srcdir=${top_srcdir:-$srcdir}
top_builddir=${top_builddir:-.}
CC=${CC:-cc}
CXX=${CXX:-c++}
unit=$top_srcdir/tests/unit/vipl
include=$top_srcdir/vipl
libs=${VIPL_LIBS_DIR:-$top_builddir/.libs}
[ -d "$libs" ] || libs=$top_builddir/vipl/.libs
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT INT TERM HUP
failed=0

try() {
  what=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    echo "ok: $what"
  else
    echo "FAILED: $what"
    sed 's/^/    /' "$work/log"
    failed=1
  fi
}

strict='-pedantic -Wall -Wextra -Werror'
for file in header_layout header_styles; do
  for std in c89 c99 c11 gnu89 gnu17; do
    for flag in -UVIPL095 -DVIPL095 -DWITH_VIPL095; do
      try "$file.c as $std $flag" $CC -std=$std $strict $flag -I"$include" -c "$unit/$file.c" \
        -o "$work/o.o"
    done
  done
  for std in c++98 c++11 c++14 c++17 c++20; do
    try "$file.c as $std" $CXX -x c++ -std=$std $strict -I"$include" -c "$unit/$file.c" \
      -o "$work/o.o"
  done
done
# Every enumerator is a macro too, and stays what it is.
sed -n 's/^  \(VIP_[A-Z_]*\) = \([0-9]*\).*/\1 \2/p' "$include/vipl.h" >"$work/enumerators"
{
  echo '#include "vipl.h"'
  while read -r name value; do
    printf '#ifndef %s\n#error %s\n#endif\n' "$name" "$name"
    printf 'extern char is_%s[%s == %s ? 1 : -1];\n' "$name" "$name" "$value"
  done <"$work/enumerators"
  # The highest of each type takes part in its type.
  echo 'VIP_RETURN codes[] = {VIP_ERROR_NOT_SUPPORTED};'
  echo 'VIP_VI_STATE states[] = {VIP_STATE_ERROR};'
  echo 'VIP_RESOURCE_CODE resources[] = {VIP_RESOURCE_DESCRIPTOR};'
  echo 'VIP_ERROR_CODE errors[] = {VIP_ERROR_CATASTROPHIC};'
} >"$work/macros.c"
try 'the enumerators are found' test "$(wc -l <"$work/enumerators")" -ge 36
try 'they are macros in C89' $CC -std=c89 $strict -I"$include" -c "$work/macros.c" -o "$work/o.o"
try 'and in C++98' $CXX -x c++ -std=c++98 $strict -I"$include" -c "$work/macros.c" -o "$work/o.o"

printf '#include "vipl_ext.h"\nconst char *f(void) { return VipxVersion(); }\n' >"$work/ext.c"
try 'vipl_ext.h as C89' $CC -std=c89 -pedantic -Wall -Werror -I"$include" -c "$work/ext.c" \
  -o "$work/o.o"
try 'vipl_ext.h as C++98' $CXX -x c++ -std=c++98 -pedantic -Wall -Werror -I"$include" \
  -c "$work/ext.c" -o "$work/o.o"

if [ -e "$libs/libvipl.so" ] && nm -D "$libs/libvipl.so" | grep -qE '__(asan|ubsan|tsan)_'; then
  echo "libvipl is built with sanitizers: what it links with is not looked at"
  exit $failed
fi

if [ -e "$libs/libvipl.a" ]; then
  try 'a C program links with libvipl.a and -lpthread' $CC -I"$include" \
    "$unit/header_styles.c" "$libs/libvipl.a" -lpthread -o "$work/static"
  try 'and runs' "$work/static"
fi
if [ -e "$libs/libvipl.so" ]; then
  try 'a C program links with libvipl.so' $CC -I"$include" "$unit/header_styles.c" \
    -L"$libs" -lvipl -Wl,--no-undefined -o "$work/shared"
  try 'and runs' env LD_LIBRARY_PATH="$libs" "$work/shared"

  # Programs exist that load "vipl.so" by name.
  printf '#include <dlfcn.h>\nint main(void) {\n  void *library = dlopen("vipl.so", RTLD_NOW);
  return library == 0 || dlsym(library, "VipOpenNic") == 0;\n}\n' >"$work/load.c"
  try 'a program that loads vipl.so is built' $CC "$work/load.c" -o "$work/load" -ldl
  try 'and finds it in the build tree' env LD_LIBRARY_PATH="$libs" "$work/load"

  nm -D --defined-only "$libs/libvipl.so" | awk '{ print $3 }' >"$work/names"
  try 'libvipl.so exports names' test -s "$work/names"
  try 'and they all begin with Vip' sh -c "! grep -v '^Vip' '$work/names'"
  # Every prototype of the headers is there.
  grep -ohE '\bVipx?[A-Z][A-Za-z]*\(' "$include/vipl.h" "$include/vipl_ext.h" |
    tr -d '(' | sort -u >"$work/wanted"
  try 'every function of the headers is exported' sh -c \
    "sort '$work/names' | comm -13 - '$work/wanted' | grep . && exit 1 || exit 0"
  # The library's undefined names: the C library's, and no name that a program may define.
  nm -D --undefined-only "$libs/libvipl.so" | awk '$1 == "U" { sub("@.*", "", $2); print $2 }' \
    >"$work/needs"
  try 'it needs nothing of the C++ library' sh -c \
    "! grep -E '^_Z|^__cxa|^__gxx|^_Unwind' '$work/needs'"
  try 'it needs no semaphores, sockets or files by name' sh -c "! grep -xE \
'sem_.*|socket|connect|send|recv|sendmsg|recvmsg|close|open|read|write|poll|fcntl|mmap|malloc' \
'$work/needs'"
  # The stack in it is the one that is built for it.
  nm "$libs/libvipl.so" | awk 'NF == 3 { print $3 }' >"$work/has"
  try 'it has a stack of its own' grep -q 'viaduct10BasicStackINS_15GrantedPlatformEE8progress' "$work/has"
  try 'and nothing of the agent' sh -c "! grep HostedWorld '$work/has'"
  try 'it has no virtual tables and no type information' sh -c "! grep -E '^_ZT[VIS]' '$work/has'"
  try 'it needs the C library alone' sh -c \
    "! readelf -d '$libs/libvipl.so' | grep NEEDED | grep -vE 'libc\.so|ld-linux'"
fi
exit $failed
