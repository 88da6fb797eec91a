#!/usr/bin/env bash
# What every change must pass, each step named and timed; stops at the first that fails. Called by `make test`.
#
# All steps build the whole workspace with the same features and flags into one target directory, so that dependencies are
# compiled once for checking (clippy, doc) and once for running (tests); xtask, which tidy builds alone, depends on none of it. What is slow by nature is in `make proof`.
set -euo pipefail
cd "$(dirname "$0")/.."
nextest=$(setup/nextest.sh)
PATH=$nextest:$PATH

summary=()
begin=$SECONDS
skipped=$(mktemp)
quarantine=$(mktemp)
stale=$(mktemp)
junit=target/nextest/default/junit.xml
rm -f "$junit"
trap 'rm -f "$skipped" "$quarantine" "$stale"' EXIT

# The tests that could not run, each with its need and its reason.
list_skipped() {
    local count
    count=$(wc -l <"$skipped")
    if [ "$count" -eq 0 ]; then
        echo "no test was skipped"
    else
        echo "$count tests were skipped (FATHOM_MUST_RUN=all makes each of them a failure):"
        sort "$skipped" | while IFS=$'\t' read -r need name reason; do echo "  $name (needs $need): $reason"; done
    fi
}

# The tests in quarantine that passed only at a later attempt.
list_flaky() {
    { grep -B 1 '<flakyFailure' "$junit" 2>/dev/null || true; } |
        sed -n 's/.*<testcase name="\([^"]*\)" classname="\([^"]*\)".*/flaky (xtask\/quarantine.toml): \2 \1/p' | sort -u
}

# The pages that are behind what the tests found, and not wrong.
list_stale() {
    sort -u "$stale" | while read -r page; do echo "out of date, make refresh writes it: $page"; done
}

step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    if "$@"; then
        summary+=("$name $((SECONDS - start)) s")
        printf '== %s: passed in %s s\n' "$name" "$((SECONDS - start))"
    else
        local code=$?
        printf '\n'
        list_skipped
        list_flaky
        printf 'make test: FAILED at %s (exit %s) after %s s\n' "$name" "$code" "$((SECONDS - begin))"
        exit "$code"
    fi
}

format() { cargo fmt --all --check && cargo fmt --manifest-path fuzz/Cargo.toml --check; }
step format format
step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
step tool cargo clippy --package fathom --no-default-features --locked -- -D warnings
step build cargo nextest run --workspace --locked --no-run --cargo-quiet
step tidy cargo xtask tidy
RUSTDOCFLAGS="-D warnings" step doc cargo doc --workspace --all-features --no-deps --document-private-items --locked --quiet
# Property tests draw the same cases each time: a change fails for what it did. make soak draws others.
export PROPTEST_RNG_SEED=20261125
# What the compiler wrote goes to the disk first: a server that syncs its journal meanwhile stands still for seconds.
timeout 120 sync || true
# To the end even where one fails: a run on a machine that is gone afterwards tells all that do.
cargo xtask quarantine >"$quarantine"
# make quick leaves out the tests that took long.
trap 'cp "$junit" target/nextest/last.xml 2>/dev/null || true; rm -f "$skipped" "$quarantine" "$stale"' EXIT
FATHOM_SKIPPED=$skipped FATHOM_STALE=$stale step test cargo nextest run --workspace --locked --cargo-quiet --tool-config-file "quarantine:$quarantine"

joined=$(printf ', %s' "${summary[@]}")
printf '\n'
list_skipped
list_flaky
list_stale
printf 'make test: passed in %s s (%s)\n' "$((SECONDS - begin))" "${joined:2}"
