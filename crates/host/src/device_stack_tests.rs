//! Tests the devices under a directory on made-up machines: folders that stand for `/proc` and `/sys`.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

fn machine(mounts: &str, files: &[(&str, &str)]) -> (TempDir, View) {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("sys")).unwrap();
    for (path, text) in files.iter().chain(&[("proc/self/mountinfo", mounts)]) {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let view = View::snapshot(folder.path()).unwrap();
    (folder, view)
}

fn stack(view: &View, directory: &str) -> DeviceStack {
    DeviceStack::read(view, Path::new(directory)).unwrap()
}

fn layers(stack: &DeviceStack) -> Vec<&str> {
    stack.layers.iter().map(|device| device.name.as_str()).collect()
}

/// KiB, and the device or the file of a file system's own setting.
fn counting(stack: &DeviceStack) -> Option<(u64, &str)> {
    let counts = stack.read_ahead.as_ref()?;
    Some((counts.kib, counts.device.as_deref().unwrap_or(&counts.path)))
}

const DISKS: &[(&str, &str)] = &[
    ("sys/block/sda/dev", "8:0"),
    ("sys/block/sda/sda1/dev", "8:1"),
    ("sys/block/sda/queue/read_ahead_kb", "16"),
    ("sys/block/sdb/dev", "8:16"),
    ("sys/block/sdb/sdb1/dev", "8:17"),
    ("sys/block/sdb/queue/read_ahead_kb", "128"),
    ("sys/block/sdc/dev", "8:32"),
    ("sys/block/sdc/queue/read_ahead_kb", "128"),
];

fn with_disks<'f>(files: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    DISKS.iter().chain(files).copied().collect()
}

/// Two file systems; the first is on a partition and a whole disk, and two of its subvolumes are mounted.
const TWO_BTRFS: &str = "\
30 1 0:40 /@ / rw shared:1 - btrfs /dev/sdc rw,space_cache=v2,subvolid=256,subvol=/@
31 30 0:41 /@data /data rw,noatime - btrfs /dev/sda1 rw,subvolid=256,subvol=/@data
32 31 0:41 /@log /data/log rw - btrfs /dev/sda1 rw,subvolid=257,subvol=/@log
";

#[test]
fn btrfs_stands_on_all_its_devices_and_has_a_read_ahead_of_its_own() {
    let (_folder, view) = machine(
        TWO_BTRFS,
        &with_disks(&[
            ("sys/fs/btrfs/features/raid1c34", "0"),
            ("sys/fs/btrfs/0c1d/devices/sdc", ""),
            ("sys/fs/btrfs/0c1d/bdi/read_ahead_kb", "4096"),
            ("sys/fs/btrfs/9a8b/devices/sda1", ""),
            ("sys/fs/btrfs/9a8b/devices/sdb", ""),
            ("sys/fs/btrfs/9a8b/bdi/read_ahead_kb", "8192"),
            ("sys/class/bdi/8:0/read_ahead_kb", "16"),
        ]),
    );
    for directory in ["/data/db", "/data/log"] {
        let data = stack(&view, directory);
        assert_eq!(data.top_names(), ["sda1", "sdb"]);
        assert_eq!(layers(&data), ["sda1", "sdb", "sda"]);
        assert_eq!(data.leaf_names(), ["sdb", "sda"]);
        assert_eq!(counting(&data), Some((8192, "sys/fs/btrfs/9a8b/bdi/read_ahead_kb")));
    }
    let root = stack(&view, "/var");
    assert_eq!((root.top_names(), counting(&root).unwrap().0), (vec!["sdc".to_owned()], 4096));
}

#[test]
fn an_older_btrfs_has_the_only_numbered_read_ahead() {
    let alone = ("sys/class/bdi/btrfs-1/read_ahead_kb", "4096");
    let devices = [("sys/fs/btrfs/9a8b/devices/sda1", ""), ("sys/fs/btrfs/9a8b/devices/sdb", "")];
    let mounts = "31 1 0:41 / / rw - btrfs /dev/root rw\n";
    let (_folder, view) = machine(mounts, &with_disks(&[devices[0], devices[1], alone]));
    let data = stack(&view, "/data");
    assert_eq!(data.top_names(), ["sda1", "sdb"], "the source names no device, and there is one btrfs");
    assert_eq!(counting(&data), Some((4096, "sys/class/bdi/btrfs-1/read_ahead_kb")));
    // With two, it is unknown which counts; the setting of a device never does.
    let second = ("sys/class/bdi/btrfs-2/read_ahead_kb", "64");
    let (_folder, view) = machine(TWO_BTRFS, &with_disks(&[devices[0], devices[1], alone, second]));
    let data = stack(&view, "/data");
    assert_eq!((data.top_names().len(), data.read_ahead), (2, None));
}

