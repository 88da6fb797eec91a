//! The memory that the end of a recording takes has a bound, whatever the recording's length. This is a program of its own, because the peak
//! is that of the whole process.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;

use fathom_record::{Manifest, Reading, Run, RunWriter, State};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_S: u64 = 3600;

/// Records `series` readings a second for `seconds`, ends the recording, and returns the peak of this process's memory during the end.
fn peak_kib_of_end(seconds: u64, series: u64) -> u64 {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), Manifest::new("watch", "0.0.0", [])).unwrap();
    let names: Vec<String> =
        (0..series).map(|number| format!("server.a.wiredtiger.{number}.per_s")).collect();
    for second in 0..seconds {
        let window_ns = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let readings = names.iter().map(|name| Reading::new(name, "1/s", window_ns, second as f64));
        writer.readings(&readings.collect::<Vec<_>>()).unwrap();
    }
    // Linux then counts the peak from the present size.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let folder = writer.finish(State::Complete, None).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib = peak.trim().trim_end_matches(" kB").parse().unwrap();
    let mut count = 0;
    Run::open(folder).unwrap().each_reading(&mut |_, _, _| count += 1).unwrap();
    assert_eq!(count, seconds * series, "every reading can be read back");
    peak_kib
}

fn assert_bounded(short_kib: u64, long_kib: u64) {
    assert!(
        long_kib * 4 < short_kib * 5,
        "{short_kib} KiB at the short one's end, {long_kib} KiB at the long one's"
    );
}

#[test]
fn the_end_of_a_recording_takes_no_more_memory_after_eight_hours_than_after_one() {
    let short_kib = peak_kib_of_end(HOUR_S, 12);
    assert_bounded(short_kib, peak_kib_of_end(8 * HOUR_S, 12));
}

#[test]
#[ignore = "a week's readings of one server take a quarter of an hour and 400 MB of disk: make soak"]
fn the_end_of_a_recording_takes_no_more_memory_after_a_week() {
    // Two hours have a part that was sealed during the recording, as a week has.
    let short_kib = peak_kib_of_end(2 * HOUR_S, 190);
    assert_bounded(short_kib, peak_kib_of_end(7 * 24 * HOUR_S, 190));
}
