//! Fuzzes the small files of `/proc` and of control groups, live or from a snapshot: no panic, and no more entries than
//! lines of text.

use fathom_host::{cgroup, kernel, pressure, sched};

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert!(cgroup::parse_membership(text).len() <= text.lines().count());
    let _ = pressure::parse(text);
    if let Some(version) = kernel::KernelVersion::parse(text) {
        assert!(version.at_least(0, 0));
    }
    if let Some(stat) = sched::SchedStat::parse(text) {
        assert_eq!(stat.since(stat), sched::SchedStat::default().since(sched::SchedStat::default()));
        let _ = stat.plus(stat);
    }
    if let Some(times) = sched::CpuTimes::parse(text) {
        let _ = times.shares_since(&times);
    }
}
