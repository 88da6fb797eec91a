//! What a reader should know before trusting the figures on this kernel; for standard error, never in the report.

use super::Stack;
use crate::DeviceKind;
use crate::kernel::Version;

/// What `%util` counts on a kernel. The counter behind it has had three meanings (`docs/iostat.md`).
pub fn util_meaning(version: &Version) -> String {
    let meaning = if !version.at_least(5, 0) {
        "the time with a request in flight, exactly (kernels before 5.0)"
    } else if !version.at_least(6, 10) {
        "a whole clock tick for every tick in which a request began, so light load shows too high (kernels 5.0 to 6.9)"
    } else {
        "the clock ticks that a request spans, so requests shorter than a tick are caught by chance (kernels 6.10 and later)"
    };
    format!(
        "%util on {version} counts {meaning}; near 100 it means a full device only if that serves one request at a time"
    )
}

/// The notes for a report of these devices; `util` tells whether it has the `%util` column.
pub fn notes(version: Option<&Version>, stack: &Stack, shown: &[&str], util: bool) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(version.filter(|_| util).map(util_meaning));
    for name in shown.iter().filter(|name| stack.is_frozen(name)) {
        notes.push(format!("{name}: queue/iostats is 0, so the kernel does not count its requests"));
    }
    let stacked = |name: &&&str| {
        let kind = stack.device(name).map(|device| device.kind);
        matches!(kind, Some(DeviceKind::Mapper | DeviceKind::Raid))
    };
    let old = version.filter(|version| !version.at_least(6, 3));
    if let (Some(version), Some(name)) = (old, shown.iter().find(stacked)) {
        notes.push(format!(
            "{name}: dm and md before kernel 6.3 (and its stable backports) count a request at its start and its time at \
             its end, so on {version} their await may be far off; trust the devices below"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_of_kernel_has_its_meaning() {
        for (version, words) in [
            ("3.10.0-1160.el7.x86_64", "exactly"),
            ("5.0.0", "shows too high"),
            ("6.9.12", "shows too high"),
            ("6.10.0", "by chance"),
            ("6.18.44-fc-v595", "by chance"),
        ] {
            let meaning = util_meaning(&Version::parse(version).unwrap());
            assert!(meaning.contains(words) && meaning.contains(version), "{meaning}");
        }
    }
}