#[test]
fn lvm_on_md_on_partitions_is_one_stack_and_its_top_reads_ahead() {
    let (_folder, view) = machine(
        "22 1 254:0 / / rw - xfs /dev/mapper/vg0-data rw\n23 22 254:0 /sub /bound rw - xfs /dev/mapper/vg0-data rw\n",
        &with_disks(&[
            ("sys/block/dm-0/dev", "254:0"),
            ("sys/block/dm-0/dm/name", "vg0-data"),
            ("sys/block/dm-0/slaves/md0", ""),
            ("sys/block/md0/dev", "9:0"),
            ("sys/block/md0/md/level", "raid1"),
            ("sys/block/md0/slaves/sda1", ""),
            ("sys/block/md0/slaves/sdb1", ""),
            ("sys/class/bdi/254:0/read_ahead_kb", "4096"),
            ("sys/class/bdi/8:0/read_ahead_kb", "16"),
        ]),
    );
    for directory in ["/data", "/bound/db"] {
        let data = stack(&view, directory);
        assert_eq!(layers(&data), ["dm-0", "md0", "sda1", "sdb1", "sda", "sdb"]);
        assert_eq!(data.leaf_names(), ["sda", "sdb"]);
        assert_eq!(counting(&data), Some((4096, "dm-0")));
    }
}

#[test]
fn a_log_of_xfs_on_another_device_is_part_of_the_stack() {
    let mounts = "22 1 8:1 / / rw - xfs /dev/sda1 rw,attr2,logdev=/dev/sdc,noquota\n";
    let (_folder, view) = machine(mounts, DISKS);
    let data = stack(&view, "/data");
    assert_eq!(layers(&data), ["sda1", "sdc", "sda"]);
    assert_eq!(counting(&data), Some((16, "sda")), "files are on the first");
}

#[test]
fn bcachefs_names_its_devices_in_the_source() {
    let (_folder, view) = machine("22 1 0:44 / / rw - bcachefs /dev/sda1:/dev/sdb rw\n", DISKS);
    assert_eq!(stack(&view, "/data").top_names(), ["sda1", "sdb"]);
}

#[test]
fn an_nvme_namespace_stands_on_its_hidden_paths() {
    let disks: &[(&str, &str)] = &[
        ("sys/block/nvme2n1/dev", "259:0"),
        ("sys/block/nvme2n1/nvme2n1p1/dev", "259:1"),
        ("sys/block/nvme2n1/queue/read_ahead_kb", "128"),
        ("sys/block/nvme2n2/dev", "259:5"),
        ("sys/block/nvme2c3n1/size", "1000"),
        ("sys/block/nvme2c10n1/size", "1000"),
        (
            "proc/diskstats",
            "0 0 nvme2c10n1 5 0 40 5 0 0 0 0 0 5 5\n0 0 nvme2c3n1 7 0 56 5 0 0 0 0 0 5 5\n\
             259 0 nvme2n1 0 0 0 0 0 0 0 0 0 0 0\n259 1 nvme2n1p1 0 0 0 0 0 0 0 0 0 0 0\n",
        ),
    ];
    let (_folder, view) = machine("22 1 259:1 / / rw - ext4 /dev/nvme2n1p1 rw\n", disks);
    let data = stack(&view, "/data");
    assert_eq!(layers(&data), ["nvme2n1p1", "nvme2n1", "nvme2c10n1", "nvme2c3n1"]);
    assert_eq!(data.leaf_names(), ["nvme2c10n1", "nvme2c3n1"]);
    assert_eq!(counting(&data), Some((128, "nvme2n1")));
    let controllers: Vec<_> = data.layers.iter().map(|device| device.nvme_controller()).collect();
    assert_eq!(controllers, [Some("2"), Some("2"), Some("10"), Some("3")]);
    let tree = BlockTree::read(&view);
    assert_eq!(tree.by_name("nvme2n2").unwrap().below, Vec::<String>::new(), "no path leads there");
    assert_eq!(tree.by_number("0:0".parse().unwrap()), None);
    let lines = crate::diskstats::read(&view).unwrap();
    let has_counted = |name: &str| lines.iter().any(|line| line.name == name && line.counters.any_io());
    let silent: Vec<bool> =
        data.layers.iter().map(|device| tree.is_silent(device, &|_| false, &has_counted)).collect();
    assert_eq!(silent, [true, true, false, false], "a partition is counted with its disk");
}

#[test]
fn zeros_of_an_unused_device_are_zeros() {
    let (_folder, view) = machine(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        &with_disks(&[
            ("sys/block/dm-0/dev", "254:0"),
            ("sys/block/dm-0/slaves/sda1", ""),
            ("sys/block/dm-1/dev", "254:1"),
            ("sys/block/dm-1/slaves/sda1", ""),
        ]),
    );
    let tree = BlockTree::read(&view);
    let silent = |name: &str, frozen: &[&str], counted: &[&str]| {
        let is_frozen = |device: &Device| frozen.contains(&device.name.as_str());
        tree.is_silent(tree.by_name(name).unwrap(), &is_frozen, &|name| counted.contains(&name))
    };
    // The requests of sda1 are those of the other volume.
    assert!(!silent("dm-1", &[], &["sda", "sda1", "dm-0"]));
    assert!(silent("dm-1", &[], &["sda", "sda1"]));
    assert!(!silent("sdb1", &[], &["sdb"]), "partitions are counted where their disk is");
    assert!(!silent("sdc", &[], &["sda"]));
    assert!(silent("sdc", &["sdc"], &["sdc"]), "old counts of a device whose counters are off");
}

