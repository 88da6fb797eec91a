#!/usr/bin/env bash
# Uses the program of `make tool`, which has no lab server: setup/tool_test.sh PROGRAM.
#
# It is small, measures what needs no server of its own, and says in one sentence what it lacks.
set -euo pipefail

program=$(realpath "${1:?usage: setup/tool_test.sh PROGRAM}")
max_bytes=$((25 << 20))
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C FATHOM_STATE=$scratch/state

fail() {
    echo "tool test: FAILED: $*" >&2
    exit 1
}

# Runs the program; its exit code has to be one of the first argument.
run() {
    local allowed=$1 code=0
    shift
    timeout 120 "$program" "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    case ",$allowed," in *",$code,"*) ;; *) fail "$* ended with $code: $(tail -n 3 "$scratch/err")" ;; esac
}

size=$(stat --format %s "$program")
[ "$size" -le $max_bytes ] || fail "it has $size bytes of $max_bytes at most"
mkdir "$scratch/data"
run 0,1,4 checkup --dir "$scratch/data" --quick
grep -q '^Verdict: ' "$scratch/out" || fail "checkup gave no verdict"
grep -q 'this build has no server to load' "$scratch/err" || fail "checkup does not say what it left out"
[ -z "$(ls "$scratch/data")" ] || fail "checkup left $(ls "$scratch/data")"
run 0 iostat 1 1
run 0,1,4 report --output "$scratch/page.html"
for verb in "serve --dbpath $scratch/data" "route --configdb 127.0.0.1:1"; do
    # shellcheck disable=SC2086 # words
    run 3 $verb
    grep -q 'is not in this build of fathom' "$scratch/err" || fail "$verb says: $(cat "$scratch/err")"
done
run 3 ycsb load mongodb -p workload=site.ycsb.workloads.CoreWorkload --driver official
grep -q 'official driver is not in this build' "$scratch/err" || fail "--driver official says: $(cat "$scratch/err")"
echo "tool test: $((size >> 20)) MiB; checkup, iostat, report work, and what is missing says so"
