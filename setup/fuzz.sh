#!/usr/bin/env bash
# Runs every fuzz target for some seconds: setup/fuzz.sh SECONDS. Called by `make fuzz`.
#
# cargo-fuzz wants flags that the stable compiler keeps behind RUSTC_BOOTSTRAP; it is set for this build only. The
# corpus grows in fuzz/corpus from the committed fuzz/seeds; a crash leaves its input in fuzz/artifacts and ends with an error.
set -euo pipefail
seconds=${1:?usage: setup/fuzz.sh SECONDS}
cd "$(dirname "$0")/.."
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
PATH=$PATH:$cache/tools/bin

if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz into $cache/tools"
    cargo install cargo-fuzz --quiet --locked --root "$cache/tools"
fi
export RUSTC_BOOTSTRAP=1
# Apart from the ordinary builds: these flags would rebuild everything there.
export CARGO_TARGET_DIR=$cache/fuzz-target

for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
    echo "== fuzz $target for $seconds s"
    cargo fuzz run --fuzz-dir fuzz "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 -print_funcs=0 -verbosity=0
done
