//! Control groups read from small made-up machines of each kind: version 2, version 1, both, and a container.

use std::fs;

use fathom_testkit::{Need, skip, test};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

fn machine(files: &[(&str, &str)]) -> (TempDir, View) {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("sys")).unwrap();
    for (path, text) in files {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let view = View::snapshot(folder.path()).unwrap();
    (folder, view)
}

#[test]
fn version_2_caps_bind_from_every_ancestor() {
    let (_folder, view) = machine(&[
        ("proc/self/cgroup", "0::/system.slice/mongod.service\n"),
        ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
        (
            "sys/fs/cgroup/system.slice/io.max",
            "8:16 rbps=max wbps=1048576 riops=100 wiops=max\n8:0 riops=1\n",
        ),
        ("sys/fs/cgroup/system.slice/mongod.service/io.max", "8:16 rbps=max wbps=max riops=300 wiops=120\n"),
        (
            "sys/fs/cgroup/system.slice/io.stat",
            "8:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=40960 wbytes=8192 rios=10 wios=3 dbytes=4096 dios=2\n",
        ),
        ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
        ("sys/fs/cgroup/system.slice/mongod.service/memory.max", "max\n"),
        ("sys/fs/cgroup/system.slice/mongod.service/memory.current", "7\n"),
        ("sys/fs/cgroup/system.slice/memory.current", "900\n"),
        ("sys/fs/cgroup/system.slice/mongod.service/cpu.max", "150000 100000\n"),
        (
            "sys/fs/cgroup/system.slice/mongod.service/cpu.stat",
            "usage_usec 9000000\nnr_periods 90\nnr_throttled 40\nthrottled_usec 2500000\n",
        ),
    ]);
    let groups = Cgroups::read(&view, None);
    let limits = groups.io_limits(SDB);
    let short: Vec<_> = limits.iter().map(|limit| (limit.kind, limit.value)).collect();
    assert_eq!(
        short,
        [
            (LimitKind::ReadIops, 100),
            (LimitKind::ReadIops, 300),
            (LimitKind::WriteIops, 120),
            (LimitKind::WriteBytes, 1_048_576)
        ]
    );
    assert_eq!(limits[0].file, "/sys/fs/cgroup/system.slice/io.max");
    // The counters of the outer group; the inner one has none that can be read.
    let counted: Vec<_> = limits.iter().map(|limit| limit.counted).collect();
    assert_eq!(counted, [Some(10), None, None, Some(8192 + 4096)]);
    assert_eq!(groups.memory_limit(), Some(MemoryLimit { max_bytes: 1 << 30, used_bytes: Some(900) }));
    assert_eq!((groups.cpu_max(), groups.cpu_throttled_us()), (Some(1.5), Some(2_500_000)));
    let quota = CpuQuota { processors: 1.5, used_us: Some(9_000_000), periods: Some((90, 40)) };
    assert_eq!(groups.cpu_quota(), Some(quota));
    let file = "/sys/fs/cgroup/system.slice/mongod.service/cpu.max".to_owned();
    assert_eq!(groups.cpu_quota_setting(), Some(QuotaSetting { file, text: "150000 100000".to_owned() }));
    assert_eq!(groups.unified_folder().unwrap(), Path::new("/sys/fs/cgroup/system.slice/mongod.service"));
    assert_eq!(groups.io_limits(DeviceNumber { major: 9, minor: 0 }), []);
}

