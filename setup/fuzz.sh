#!/usr/bin/env bash
# Runs the fuzz targets for some seconds each, two at a time: setup/fuzz.sh SECONDS [TARGET...]; all if none is named. Called by
# `make fuzz` and `make proof`.
#
# cargo-fuzz wants flags that the stable compiler keeps behind RUSTC_BOOTSTRAP; it is set for this build only. The corpus grows in
# fuzz/corpus from the committed fuzz/seeds; a crash leaves its input in fuzz/artifacts, is shown, and ends with an error. The last
# lines say of each what it was and its input, for where neither that folder nor the whole output is kept.
set -euo pipefail
seconds=${1:?usage: setup/fuzz.sh SECONDS [TARGET...]}
shift
cd "$(dirname "$0")/.."
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
PATH=$PATH:$cache/tools/bin
jobs=${FATHOM_JOBS:-2}

if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz into $cache/tools"
    # Without optimization: it only calls cargo.
    env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install cargo-fuzz --quiet --locked --root "$cache/tools"
fi
export RUSTC_BOOTSTRAP=1
# Apart from the ordinary builds: these flags would rebuild everything there.
export CARGO_TARGET_DIR=$cache/fuzz-target

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for folder in fuzz/seeds/*/; do targets+=("$(basename "$folder")"); done
fi
for target in "${targets[@]}"; do
    if [ ! -d "fuzz/seeds/$target" ]; then
        echo "fuzz: there is no target '$target'; the targets are: $(cd fuzz/seeds && echo *)" >&2
        exit 2
    fi
done

# Built before the first begins: a build beside it would take its seconds.
cargo fuzz build --fuzz-dir fuzz target

logs=$(mktemp -d)
begun=$logs/.begun
touch "$begun"
trap 'trap - EXIT; kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
failed=()

number() { od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '; }

# The first chunk of a recording, inflated. A document of type 1 has its field `data` at byte 27: a type byte, the name, a length and a
# subtype, the chunk's length inflated, and a zlib stream, which gzip reads with its own header in place of zlib's.
real_chunk() {
    local file=$1 at=0 length
    while [ "$(tail -c +$((at + 28)) "$file" | head -c 6 | tr '\0' '.')" != $'\x05data.' ]; do
        length=$(number "$file" "$at")
        [ "${length:-0}" -gt 4 ] || { echo "fuzz: $file has no chunk" >&2; return 1; }
        at=$((at + length))
    done
    length=$(number "$file" "$((at + 33))")
    # The checksum at the end is zlib's, which gzip reports after all is written.
    { printf '\x1f\x8b\x08\0\0\0\0\0\0\0'; tail -c +$((at + 45)) "$file" | head -c $((length - 6)); } | gzip -dcq 2>/dev/null || true
}

fuzz() {
    local max_len=4096
    mkdir -p "fuzz/corpus/$1" "fuzz/artifacts/$1"
    if [ "$1" = ftdc_chunk ]; then
        # A reference document alone has 76 to 210 kB.
        max_len=1048576
        real_chunk tests/fixtures/recordings/standalone-7.0.0/metrics.interim >"fuzz/corpus/$1/real_chunk"
    fi
    FATHOM_FUZZ_TARGET=$1 cargo fuzz run --fuzz-dir fuzz target "fuzz/corpus/$1" "fuzz/seeds/$1" -- \
        -artifact_prefix="fuzz/artifacts/$1/" -max_total_time="$seconds" -max_len=$max_len -print_final_stats=1 \
        -print_funcs=0 -verbosity=0
}

# Waits for one of those that run, and shows what it found.
finish() {
    local target=$1 pid=$2
    if wait "$pid"; then
        echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target") inputs in $seconds s, no findings"
    else
        failed+=("$target")
        tail -n 60 "$logs/$target"
        echo "fuzz $target: FAILED; the input is in fuzz/artifacts/$target" >&2
    fi
}

# What a target that failed found: the first line that names a fault, or its last one, and its inputs of this run.
retell() {
    local log=$logs/$1
    echo "fuzz $1: $({ grep -m1 -A1 -E 'panicked at|ERROR: |SUMMARY: ' "$log" || tail -n 1 "$log"; } | tr '\n' ' ')"
    # A target that failed before it ran has no folder; the others are told all the same.
    { find "fuzz/artifacts/$1" -type f -newer "$begun" 2>/dev/null || true; } | while read -r input; do
        echo "fuzz $1: echo '$(base64 -w0 "$input")' | base64 -d > $(basename "$input")"
    done
}

running=()
for target in "${targets[@]}"; do
    fuzz "$target" >"$logs/$target" 2>&1 &
    running+=("$target $!")
    if [ ${#running[@]} -ge "$jobs" ]; then
        # shellcheck disable=SC2086 # two words: the target and its process
        finish ${running[0]}
        running=("${running[@]:1}")
    fi
done
for one in "${running[@]}"; do
    # shellcheck disable=SC2086
    finish $one
done
for target in "${failed[@]}"; do retell "$target"; done >&2
[ ${#failed[@]} -eq 0 ]
