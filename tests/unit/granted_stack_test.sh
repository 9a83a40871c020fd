#!/bin/sh
# The stack for libvipl: nothing of the C++ library, no exception, no type information, no virtual
# call, and besides the C library only the port and the environment that it is bound to.
set -u
top_builddir=${top_builddir:-.}
archive=$top_builddir/.libs/libviaduct_granted_stack.a
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

if nm -u "$archive" 2>/dev/null | grep -qE '__(asan|ubsan|tsan)_'; then
  echo "built with sanitizers: what it needs is not looked at"
  exit 77
fi
try 'the archive is there' test -s "$archive"
nm "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$work/has"
nm -u "$archive" 2>/dev/null | awk 'NF == 2 { print $2 }' | sort -u |
  comm -23 - "$work/has" >"$work/needs"
try 'it has a stack' grep -q '^_ZN7viaduct13granted_stack5Stack8progress' "$work/has"
try 'and none of the other build' sh -c "! grep hosted_stack '$work/has' '$work/needs'"
try 'it needs nothing of the C++ library' sh -c \
  "! grep -vE '^_ZNK?7viaduct(11GrantedPort|18GrantedEnvironment)' '$work/needs' |
   grep -E '^_Z|^__cxa|^__gxx|^_Unwind|^__dynamic_cast'"
try 'it has no virtual tables and no type information' sh -c "! grep -E '^_ZT[VIS]' '$work/has'"
try 'of the C library it needs little' sh -c \
  "! grep -v '^_Z' '$work/needs' | grep -vxE \
'_GLOBAL_OFFSET_TABLE_|mem(cpy|move|set|cmp)|bcmp|strn?len|__popcountdi2|__(memcpy|memmove|memset)_chk|__assert_fail|__stack_chk_fail'"
exit $failed
