#!/usr/bin/env bash
# Uses a static program as on hosts that this machine is none of: setup/static_test.sh PROGRAM. As root.
#
# First in a root that has nothing but the program, /proc, /sys, /dev/null, /dev/urandom and one directory; then under a filter that
# answers ENOSYS to each system call that is newer than Linux 3.10 (setup/old_kernel.py). In both it probes a disk, shows devices and
# settings, and serves on both engines, to a load that finds the server by name.
set -euo pipefail

program=$(realpath "${1:?usage: setup/static_test.sh PROGRAM}")
here=$(realpath "$(dirname "$0")")
export LC_ALL=C

say() { echo "static test: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "only root can change the root folder"
if [ -z "${FATHOM_STATIC_TEST-}" ]; then
    # The mounts below are in a namespace of their own.
    FATHOM_STATIC_TEST=inside exec unshare --mount --propagation private "$here/static_test.sh" "$program"
fi
# ldd says it with an exit code of 1.
linked=$(ldd "$program" 2>&1 || true)
case $linked in
    *"statically linked"* | *"not a dynamic executable"*) say "the program is static" ;;
    *) fail "the program is not static: $linked" ;;
esac

root=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    for at in proc sys dev/null dev/urandom; do umount "$root/$at" 2>/dev/null || true; done
    rm -rf --one-file-system "$root"
}
trap end EXIT

mkdir -p "$root"/{proc,sys,dev,data}
touch "$root"/dev/{null,urandom}
cp "$program" "$root/fathom"
mount --bind /proc "$root/proc"
mount --bind /sys "$root/sys"
mount --bind /dev/null "$root/dev/null"
mount --bind /dev/urandom "$root/dev/urandom"

PATH=$PATH:/usr/sbin
in_root=(env --ignore-environment HOME=/data "$(command -v chroot)" "$root" /fathom)
on_old_kernel=(env --ignore-environment HOME="$root/data" "$(command -v python3)" "$here/old_kernel.py" "$root/fathom")

# Runs a verb; 1 and 4 are answers too.
run() {
    local code=0
    timeout 120 "$@" >"$root/out" 2>"$root/err" || code=$?
    case $code in 0 | 1 | 4) ;; *) fail "$* ended with $code: $(tail -n 5 "$root/err")" ;; esac
}

# All verbs by the words of the array, which sees the data directory as the second argument.
try() {
    local -n way=$1
    local data=$2 engine port host
    run "${way[@]}" disk --dir "$data" --quick
    grep -q '^Verdict: ' "$root/out" || fail "disk gave no verdict"
    run "${way[@]}" iostat 1 1
    grep -q '^Device' "$root/out" || fail "iostat shows no device"
    run "${way[@]}" doctor --dir "$data"
    grep -Eq '^[0-9]+ checks? passed' "$root/out" || fail "doctor checked nothing"
    for engine in wiredTiger rocksdb; do
        mkdir "$root/data/$engine"
        "${way[@]}" serve --dbpath "$data/$engine" --storageEngine "$engine" --port 0 >"$root/log" 2>&1 &
        server=$!
        for _ in $(seq 200); do
            port=$(sed -n 's/.*Waiting for connections.*"port":\([0-9]*\).*/\1/p' "$root/log")
            [ -z "$port" ] || break
            sleep 0.1
        done
        [ -n "$port" ] || fail "serve on $engine did not come up: $(tail -n 3 "$root/log")"
        for host in localhost "$(uname -n)"; do
            run "${way[@]}" ycsb load mongodb -p workload=site.ycsb.workloads.CoreWorkload -p recordcount=500 \
                -p "mongodb.url=mongodb://$host:$port/$host" --no-record
            grep -q 'Return=OK, 500' "$root/out" || fail "ycsb on $engine at $host loaded something else"
        done
        run "${way[@]}" watch --uri "mongodb://localhost:$port" --for 3s
        kill "$server"
        wait "$server" || fail "serve on $engine ended with $?"
        server=
        rm -rf "$root/data/$engine"
    done
}

try in_root /data
say "in an empty root: disk, iostat, doctor, serve on both engines, ycsb by host name, watch"
try on_old_kernel "$root/data"
say "without the system calls that came after Linux 3.10: the same"
