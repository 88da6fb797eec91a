#!/usr/bin/env bash
# Builds go-ycsb v1.0.1 once into the cache and prints the program's path: setup/go-ycsb.sh.
#
# go-ycsb is the client that the bench holds the server against. setup/go-ycsb/ is a module of ours that requires exactly
# that version; go.sum has the checksums of all that is compiled. Afterwards nothing needs the network: the program stays
# in the cache under a key over the module, this script and the Go that builds it. Two at once are safe: one waits for
# the other, and the program appears only when it is whole. Progress goes to standard error.
set -euo pipefail

say() { echo "go-ycsb: $*" >&2; }

here=$(cd "$(dirname "$0")" && pwd)
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
# Go installs itself there, and a shell that was open before does not know it.
PATH=$PATH:/usr/local/go/bin

if ! command -v go >/dev/null; then
    say "go is missing; it builds go-ycsb"
    say "install Go 1.21 or newer from https://go.dev/dl, or Debian's golang-go of a release that has it"
    exit 3
fi

key=$({ go version && cat "$0" "$here"/go-ycsb/{go.mod,go.sum,main.go}; } | sha256sum | cut -c1-12)
program=$cache/go-ycsb-1.0.1-$key

finish() {
    echo "$program"
    exit 0
}
[ ! -x "$program" ] || finish

mkdir -p "$cache"
exec 9>"$cache/go-ycsb.lock"
if ! flock -n 9; then
    say "another build is running; waiting for it"
    flock 9
fi
[ ! -x "$program" ] || finish

say "building go-ycsb 1.0.1 (half a minute, once)"
work=$(mktemp -d "$cache/go-ycsb-build-XXXXXX")
trap 'rm -rf "$work"' EXIT
# A copy: go may want to write into go.sum, and the tree is not its to change.
cp "$here"/go-ycsb/* "$work/"
log=$cache/go-ycsb-build.log
(cd "$work" && GOFLAGS=-mod=mod CGO_ENABLED=0 go build -trimpath -o "$work/go-ycsb" .) >"$log" 2>&1 9>&- || {
    tail -n 5 "$log" >&2
    say "the build failed; the whole of its output is in $log"
    exit 3
}
cmp -s "$here/go-ycsb/go.sum" "$work/go.sum" || {
    say "the build wanted other modules than setup/go-ycsb/go.sum lists; nothing was kept"
    exit 3
}
mv "$work/go-ycsb" "$program"
say "built $program"
finish
