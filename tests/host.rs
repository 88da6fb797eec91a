//! Tests the facts that `fathom-host` reads of newly made devices, caps and file systems.

use fathom_host::cgroup::{Cgroups, LimitKind};
use fathom_host::{View, environment};
use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, Need, OrSkip, RealDisk, assert, assert_eq, test,
};

#[test]
fn a_cap_is_seen_with_the_file_that_sets_it() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(64 << 20));
    let cap = Cap::new(disk.ledger(), disk.device_number(), CapLimits::iops(100)).or_skip(Need::Cgroup);
    // The kit kills it and waits for its end, after a panic too.
    let sleeper = Fathom::new("sleep").arg("600").spawn();
    cap.adopt_process(sleeper.pid()).unwrap();
    let groups = Cgroups::read(&View::live(), Some(sleeper.pid()));
    let limits = groups.io_limits(disk.device_number());
    let own = Cgroups::read(&View::live(), None).io_limits(disk.device_number());
    drop(sleeper);
    let found: Vec<_> = limits.iter().map(|limit| (limit.kind, limit.value)).collect();
    assert_eq!(found, [(LimitKind::ReadIops, 100), (LimitKind::WriteIops, 100)], "{limits:?}");
    assert!(limits.iter().all(|limit| std::path::Path::new(&limit.file).is_file()), "{limits:?}");
    assert_eq!(own, [], "this process is not under the cap");
}

#[test]
fn facts_name_the_file_system_and_every_device_below() {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(Filesystem::Xfs.least_size_mib() << 20));
    let facts = environment::facts(&View::live(), Some(disk.path()));
    let fact = |name: &str| facts.get(name).map(String::as_str);
    assert_eq!(fact("fs.type"), Some("xfs"));
    assert!(fact("fs.options").unwrap().split(',').any(|option| option == "noatime"));
    let name = disk.device_name();
    assert_eq!(fact("device.stack"), Some(name.as_str()));
    assert_eq!(fact(&format!("device.{name}.kind")), Some("loop"));
    assert!(facts.contains_key(&format!("device.{name}.scheduler")), "{facts:#?}");
    assert!(facts.contains_key("cpu.count") && facts.contains_key("memory.bytes"), "{facts:#?}");
}
