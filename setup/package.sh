#!/usr/bin/env bash
# Lays out what is handed to users, and packs it: setup/package.sh BINARY FOLDER [deb].
#
# FOLDER/package gets the layout of a prefix: the program, its manual pages and completions (which it makes itself), workload
# files, the Grafana dashboard, these documents. From there comes FOLDER/fathom-VERSION-MACHINE-linux.tar.gz, and with `deb` a
# Debian package beside it. The same tree and program give the same bytes: entries are sorted, belong to nobody, and have the time of
# the last commit (or SOURCE_DATE_EPOCH). Nothing is built here but cargo-deb, once, into the cache.
set -euo pipefail

binary=$(realpath "${1:?usage: setup/package.sh BINARY FOLDER [deb]}")
folder=$(realpath "${2:?usage: setup/package.sh BINARY FOLDER [deb]}")
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

# One version for everybody: another one may order or compress differently.
cargo_deb=3.8.0
version=$("$binary" --version | cut -d ' ' -f 2)
name=fathom-$version-$(uname -m)-linux
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

say() { echo "package: $*" >&2; }

# What is staged, below a folder that is made anew.
stage() {
    local into=$1 share=$1/share
    rm -rf "$into"
    mkdir -p "$into/bin" "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,man/man1} \
        "$share"/fathom/{workloads,studies,grafana} "$share/doc/fathom/docs"
    install -m 755 "$binary" "$into/bin/fathom"
    # The packaged profile is stripped already; a debug build, which the tests pack, has line tables.
    strip --strip-debug "$into/bin/fathom"
    "$binary" man --output "$share/man/man1"
    gzip -n -9 "$share"/man/man1/*.1
    "$binary" completions bash >"$share/bash-completion/completions/fathom"
    "$binary" completions zsh >"$share/zsh/site-functions/_fathom"
    "$binary" completions fish >"$share/fish/vendor_completions.d/fathom.fish"
    install -m 644 workloads/* "$share/fathom/workloads/"
    install -m 644 studies/* "$share/fathom/studies/"
    install -m 644 grafana/* "$share/fathom/grafana/"
    install -m 644 LICENSE README.md CHANGELOG.md "$share/doc/fathom/"
    install -m 644 docs/*.md "$share/doc/fathom/docs/"
    find "$into" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
}

tarball() {
    tar --create --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --sort=name \
        --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --transform="s,^package,$name," --directory "$folder" package | gzip -n >"$folder/$name.tar.gz.new"
    mv "$folder/$name.tar.gz.new" "$folder/$name.tar.gz"
    say "$folder/$name.tar.gz"
}

# The Debian package, from what is staged; its metadata stand in crates/cli/Cargo.toml and name bin/package.
deb() {
    local tools=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}/tools
    if [ "$folder" != "$PWD/bin" ]; then
        say "a Debian package is made in $PWD/bin alone"
        exit 2
    fi
    if ! command -v dpkg-shlibdeps >/dev/null; then
        say "dpkg-shlibdeps is missing, which knows the libraries' packages; install dpkg-dev"
        exit 3
    fi
    PATH=$tools/bin:$PATH
    if [ "$(cargo deb --version 2>/dev/null)" != "cargo-deb $cargo_deb" ]; then
        say "installing cargo-deb $cargo_deb into $tools (a minute, once)"
        cargo install cargo-deb --quiet --locked --version "$cargo_deb" --root "$tools" --no-default-features
    fi
    cargo deb --quiet --package fathom --no-build --no-strip --output "$folder/" >"$folder/deb.name"
    say "$(cat "$folder/deb.name")"
    rm "$folder/deb.name"
}

mkdir -p "$folder"
stage "$folder/package"
tarball
if [ "${3:-}" = deb ]; then deb; fi
