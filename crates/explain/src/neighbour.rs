//! Tells whose I/O a device serves: the server's own, or mostly that of other programs on the same device.
//!
//! The device's counters include all programs, and `/proc/PID/io` counts the process alone (proc_pid_io(5)). The bytes that the process did not ask
//! for are the file system's journal and metadata, which are few, or a neighbour's, which may be any number. A neighbour is a cause only as far
//! as operations wait for the device, so this finding is a note until the verdict prices it.

use fathom_record::{Confidence, Finding, Severity};
use fathom_units::decimal;

use crate::server_devices::leaves;
use crate::{Evidence, Judgement};

/// The series that the finding is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.process.read_bytes",
    "server.{member}.process.written_bytes",
    "device.{device}.read_bytes",
    "device.{device}.written_bytes",
];

/// The least share of the device's bytes that others have.
const MIN_OTHERS_SHARE: f64 = 0.5;
/// The least rate of their bytes: the journal of a file system writes up to 16 KiB for each sync, so a thousand syncs make 16 MiB.
const MIN_OTHERS_BYTES_PER_S: f64 = 32.0 * 1_048_576.0;

/// Adds a finding for each device that mostly serves other programs.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let mut devices: Vec<String> =
        evidence.members().iter().flat_map(|member| leaves(evidence, member)).collect();
    devices.sort_unstable();
    devices.dedup();
    for device in devices {
        if let Some(finding) = neighbour(evidence, &device) {
            judgement.add_unless_withheld(finding);
        }
    }
}

/// Bytes a second in each direction.
struct NeighbourTraffic {
    read: f64,
    written: f64,
}

impl NeighbourTraffic {
    fn both(&self) -> f64 {
        self.read + self.written
    }

    fn words(&self) -> String {
        let mib = |bytes: f64| decimal(bytes / 1_048_576.0);
        format!("{} MiB read and {} MiB written a second", mib(self.read), mib(self.written))
    }
}

fn neighbour(evidence: &Evidence, device: &str) -> Option<Finding> {
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let per_s = |name: String| Some(evidence.sum(&name)? / seconds);
    let members: Vec<String> = evidence
        .members()
        .into_iter()
        .filter(|member| leaves(evidence, member).iter().any(|leaf| leaf == device))
        .collect();
    let total = NeighbourTraffic {
        read: per_s(format!("device.{device}.read_bytes"))?,
        written: per_s(format!("device.{device}.written_bytes"))?,
    };
    let mut own = NeighbourTraffic { read: 0.0, written: 0.0 };
    for member in &members {
        // A process that was not watched may cause all of the traffic.
        own.read += per_s(format!("server.{member}.process.read_bytes"))?;
        own.written += per_s(format!("server.{member}.process.written_bytes"))?;
    }
    let others = total.both() - own.both();
    if others < MIN_OTHERS_BYTES_PER_S || others < MIN_OTHERS_SHARE * total.both() {
        return None;
    }
    let who = if members.len() == 1 { "the server's process" } else { "the servers' processes" };
    let claim = format!(
        "{device} is busy with the I/O of other programs: {:.0} % of its bytes are not those of {who}",
        100.0 * others / total.both()
    );
    let top = evidence.fact("host.top.io");
    let top = top.map(|top| format!("Most I/O meanwhile, by process: {top}."));
    let process = members.iter().flat_map(|member| {
        ["read_bytes", "written_bytes"].map(|kind| format!("server.{member}.process.{kind}"))
    });
    let mut finding = Finding::new("neighbour-io", Severity::Note, claim)
            .confidence(Confidence::Likely)
            .evidence(format!("{device} had {}; {who} asked for {}.", total.words(), own.words()))
            .advice("Move the other program or the data to another device, or limit it (io.max of its control group).")
            .command("pidstat -d 5 1    # which processes read and write; as root")
            .next_look("Judge a window in which the other program is idle: the difference in the time of operations is what it costs.")
            .source("https://man7.org/linux/man-pages/man5/proc_pid_io.5.html")
            .series(["read_bytes", "written_bytes"].map(|kind| format!("device.{device}.{kind}")))
            .series(process)
            .window(evidence.window_ns);
    finding.evidence.extend(top);
    Some(finding)
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MIB: f64 = 1_048_576.0;

    /// MiB a second of the device and of the process, each read and written.
    fn judged(device: (f64, f64), process: Option<(f64, f64)>) -> Vec<Finding> {
        let mut series = SeriesSet::default();
        for second in 0..30 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let mut put = |name: &str, mib: f64| {
                series.add(name, "bytes", Point { begin_ns, end_ns, value: mib * MIB })
            };
            put("server.0.up", 0.0);
            put("device.vda.reads", 0.0);
            put("device.vda.read_bytes", device.0);
            put("device.vda.written_bytes", device.1);
            if let Some((read, written)) = process {
                put("server.0.process.read_bytes", read);
                put("server.0.process.written_bytes", written);
            }
        }
        let evidence = Evidence { series, window_ns: (0, 30 * SECOND), ..Evidence::default() };
        let mut judgement = Judgement::default();
        judge(&evidence, &mut judgement);
        judgement.findings
    }

    #[test]
    fn a_device_that_serves_others_is_named_with_both_figures() {
        let found = judged((0.0, 1050.0), Some((0.5, 2.0)));
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert_eq!(finding.id, "neighbour-io");
        assert!(
            finding.claim.starts_with("vda is busy with the I/O of other programs: 100 %"),
            "{finding:#?}"
        );
        assert!(finding.evidence[0].contains("2.00 MiB written"), "{finding:#?}");
    }

    #[test]
    fn its_own_io_a_journal_of_the_file_system_and_a_process_that_was_not_watched_are_none() {
        assert_eq!(judged((10.0, 300.0), Some((10.0, 200.0))), []);
        // 1,000 syncs a second of 1 KiB make 4 KiB and 12 KiB of the file system's own.
        assert_eq!(judged((0.0, 16.0), Some((0.0, 1.0))), []);
        assert_eq!(judged((0.0, 1050.0), None), []);
    }
}
