#!/usr/bin/env bash
# Everything that a change must pass, each step named and timed; stops at the first that fails. Called by `make test`.
#
# All steps build the whole workspace with the same features and flags into one target directory, so that
# dependencies are compiled once for checking (clippy, doc) and once for running (tests).
set -euo pipefail
cd "$(dirname "$0")/.."

summary=()
begin=$SECONDS

step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    if "$@"; then
        summary+=("$name $((SECONDS - start)) s")
        printf '== %s: passed in %s s\n' "$name" "$((SECONDS - start))"
    else
        local code=$?
        printf '\nmake test: FAILED at %s (exit %s) after %s s\n' "$name" "$code" "$((SECONDS - begin))"
        exit "$code"
    fi
}

format() { cargo fmt --all --check && cargo fmt --manifest-path fuzz/Cargo.toml --check; }
step format format
step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
step build cargo test --workspace --locked --no-run
step tidy cargo xtask tidy
# To the end even where one fails: a run on a machine that is gone afterwards tells all that does.
step test cargo test --workspace --locked --no-fail-fast
RUSTDOCFLAGS='-D warnings' step doc cargo doc --workspace --no-deps --document-private-items --locked
# Hostile input, a minute for each parser; FUZZ_SECONDS=0 only checks that the targets compile.
if [ "${FUZZ_SECONDS:-60}" -gt 0 ]; then
    step fuzz setup/fuzz.sh "${FUZZ_SECONDS:-60}"
else
    step fuzz-check cargo check --manifest-path fuzz/Cargo.toml --no-default-features --locked
fi

joined=$(printf ', %s' "${summary[@]}")
printf '\nmake test: passed in %s s (%s)\n' "$((SECONDS - begin))" "${joined:2}"
