#!/usr/bin/env bash
# Installs a package into an empty prefix and uses it there as a stranger would: setup/package_test.sh FILE.deb|FILE.tar.gz|FILE.whl.
#
# The prefix has nothing but the package and the shared libraries that the program names. As root the program runs with
# the prefix as its root, so that it cannot lean on anything of this machine but the kernel; without root it runs from where
# it lies, and that is said. A Debian package is put there by dpkg itself, and taken away again: nothing may be left.
set -euo pipefail

package=$(realpath "${1:?usage: setup/package_test.sh FILE.deb|FILE.tar.gz|FILE.whl}")
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
export LC_ALL=C

say() { echo "package test: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

root=no
[ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null || root=yes

mkdir -p "$prefix"/{proc,sys,dev,data,tmp,root}
case $package in
    *.deb)
        mkdir -p "$prefix"/var/lib/dpkg/{info,updates,triggers}
        touch "$prefix"/var/lib/dpkg/{status,available}
        if [ $root = yes ]; then
            # The libraries' packages are not in this prefix; the files of their libraries are, below.
            dpkg --root="$prefix" --force-depends --install "$package" >"$prefix/dpkg.log" 2>&1 || { cat "$prefix/dpkg.log"; fail "dpkg --install"; }
            rm "$prefix/dpkg.log"
        else
            dpkg --extract "$package" "$prefix"
        fi
        ;;
    *.whl)
        python3 -m pip install --quiet --no-index --no-deps --no-cache-dir --root-user-action=ignore --target "$prefix/usr" "$package" ||
            fail "pip install"
        ;;
    *)
        mkdir -p "$prefix/usr"
        tar --extract --gzip --no-same-owner --strip-components=1 --directory "$prefix/usr" --file "$package"
        ;;
esac
here=$prefix/usr
[ -x "$here/bin/fathom" ] || fail "there is no program"

# The libraries, at the places where the loader looks for them; a static program has none, and ldd fails.
{ ldd "$here/bin/fathom" || true; } 2>/dev/null | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$prefix$(dirname "$library")"
    cp --dereference "$library" "$prefix$library"
done

# Runs the installed program; its exit code may be 0 or what stands first.
fathom() {
    local code=0 allowed=$1
    shift
    if [ $root = yes ]; then
        unshare --mount -- bash -euc '
            prefix=$1; shift
            mount --rbind /proc "$prefix/proc"; mount --rbind /sys "$prefix/sys"; mount --rbind /dev "$prefix/dev"
            exec env --ignore-environment HOME=/root PATH=/usr/bin:/usr/sbin chroot "$prefix" /usr/bin/fathom "$@"' - "$prefix" "$@" || code=$?
    else
        HOME=$prefix/root "$here/bin/fathom" "${@//\/data/$prefix/data}" || code=$?
    fi
    [ $code = 0 ] || [ $code = "$allowed" ] || fail "fathom $* ended with $code"
}

version=$(fathom 0 --version)
[[ $version =~ ^fathom\ [0-9]+\.[0-9]+\.[0-9]+ ]] || fail "--version says '$version'"
say "$version runs$([ $root = yes ] && echo ' in the prefix alone')"

# A verb that measures, and one that reads what it kept. 1 is a finding, as on a busy machine.
fathom 1 disk --dir /data --pattern randread --depth 1 --time 500ms --size 16M >"$prefix/disk.txt"
grep -q '^Run folder:' "$prefix/disk.txt" || fail "fathom disk kept no run: $(cat "$prefix/disk.txt")"
[ -z "$(ls "$prefix/data")" ] || fail "fathom disk left $(ls "$prefix/data")"
fathom 0 report --output - >"$prefix/page.html"
grep -q '</html>' "$prefix/page.html" || fail "fathom report made no page"
say "disk and report work"

# The minute for somebody who has neither root nor a server, where this build has it.
help=$(fathom 0 --help)
if grep -q '^  demo ' <<<"$help"; then
    fathom 1 demo </dev/null >"$prefix/demo.txt" || fail "fathom demo"
    [ -s "$prefix/demo.txt" ] || fail "fathom demo says nothing"
    say "demo works"
fi

# A wheel has the program alone.
if [ "${package%.whl}" != "$package" ]; then
    say "passed"
    exit 0
fi

# Every verb that help lists has its manual page, which renders without a complaint in 80 columns.
verbs=$(sed -n '/^Commands:/,/^Options:/s/^  \([a-z]\+\) .*/\1/p' <<<"$help" | grep -v '^help$')
[ "$(wc -l <<<"$verbs")" -ge 10 ] || fail "help lists only: $verbs"
for page in fathom $(sed 's/^/fathom-/' <<<"$verbs"); do
    file=$here/share/man/man1/$page.1.gz
    [ -f "$file" ] || fail "there is no manual page $page"
    if command -v man >/dev/null; then
        complaints=$(MANWIDTH=80 man --warnings -l "$file" 2>&1 >"$prefix/page.txt")
        [ -z "$complaints" ] || fail "$page: $complaints"
        # grep reads to the end: col must not die of a closed pipe.
        col -b <"$prefix/page.txt" | grep '^NAME' >/dev/null || fail "$page renders to nothing"
    fi
done
say "$(wc -l <<<"$verbs") verbs have their manual pages$(command -v man >/dev/null || echo ', which nobody rendered: there is no man here')"

# Completions: bash is asked for real; the other shells read theirs, where they are installed.
answer=$(bash --norc -euc '
    source "$1"
    complete -p fathom >/dev/null
    ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _fathom fathom "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}"; }
    ask fathom wat; ask fathom disk --dep; ask fathom completions ""' - "$here/share/bash-completion/completions/fathom")
grep -qx 'watch' <<<"$answer" && grep -qx -- '--depth' <<<"$answer" && grep -q 'bash zsh fish' <<<"$answer" ||
    fail "bash completes to: $answer"
read_by=bash
zsh_file=$(find "$here/share/zsh" -name _fathom)
fish_file=$here/share/fish/vendor_completions.d/fathom.fish
[ -s "$zsh_file" ] && [ -s "$fish_file" ] || fail "there is no completion for zsh or fish"
if command -v zsh >/dev/null; then
    zsh --no-rcs -n "$zsh_file" || fail "zsh cannot read $zsh_file"
    read_by="$read_by zsh"
fi
if command -v fish >/dev/null; then
    answer=$(HOME=$prefix/root fish --no-config --command "source $fish_file; complete --do-complete 'fathom wat'")
    [[ $answer == watch* ]] || fail "fish completes to: $answer"
    read_by="$read_by fish"
fi
say "completions are there, read by: $read_by"

for file in share/fathom/workloads/workloada share/fathom/studies/xfs-against-ext4.yaml share/fathom/grafana/fathom.json share/doc/fathom/docs/first-hour.md; do
    [ -s "$here/$file" ] || fail "there is no $file"
done
if [ "${package%.deb}" != "$package" ] && [ $root = yes ]; then
    dpkg --root="$prefix" --force-depends --purge fathom >/dev/null 2>&1 || fail "dpkg --purge"
    # dpkg takes folders too that nobody else uses; here that is most of them.
    left=$([ ! -d "$here" ] || find "$here" -path '*fathom*')
    [ -z "$left" ] || fail "removing the package left $left"
    say "removed without a trace"
fi
say "passed"
