#!/usr/bin/env bash
# Builds cargo-nextest once into the cache and prints the folder of its program: setup/nextest.sh.
#
# It runs each test in a process of its own, all test programs at the same time, and ends a test that hangs. The version is fixed;
# its dependencies are those of its own lock file. It is built without optimization, because it only waits for tests. Two calls at
# the same time are safe: one waits for the other.
set -euo pipefail

version=0.9.151
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
folder=$cache/nextest-$version
PATH=$PATH:$HOME/.cargo/bin

say() { echo "nextest: $*" >&2; }

if [ ! -x "$folder/bin/cargo-nextest" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/nextest.lock"
    flock -n 9 || { say "another installation is running; waiting for it" && flock 9; }
fi
if [ ! -x "$folder/bin/cargo-nextest" ]; then
    say "building cargo-nextest $version (two minutes, once)"
    work=$(mktemp -d "$cache/nextest-build-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    log=$cache/nextest-build.log
    # The self-update is left out: the version is ours to choose.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo install cargo-nextest --version "$version" --locked --quiet \
        --no-default-features --features default-no-update --root "$work/root" --target-dir "$work/target" >"$log" 2>&1 9>&- || {
        tail -n 5 "$log" >&2
        say "the build failed; the whole of its output is in $log"
        exit 3
    }
    rm -rf "$folder"
    mv -T "$work/root" "$folder"
    say "it is in the cache"
fi
echo "$folder/bin"
