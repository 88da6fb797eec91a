#!/usr/bin/env bash
# Builds WiredTiger once into the cache and prints the directory that holds its include/ and lib/: setup/wiredtiger.sh.
#
# The source comes from PyPI, where WiredTiger's own authors publish it, and must have the checksum below. Afterwards nothing
# needs the network: the archive stays in the cache beside the library. The directory's name carries a key over everything
# that the library depends on, so that a changed option builds anew and never meets an old library. Two at once are
# safe: one waits for the other, and the directory appears only when it is whole. Progress goes to standard error.
set -euo pipefail

version=11.3.1
checksum=95052d1b6fc06921dd617aafa1ba2a773d8dbbbf2eb74f77147290a630e598d0
# The compressors that MongoDB's options name are built in; the C++ tests, examples and bindings stay out.
options=(
    -DCMAKE_BUILD_TYPE=Release
    -DENABLE_STATIC=1 -DENABLE_SHARED=0 -DWITH_PIC=1
    -DENABLE_STRICT=0 -DENABLE_COLORIZE_OUTPUT=0 -DHAVE_DIAGNOSTIC=0
    -DHAVE_BUILTIN_EXTENSION_SNAPPY=1 -DHAVE_BUILTIN_EXTENSION_ZLIB=1 -DHAVE_BUILTIN_EXTENSION_ZSTD=1
    -DENABLE_LZ4=0 -DENABLE_IAA=0 -DENABLE_SODIUM=0 -DENABLE_MEMKIND=0
    -DENABLE_PYTHON=0 -DENABLE_CPPSUITE=0 -DENABLE_MODEL=0
)
jobs=${FATHOM_JOBS:-2}

say() { echo "wiredtiger: $*" >&2; }

# Ends with a sentence and what to do about it; exit 3 is the environment's fault.
fail() {
    say "$1"
    shift
    for line in "$@"; do echo "  $line" >&2; done
    exit 3
}

key=$({ echo "$version $checksum ${options[*]} $(uname -m)" && cat "$0"; } | sha256sum | cut -c1-12)
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
prefix=$cache/wiredtiger-$version-$key
archive=$cache/wiredtiger-$version.tar.gz

finish() {
    echo "$prefix"
    exit 0
}
[ ! -e "$prefix/lib/libwiredtiger.a" ] || finish

for tool in cmake make cc c++ flock sha256sum tar; do
    command -v "$tool" >/dev/null || fail "$tool is missing" "run: setup/install.sh build"
done
for header in snappy-c.h zlib.h zstd.h; do
    echo "#include <stddef.h>
#include <$header>" | cc -E - >/dev/null 2>&1 ||
        fail "the header $header is missing" "run: setup/install.sh build"
done

mkdir -p "$cache" || fail "cannot make the cache directory $cache" "name another one with FATHOM_CACHE"
exec 9>"$cache/wiredtiger.lock"
if ! flock -n 9; then
    say "another build is running; waiting for it"
    flock 9
fi
[ ! -e "$prefix/lib/libwiredtiger.a" ] || finish

work=$(mktemp -d "$cache/wiredtiger-build-XXXXXX")
trap 'rm -rf "$work"' EXIT

right() { [ -e "$1" ] && echo "$checksum  $1" | sha256sum --check --status; }

if ! right "$archive"; then
    command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 ||
        fail "python3 with pip is missing; it downloads the source" "run: setup/install.sh build" \
            "or put wiredtiger-$version.tar.gz from PyPI at $archive"
    say "downloading WiredTiger $version from PyPI"
    # Only WiredTiger as source: what pip needs to read its description may come as wheels.
    python3 -m pip download --quiet --no-deps --no-binary wiredtiger --dest "$work" "wiredtiger==$version" >"$work/pip.log" 2>&1 || {
        tail -n 5 "$work/pip.log" >&2
        fail "cannot download WiredTiger $version from PyPI" "is there a network?" \
            "without one, put wiredtiger-$version.tar.gz at $archive" \
            "or use an installed library with FATHOM_WIREDTIGER_DIR or FATHOM_WIREDTIGER=system"
    }
    right "$work/wiredtiger-$version.tar.gz" ||
        fail "the downloaded wiredtiger-$version.tar.gz does not have the expected checksum" "expected sha256 $checksum" \
            "nothing was built; a proxy may have changed it"
    mv "$work/wiredtiger-$version.tar.gz" "$archive"
fi

say "building WiredTiger $version (about four minutes of one processor, once)"
tar -xzf "$archive" -C "$work"
source=$work/wiredtiger-$version
# Each process that opens a database first counts to 100 million three times, to compare the processor's clock with the system's, which
# takes 0.6 s of a processor. Counting to 5 million takes 33 ms in all, and the ratio, by which WiredTiger's statistics measure time,
# differs by less than 0.05 % (docs/journal/2026-11-29-proof-report.md). Releases after this one wait for 10 ms.
calibration=$source/src/support/global.c
grep -q 'i < 100 \* WT_MILLION;' "$calibration" || fail "the calibration loop of WiredTiger $version is not where it was" "see $calibration"
sed -i 's/i < 100 \* WT_MILLION;/i < 5 * WT_MILLION;/' "$calibration"
# The build files ask for Python's headers whether Python's interface is built or not; this answer spares them.
mkdir "$work/modules"
echo 'set(Python3_FOUND TRUE)' >"$work/modules/FindPython3.cmake"

log=$cache/wiredtiger-$version-build.log
{ cmake -S "$source" -B "$work/build" -G "Unix Makefiles" "${options[@]}" -DCMAKE_MODULE_PATH="$work/modules" &&
    cmake --build "$work/build" --target wiredtiger_static --parallel "$jobs"; } >"$log" 2>&1 9>&- || {
    tail -n 20 "$log" >&2
    fail "the build failed; the whole of its output is in $log"
}

mkdir -p "$work/prefix/include" "$work/prefix/lib"
cp "$work/build/include/wiredtiger.h" "$source/src/include/wiredtiger_ext.h" "$work/prefix/include/"
cp "$(find "$work/build" -name libwiredtiger.a -print -quit)" "$work/prefix/lib/"
cp "$source/LICENSE" "$work/prefix/"
# Cargo takes a file that is newer than the start of the build script for a change, and would build all again next time.
find "$work/prefix" -exec touch --date "@0" {} +
rm -rf "$prefix"
mv -T "$work/prefix" "$prefix"
say "built $prefix"
finish
