#!/usr/bin/env bash
# Installs the Debian packages that a target of the Makefile wants and this machine lacks: setup/install.sh TARGET.
#
# Targets: build, tool, static (what both want beside to be static), test, proof, bench, package, fuzz. A row is: the targets that want the tool, whether they can do without it, how it is
# recognised, its package, and of which version on it is of use. Without root and sudo, or without apt, the command to run is printed, and only a missing
# tool that the target needs is an error (exit 3).
set -euo pipefail

target=${1:?usage: setup/install.sh build|tool|test|proof|bench|package|fuzz}
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# targets          need    tool         package
table='
build,tool,test,bench needed cc         gcc
build,tool,test,bench needed libc       libc6-dev
static             needed  libc.a       libc6-dev
static             needed  libstdc++.a  g++
build,test,bench   needed  pkg-config   pkg-config
build,test,bench   needed  rocksdb/c.h  librocksdb-dev
build,test,bench   needed  libclang.so  libclang-dev
test,bench         needed  git          git
test               wanted  mkfs.ext4    e2fsprogs
test               wanted  mkfs.xfs     xfsprogs
test               wanted  xfs_io       xfsprogs
test               wanted  mkfs.btrfs   btrfs-progs
test               wanted  losetup      mount
test               wanted  blockdev     util-linux
test               wanted  ps           procps
test               wanted  iostat       sysstat
test               wanted  fio          fio
test               wanted  bindfs       bindfs
test               wanted  wipefs       util-linux
test               wanted  nft          nftables
proof              wanted  qemu-system-x86_64 qemu-system-x86
test               wanted  python3      python3>=3.11
test               wanted  pip3         python3-pip
proof              wanted  node         nodejs>=20.19
proof              wanted  npm          npm>=20.19
proof              wanted  go           golang-go>=2:1.21
proof              wanted  javac        default-jdk-headless>=2:1.17
proof              wanted  mvn          maven
proof              wanted  chromium     chromium
proof              wanted  pdftotext    poppler-utils
bench              needed  fio          fio
bench              wanted  mkfs.ext4    e2fsprogs
bench              wanted  mkfs.xfs     xfsprogs
bench              wanted  losetup      mount
package            needed  dpkg-shlibdeps dpkg-dev
package            needed  python3      python3>=3.11
package            needed  pip3         python3-pip
test,package       needed  strip        binutils
test,package       wanted  man          man-db
test,package       wanted  zsh          zsh
test,package       wanted  fish         fish
fuzz               needed  c++          g++
fuzz               needed  cc           gcc
fuzz               needed  libc         libc6-dev
'

# Whether a tool is really there. The C library has no command: ask the compiler for its start file and headers.
# Nor have other libraries: rows name a header (.h) or an archive (.a) of theirs, or (.so) a file where LLVM's packages put theirs.
present() {
    if [ "$1" = libc ]; then
        command -v cc >/dev/null && [ -e "$(cc -print-file-name=crt1.o)" ] &&
            echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1
    elif [ "${1%.h}" != "$1" ]; then
        echo "#include <$1>" | cc -E -I"${ROCKSDB_INCLUDE_DIR:-/usr/include}" - >/dev/null 2>&1
    elif [ "${1%.a}" != "$1" ]; then
        # The compiler repeats the name of an archive that it does not find.
        command -v cc >/dev/null && [ "$(cc -print-file-name="$1")" != "$1" ]
    elif [ "${1%.so}" != "$1" ]; then
        compgen -G "/usr/lib/llvm-*/lib/$1*" >/dev/null || compgen -G "/usr/lib64/$1*" >/dev/null
    else
        command -v "$1" >/dev/null
    fi
}

# The packages of the rows of this target with the given need (or any) whose tool is missing, in one line.
missing() {
    while read -r targets need tool package; do
        case ",$targets," in *",$target,"*) ;; *) continue ;; esac
        case "$need" in ${1:-*}) present "$tool" || echo "$package" ;; esac
    done <<<"$table" | sort -u | xargs
}

# Those of the packages that Debian has in a version that is of use, without the version; the others are told of.
of_use() {
    local wanted package has
    for wanted in "$@"; do
        package=${wanted%%>=*}
        # npm is as new as the Node.js that it would bring.
        has=$(apt-cache policy "${package/#npm/nodejs}" 2>/dev/null | sed -n 's/^ *Candidate: //p')
        if [ "$package" != "$wanted" ] && ! dpkg --compare-versions "${has:-0}" ge "${wanted#*>=}"; then
            echo "setup: $package $has of this Debian is too old; wanted is ${wanted#*>=}" >&2
        else
            echo "$package"
        fi
    done
}

# Runs a command as root, or fails where we may not.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
}

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is not on the PATH; install Rust from https://rustup.rs" >&2
    exit 3
fi

# A minimal Rust installation has no formatter and no linter.
if [ "$target" = test ] && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    if ! { command -v rustup >/dev/null && rustup component add rustfmt clippy; }; then
        echo "setup: 'make test' cannot do without rustfmt and clippy; install them with your Rust" >&2
        exit 3
    fi
fi

lacking=$(missing)
[ -n "$lacking" ] || exit 0

# The stamp remembers for a day what could not be had and can be done without, so that a repeated call costs nothing.
stamp=$cache/setup-$target-$(sha256sum "$0" | cut -c1-12)
known=
if [ -n "$(find "$stamp" -mmin -1440 2>/dev/null)" ]; then known=$(cat "$stamp"); fi
if { [ "$known" != "$lacking" ] || [ -n "$(missing needed)" ]; } && may_install; then
    echo "setup: installing $lacking"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # shellcheck disable=SC2046,SC2086 # one word for each package
    if ! { as_root apt-get update -q >"$log" 2>&1 && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $(of_use $lacking) >>"$log" 2>&1; }; then
        tail -n 5 "$log" >&2
    fi
    lacking=$(missing)
fi
[ -n "$lacking" ] || exit 0

needed=$(missing needed)
echo "setup: missing: $lacking" >&2
# shellcheck disable=SC2001 # a pattern for each word
bare=$(sed 's/>=[^ ]*//g' <<<"$lacking")
echo "setup: install with: sudo apt-get update && sudo apt-get install -y --no-install-recommends $bare" >&2
if [ -n "$needed" ]; then
    if [ "$target" = static ]; then
        echo "setup: a static program cannot do without: $needed; make STATIC=0 links the libraries of this machine" >&2
    else
        echo "setup: 'make $target' cannot do without: $needed" >&2
    fi
    exit 3
fi
mkdir -p "$cache"
echo "$lacking" >"$stamp"
echo "setup: going on without; tests that need them say that they were skipped" >&2
