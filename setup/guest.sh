#!/usr/bin/env bash
# A small Linux to boot under QEMU, for tests of what this machine's kernel may lack (md, device mapper) and of what must not happen to it:
# setup/guest.sh install puts it into the cache, once; setup/guest.sh path prints its folder, or says in one line why it
# is not there (exit 3).
#
# The folder holds Debian's own kernel (vmlinuz) and an initramfs (initrd) with its modules, mdadm, LVM, udev and the mkfs
# programs, out of Debian's packages. They are unpacked, never installed: this machine keeps its kernel and gets no service of
# theirs. The guest mounts what a program expects, runs the program that its first disk holds, and goes down.
set -euo pipefail

cache=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
packages=(linux-image-amd64 mdadm lvm2 dmsetup xfsprogs e2fsprogs btrfs-progs mount util-linux kmod udev busybox-static)
programs=(mdadm lvm dmsetup kmod losetup blkid wipefs mkfs.xfs xfs_spaceman mke2fs mkfs.btrfs btrfs udevadm)
modules=(virtio_pci virtio_blk virtio_net loop md-mod raid0 raid10 dm-mod ext4 xfs btrfs crc32c_generic crc32c-intel)

say() { echo "guest: $*" >&2; }

# Why there can be no guest on this machine; nothing where there can.
hindrance() {
    if [ "$(uname -m)" != x86_64 ]; then
        echo "the guest is an x86_64 machine, and this one is not"
    elif ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "the guest is made of Debian packages, and there is no apt-get"
    fi
}

folder() {
    echo "$cache/guest-$({ cat "$0" /etc/debian_version 2>/dev/null || true; } | sha256sum | cut -c1-12)"
}

# Every package that these need, as if none were installed, into $1; needs no root. Lists of packages of our own are fetched
# only where the machine has none.
download() {
    local quietly=(-q -y --no-install-recommends --download-only -o Debug::NoLocking=1)
    local own=(-o Dir::State::status=/dev/null -o Dir::Cache="$1" -o Dir::Cache::archives="$1")
    mkdir -p "$1/partial" "$1/lists/partial"
    apt-get install "${quietly[@]}" "${own[@]}" "${packages[@]}" && return 0
    own+=(-o Dir::State::lists="$1/lists")
    apt-get update -q -o Debug::NoLocking=1 "${own[@]}"
    apt-get install "${quietly[@]}" "${own[@]}" "${packages[@]}"
}

# The folders of a system whose /bin, /sbin and /lib are links into /usr, whichever of the two names a package uses.
make_folders() {
    local name
    for name in bin sbin lib lib64; do
        mkdir -p "$1/usr/$name"
        ln -s "usr/$name" "$1/$name"
    done
}

# Runs a program of the unpacked packages with their own libraries.
within() {
    local root=$1 program=$2
    shift 2
    "$root/lib64/ld-linux-x86-64.so.2" --library-path "$(libraries "$root")" --argv0 "$(basename "$program")" \
        "$program" "$@"
}

libraries() { echo "$1/lib/x86_64-linux-gnu:$1/usr/lib/x86_64-linux-gnu"; }