#[test]
fn bcache_stands_on_its_backing_device_and_its_cache() {
    let (folder, view) = machine(
        "22 1 251:0 / / rw - ext4 /dev/bcache0 rw\n",
        &with_disks(&[
            ("sys/block/bcache0/dev", "251:0"),
            ("sys/block/bcache0/slaves/sdb", ""),
            ("sys/block/bcache0/bcache/running", "1"),
            ("sys/block/sdc/bcache/written", "1"),
            ("sys/fs/bcache/5e7f/cache_available_percent", "99"),
        ]),
    );
    let block = folder.path().join("sys/block");
    symlink("../../../fs/bcache/5e7f", block.join("bcache0/bcache/cache")).unwrap();
    symlink("../../../fs/bcache/5e7f", block.join("sdc/bcache/set")).unwrap();
    let data = stack(&view, "/data");
    assert_eq!(layers(&data), ["bcache0", "sdb", "sdc"]);
}

#[test]
fn an_overlay_stands_on_what_holds_its_upper_directory() {
    let mounts = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:16 / /store rw - xfs /dev/sdb rw
24 22 0:50 / /first rw - overlay overlay rw,lowerdir=/base,upperdir=/store/u,workdir=/store/w
25 22 0:51 / /second rw - overlay overlay rw,lowerdir=/base,upperdir=/first/u,workdir=/first/w
26 22 0:52 / /read-only ro - overlay overlay ro,lowerdir=/base:/store/l
27 22 0:53 / /outside rw - overlay overlay rw,lowerdir=l/A:l/B,upperdir=u,workdir=w
";
    let (_folder, view) = machine(mounts, DISKS);
    for directory in ["/first", "/second/db"] {
        let data = stack(&view, directory);
        assert_eq!(layers(&data), ["sdb"], "{directory}");
        assert_eq!(data.mount.as_ref().unwrap().fs_type, "xfs");
        assert_eq!(counting(&data), Some((128, "sdb")));
        assert_eq!(data.absence(), None);
    }
    assert_eq!(layers(&stack(&view, "/read-only")), ["sda1", "sdb", "sda"]);
    let hidden = stack(&view, "/outside");
    assert!(hidden.tops.is_empty() && hidden.absence().unwrap().contains("as in a container"));
    // The paths of a container's root are those of the host.
    let (_folder, view) = machine(
        "22 1 0:50 / / rw - overlay overlay rw,lowerdir=/var/l,upperdir=/var/u,workdir=/var/w\n",
        &with_disks(&[("sys/class/bdi/overlay-1/read_ahead_kb", "128")]),
    );
    let hidden = stack(&view, "/data");
    assert_eq!((hidden.layers.len(), hidden.read_ahead), (0, None));
}

#[test]
fn a_file_system_without_devices_says_why() {
    let mounts = "\
22 1 0:20 / / rw - tmpfs tmpfs rw
23 22 0:21 / /nfs rw - nfs4 filer:/dev/sda1 rw
24 22 0:22 / /tank rw - zfs tank/data rw
25 22 8:99 / /lost rw - ext4 /dev/sdz rw
26 22 0:23 / /docker rw - overlay overlay rw,lowerdir=/tank/l,upperdir=/tank/u,workdir=/tank/w
";
    let files = [
        ("sys/class/bdi/0:21/read_ahead_kb", "15360"),
        ("sys/class/bdi/zfs-1/read_ahead_kb", "0"),
        ("proc/spl/kstat/zfs/tank/state", "ONLINE\n"),
        (
            "proc/spl/kstat/zfs/tank/objset-0x36",
            "name type data\ndataset_name 7 tank/data\nwrites 4 12\nnwritten 4 98304\nreads 4 5\nnread 4 40960\n",
        ),
    ];
    let (_folder, view) = machine(mounts, &with_disks(&files));
    for (directory, reason) in [
        ("/", "tmpfs keeps its files in memory"),
        ("/nfs", "nfs4 gets its files over a network"),
        ("/tank", "ZFS hides its devices"),
        ("/docker", "ZFS hides its devices"),
        ("/lost", "device 8:99, which /sys/block does not have"),
    ] {
        let reason_given = stack(&view, directory).absence().unwrap();
        assert!(reason_given.contains(reason), "{directory}: {reason_given}");
    }
    assert_eq!(counting(&stack(&view, "/nfs")), Some((15_360, "sys/class/bdi/0:21/read_ahead_kb")));
    assert_eq!(counting(&stack(&view, "/tank")), None);
    assert_eq!(DeviceStack::default().absence().unwrap(), "no mount is known that holds it");
}
