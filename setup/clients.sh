#!/usr/bin/env bash
# The clients that nobody here wrote, for the tests: setup/clients.sh install [NAME...] puts them into the cache, once;
# setup/clients.sh path NAME prints the folder of one, or says in one line why it is not there (exit 3).
#
# Each client has a folder below tests/clients with its exact versions and their checksums, which come from its own
# registry by its ordinary tool. Afterwards nothing needs the network. A folder of the cache is keyed by what it is made
# from and the runtime that made it. What cannot be had is said and left out, and the tests that want it say that they
# were skipped; where CI is set, that is an error instead. Two at once are safe: one waits for the other.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)/tests/clients
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
# Go installs itself there, and a shell that was open before does not know it.
PATH=$PATH:/usr/local/go/bin

# FerretDB is not in the list: only the long tests ask for it.
all=(python node axe go java tools)

say() { echo "clients: $*" >&2; }

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# What is wanted of a client's runtime, the tool that tells its version, and what makes the folder's key.
runtime() {
    case $1 in
        python) echo "Python 3.11 with pip" ;;
        node) echo "Node.js 20.19 with npm" ;;
        axe) echo "Node.js 18 with npm" ;;
        go | tools) echo "Go 1.21" ;;
        ferretdb) echo "Go 1.22" ;;
        java) echo "a JDK 17 with Maven" ;;
        *) say "no client $1" && return 1 ;;
    esac
}

# The version of the runtime at hand; fails where there is none, or an older one.
version() {
    local found wanted=
    case $1 in
        python) wanted=3.11 found=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) &&
            python3 -m pip --version >/dev/null 2>&1 ;;
        node) wanted=20.19 found=$(node --version 2>/dev/null | tr -d v) && command -v npm >/dev/null ;;
        axe) wanted=18 found=$(node --version 2>/dev/null | tr -d v) && command -v npm >/dev/null ;;
        go | tools) wanted=1.21 found=$(go env GOVERSION 2>/dev/null | sed 's/^go//') ;;
        ferretdb) wanted=1.22 found=$(go env GOVERSION 2>/dev/null | sed 's/^go//') ;;
        java) wanted=17 found=$(javac -version 2>&1 | sed -n 's/^javac //p') && command -v mvn >/dev/null ;;
    esac && [ -n "$found" ] && at_least "$found" "$wanted" && echo "$found"
}

# The files that a client's folder is made from. Programs that are not compiled run from the tree.
sources() {
    case $1 in
        python) echo requirements.txt ;;
        node | axe) echo package.json package-lock.json ;;
        *) (cd "$here/$1" && echo *) ;;
    esac
}

folder() {
    local version key
    version=$(version "$1")
    # shellcheck disable=SC2046 # one word for each file
    key=$({ echo "$1 $version $(uname -m)" && cat "$0" && cd "$here/$1" && cat $(sources "$1"); } | sha256sum | cut -c1-12)
    echo "$cache/clients-$1-$key"
}

make_python() {
    python3 -m pip install --quiet --require-hashes --only-binary :all: --target "$1" \
        -r "$here/python/requirements.txt"
}

# No package needs the scripts of its installation: prebuilt parts come as packages of their own.
install_npm() {
    cp "$here/$1"/package{,-lock}.json "$2/"
    (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

make_node() { install_npm node "$1"; }

# Not a client of the server: the rules of accessibility that browser tests run within a page.
make_axe() { install_npm axe "$1"; }

# A copy, since go may want to write into go.mod and go.sum, and the tree is not its to change.
build_go() {
    local module=$1 into=$2 package
    shift 2
    mkdir "$into/source"
    cp "$here/$module"/* "$into/source/"
    (
        cd "$into/source"
        while [ $# -gt 0 ]; do
            package=$1
            GOFLAGS=-mod=mod CGO_ENABLED=0 go build -trimpath -o "$into/${package%%=*}" "${package#*=}"
            shift
        done
        cmp "$here/$module/go.sum" go.sum
    )
    rm -rf "$into/source"
}

make_go() { build_go go "$1" client=.; }

make_ferretdb() { build_go ferretdb "$1" ferretdb=.; }

make_tools() {
    local tool packages=()
    for tool in mongodump mongorestore mongostat mongoexport mongoimport bsondump; do
        packages+=("$tool=github.com/mongodb/mongo-tools/$tool/main")
    done
    build_go tools "$1" "${packages[@]}"
}

make_java() {
    mvn -q -B -f "$here/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1/jars"
    (cd "$1/jars" && sha256sum --quiet -c "$here/java/jars.sha256" && [ "$(ls | wc -l)" = "$(wc -l <"$here/java/jars.sha256")" ])
    javac -cp "$1/jars/*" -d "$1/classes" "$here"/java/*.java
}

# Puts one client into the cache, if it is not there.
put() {
    local name=$1 into work log start=$SECONDS
    if ! version "$name" >/dev/null; then
        say "$name is left out: it needs $(runtime "$name") or newer"
        return 1
    fi
    into=$(folder "$name")
    [ ! -d "$into" ] || return 0
    log=$cache/clients-$name.log
    work=$(mktemp -d "$cache/client-$name-XXXXXX")
    # A bash of its own, because `set -e` is off in whatever stands in a condition.
    if ! "$0" make "$name" "$work" >"$log" 2>&1 9>&-; then
        tail -n 5 "$log" >&2
        say "$name could not be had; the whole of the output is in $log"
        rm -rf "$work"
        return 1
    fi
    mv "$work" "$into"
    say "$name is in the cache after $((SECONDS - start)) s"
    # Older ones go; the latest two, and any used within two hours, stay.
    { ls -1dt "$cache/clients-$name"-*/ 2>/dev/null || true; } | tail -n +3 | while read -r old; do
        find "$old" -maxdepth 0 -mmin +120 -exec rm -rf {} +
    done
}

case ${1:-} in
    install)
        shift
        [ $# -gt 0 ] || set -- "${all[@]}"
        for name in "$@"; do runtime "$name" >/dev/null; done
        mkdir -p "$cache"
        exec 9>"$cache/clients.lock"
        flock -n 9 || { say "another installation is running; waiting for it" && flock 9; }
        left=
        for name in "$@"; do put "$name" || left="$left $name"; done
        if [ -n "$left" ]; then
            say "going on without$left; tests that need them say that they were skipped"
            [ -z "${CI:-}" ] || exit 3
        fi
        ;;
    make)
        "make_$2" "$3"
        ;;
    path)
        wanted=$(runtime "${2:?usage: setup/clients.sh path NAME}")
        version "$2" >/dev/null || { echo "no $wanted or newer on this machine" && exit 3; }
        found=$(folder "$2")
        [ -d "$found" ] || { echo "the client $2 is not in the cache; put it there with: setup/clients.sh install $2" && exit 3; }
        touch "$found"
        echo "$found"
        ;;
    *)
        say "usage: setup/clients.sh install [NAME...] | path NAME"
        exit 2
        ;;
esac