# Copies a file of the packages to the same place in the guest.
take() {
    local root=$1 into=$2 file=$3
    mkdir -p "$into/$(dirname "${file#"$root"/}")"
    cp -L "$file" "$into/${file#"$root"/}"
}

# The programs, with the libraries that each names.
take_programs() {
    local root=$1 into=$2 name file library
    for name in "${programs[@]}"; do
        file=$(find "$root"/usr/{bin,sbin} -name "$name" -type f | head -n 1)
        take "$root" "$into" "${file:?no program $name in the packages}"
        while read -r library; do take "$root" "$into" "$library"; done < <(
            "$root/lib64/ld-linux-x86-64.so.2" --library-path "$(libraries "$root")" --list "$file" |
                sed -n "s|.* => \($root/[^ ]*\) .*|\1|p")
    done
    # What our own program wants, which comes later.
    for library in libc.so.6 libm.so.6 libgcc_s.so.1 libdl.so.2 libpthread.so.0 librt.so.1; do
        take "$root" "$into" "$root/lib/x86_64-linux-gnu/$library"
    done
    take "$root" "$into" "$root/lib64/ld-linux-x86-64.so.2"
    take "$root" "$into" "$root/usr/sbin/xfs_info"
    # udev as most machines have it, for the program to start: its rules put arrays together and hold new devices open.
    mkdir -p "$into/lib/systemd"
    cp -r "$root/lib/udev" "$into/lib/udev"
    rm -rf "$into"/lib/udev/hwdb*
    ln -s ../../bin/udevadm "$into/lib/systemd/systemd-udevd"
    take "$root" "$into" "$root/etc/mke2fs.conf"
    for name in vgcreate vgremove vgs lvcreate lvremove lvs pvcreate pvremove pvs; do ln -s lvm "$into/sbin/$name"; done
    ln -s ../bin/kmod "$into/sbin/modprobe"
    ln -s mke2fs "$into/sbin/mkfs.ext4"
    cp "$root/bin/busybox" "$into/bin/busybox"
    for name in sh mount uname cat; do ln -s busybox "$into/bin/$name"; done
}

# The modules and what they stand on.
take_modules() {
    local root=$1 into=$2 version=$3 kmod name file
    kmod=$(find "$root/usr/bin" -name kmod -type f | head -n 1)
    ln -sf "$kmod" "$root/depmod"
    ln -sf "$kmod" "$root/modprobe"
    within "$root" "$root/depmod" -b "$root" "$version"
    for name in "${modules[@]}"; do
        while read -r file; do take "$root" "$into" "$file"; done < <(
            within "$root" "$root/modprobe" -d "$root" -S "$version" --show-depends "$name" | sed -n 's/^insmod \([^ ]*\).*/\1/p')
    done
    cp "$root/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$into/lib/modules/$version/"
    within "$root" "$root/depmod" -b "$into" "$version"
}

write_init() {
    cat >"$1/init" <<'INIT'
#!/bin/busybox sh
export PATH=/usr/sbin:/sbin:/usr/bin:/bin:/bb
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /work /bb /var/lock /etc/lvm
/bin/busybox --install -s /bb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
ln -sf /proc/self/mounts /etc/mtab
/sbin/modprobe -a virtio_pci virtio_blk virtio_net loop ext4
# Where QEMU forwards connections to.
[ ! -e /sys/class/net/eth0 ] || { ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0; }
# The first disk is the program itself, the second is to work on; the others are the program's.
cat /dev/vda >/tmp/program
chmod 755 /tmp/program
mkfs.ext4 -q -F /dev/vdb && mount /dev/vdb /work
export TMPDIR=/work FATHOM_TEST_DIR=/work
arguments=$(sed -n 's/.*fathom\.arguments="\([^"]*\)".*/\1/p' /proc/cmdline)
echo "guest: begin"
/tmp/program $arguments </dev/null 2>&1
echo "guest: exit $?"
poweroff -f
INIT
    chmod 755 "$1/init"
}

make_guest() {
    local into=$1 root=$1/root image=$1/image version package
    make_folders "$root"
    make_folders "$image"
    download "$into/archives"
    for package in "$into"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$root"
    done
    version=$(ls "$root/lib/modules")
    take_programs "$root" "$image"
    take_modules "$root" "$image" "$version"
    write_init "$image"
    (cd "$image" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$into/initrd"
    cp "$root/boot/vmlinuz-$version" "$into/vmlinuz"
    rm -rf "$root" "$image" "$into/archives"
}

case ${1:-} in
    install)
        why=$(hindrance)
        if [ -n "$why" ]; then say "$why; going on without, tests that need it say that they were skipped" && exit 0; fi
        mkdir -p "$cache"
        exec 9>"$cache/guest.lock"
        flock -n 9 || { say "another installation is running; waiting for it" && flock 9; }
        into=$(folder)
        [ ! -d "$into" ] || exit 0
        start=$SECONDS
        work=$(mktemp -d "$cache/guest-work-XXXXXX")
        # A bash of its own, because `set -e` is off in whatever stands in a condition.
        if ! "$0" make "$work" >"$cache/guest.log" 2>&1 9>&-; then
            rm -rf "$work"
            tail -n 5 "$cache/guest.log" >&2
            say "it could not be made; the whole of the output is in $cache/guest.log"
            say "going on without; tests that need it say that they were skipped"
            [ -z "${CI:-}" ] || exit 3
            exit 0
        fi
        rm -rf "$cache"/guest-????????????
        mv "$work" "$into"
        say "it is in the cache after $((SECONDS - start)) s"
        ;;
    make)
        make_guest "$2"
        ;;
    path)
        why=$(hindrance)
        [ -z "$why" ] || { echo "$why" && exit 3; }
        found=$(folder)
        [ -d "$found" ] || { echo "the guest is not in the cache; put it there with: setup/guest.sh install" && exit 3; }
        echo "$found"
        ;;
    *)
        say "usage: setup/guest.sh install | path"
        exit 2
        ;;
esac