#[test]
fn version_1_caps_bind_from_the_own_group_only() {
    let (_folder, view) = machine(&[
        ("proc/77/cgroup", "7:blkio:/db/mongod\n4:memory:/db\n2:cpu,cpuacct:/db\n0::/\n"),
        (
            "proc/self/mountinfo",
            "31 1 0:27 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             33 1 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
        ),
        ("sys/fs/cgroup/blkio/db/mongod/blkio.throttle.read_iops_device", "8:16 100\n8:32 7\n"),
        ("sys/fs/cgroup/blkio/db/mongod/blkio.throttle.write_bps_device", "8:16 2097152\n"),
        ("sys/fs/cgroup/blkio/db/blkio.throttle.read_iops_device", "8:16 5\n"),
        (
            "sys/fs/cgroup/blkio/db/mongod/blkio.throttle.io_serviced",
            "8:32 Read 9\n8:16 Read 70\n8:16 Write 30\n8:16 Sync 90\n8:16 Async 10\n8:16 Discard 4\n8:16 Total 104\nTotal 113\n",
        ),
        (
            "sys/fs/cgroup/blkio/db/mongod/blkio.throttle.io_service_bytes",
            "8:16 Read 700\n8:16 Write 300\n8:16 Discard 40\n8:16 Total 1040\n",
        ),
        ("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu,cpuacct/db/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/db/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/db/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 7000\n"),
    ]);
    let groups = Cgroups::read(&view, Some(77));
    assert_eq!(groups.cpu_throttled_us(), None, "there is no quota");
    assert_eq!(parse_throttled_us("nr_periods 1\nthrottled_time 7000\n"), Some(7));
    let limits = groups.io_limits(SDB);
    let short: Vec<_> = limits.iter().map(|limit| (limit.kind, limit.value)).collect();
    assert_eq!(short, [(LimitKind::ReadIops, 100), (LimitKind::WriteBytes, 2_097_152)]);
    assert_eq!(limits.iter().map(|limit| limit.counted).collect::<Vec<_>>(), [Some(70), Some(340)]);
    assert_eq!((groups.memory_max_bytes(), groups.cpu_max()), (None, None));
    assert_eq!(groups.controller_folder("blkio").unwrap(), Path::new("/sys/fs/cgroup/blkio/db/mongod"));
    assert!(Cgroups::read(&view, Some(78)).memberships().is_empty());
}

#[test]
fn a_group_of_version_1_has_an_account_where_both_controllers_are_mounted_together() {
    let files = |account: &'static str| {
        [
            ("proc/self/cgroup", "2:cpu:/db\n3:cpuacct:/db\n"),
            ("proc/self/mountinfo", account),
            ("sys/fs/cgroup/cpu/db/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/db/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/db/cpu.stat", "nr_periods 8\nnr_throttled 6\nthrottled_time 7000\n"),
            ("sys/fs/cgroup/cpu/db/cpuacct.usage", "4000000\n"),
        ]
    };
    let quota = CpuQuota { processors: 0.5, used_us: Some(4000), periods: Some((8, 6)) };
    let (_folder, view) =
        machine(&files("33 1 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"));
    assert_eq!(Cgroups::read(&view, None).cpu_quota(), Some(quota));
    let file = "/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us".to_owned();
    let setting = QuotaSetting { file, text: "50000".to_owned() };
    assert_eq!(Cgroups::read(&view, None).cpu_quota_setting(), Some(setting));
    let (_folder, view) = machine(&files(
        "33 1 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         34 1 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
    ));
    assert_eq!(Cgroups::read(&view, None).cpu_quota(), Some(CpuQuota { used_us: None, ..quota }));
}

#[test]
fn a_container_sees_its_own_group_as_the_root_of_the_mount() {
    let (_folder, view) = machine(&[
        ("proc/self/cgroup", "7:blkio:/docker/abc\n"),
        ("proc/self/mountinfo", "31 1 0:27 /docker/abc /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio\n"),
        ("sys/fs/cgroup/blkio/blkio.throttle.write_iops_device", "8:16 50\n"),
    ]);
    assert_eq!(Cgroups::read(&view, None).io_limits(SDB).len(), 1);
}

#[test]
fn a_path_outside_of_the_namespace_is_not_followed() {
    let (_folder, view) = machine(&[
        ("proc/self/cgroup", "0::/../../other\n"),
        ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ]);
    assert_eq!(Cgroups::read(&view, None).unified_folder(), None);
}

#[test]
fn the_live_process_is_in_some_group() {
    let groups = Cgroups::read(&View::live(), None);
    if groups.memberships().is_empty() {
        skip!(Need::Kernel, "this machine has no control groups");
    }
    assert!(groups.memberships().iter().all(|one| one.path.starts_with('/')), "{:?}", groups.memberships());
    assert!(groups.io_limits(SDB).iter().all(|limit| limit.value > 0 && limit.file.starts_with('/')));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[0-9a-z:=, /.\n-]{0,200}", other in ".{0,200}") {
        for text in [&text, &other] {
            parse_membership(text);
            parse_hierarchies(text);
            parse_io_max(text, SDB);
            parse_throttle(text, SDB);
            parse_io_stat(text, SDB, LimitKind::WriteIops);
            parse_serviced(text, SDB, LimitKind::WriteIops);
        }
    }
}
