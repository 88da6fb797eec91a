//! Tests `fathom disk --sustain` on disks with a known bucket: a token bucket in front of the kit's disk.

use std::fs;
use std::time::Duration;

use fathom_record::burst_allowance::{BurstAllowance, BurstVerdict};
use fathom_record::disk::burst_allowance;
use fathom_testkit::{Allowance, Filesystem, Scratch, SlowDisk, Speed, assert, assert_eq, test};
use fathom_units::Bytes;
use rustix::process::Signal;

use crate::disk::{Probe, assert_sentence};
use crate::ycsb_faults::wait_until;

/// A disk with a bucket.
#[derive(Clone, Copy, Debug)]
struct Truth {
    speed: Speed,
    allowance: Option<Allowance>,
}

impl Truth {
    /// Requests a second while the bucket has tokens.
    fn burst_per_s(&self) -> f64 {
        self.speed.parallel as f64 / self.speed.service.as_secs_f64()
    }

    fn disk(&self) -> SlowDisk {
        let disk = SlowDisk::new(Filesystem::Ext4, Bytes::mib(128), self.speed);
        disk.set_allowance(self.allowance);
        disk
    }
}

/// The probe's judgement of a disk, its exit code, and the probe with its run folder.
fn sustain(disk: &SlowDisk, words: &[&str]) -> (BurstAllowance, i32, Probe) {
    let probe = Probe::new(disk.path());
    let output = probe.disk().args(["--size", "16M", "--sustain"]).args(words).run();
    let said = burst_allowance(&probe.last_run().results().unwrap()).cloned();
    let said = said.unwrap_or_else(|| panic!("nothing of a burst in {output:?}"));
    let printed = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains(&said.words), "{} is not in {}", said.words, output.stdout);
    probe.assert_clean();
    (said, output.code, probe)
}

/// The error of a figure, as a share of the true value.
fn error(figure: f64, truth: f64) -> f64 {
    (figure / truth - 1.0).abs()
}

/// The readings of a drive that the folder of its run has so far.
fn readings_so_far(probe: &Probe) -> usize {
    let readings =
        probe.run_folders().last().and_then(|folder| fs::read_to_string(folder.join("series.jsonl")).ok());
    readings.map_or(0, |lines| lines.lines().filter(|line| line.contains("probe.sustain-randread")).count())
}

/// Whatever the machine gives meanwhile: the rates are judged in `timed`, and on simulated disks in fathom-probe.
#[test]
fn each_second_of_a_drive_is_in_the_run_folder_and_on_its_page() {
    let speed = Speed { service: Duration::from_millis(4), parallel: 2 };
    let (said, code, probe) = sustain(&Truth { speed, allowance: None }.disk(), &["20s", "--depth", "4"]);
    assert!(matches!(code, 0 | 1) && said.requests > 0, "{said:#?}");
    let readings = probe.last_run().readings().unwrap();
    assert!(readings.iter().any(|one| one.name.starts_with("probe.sustain-randread")));
    let folder = probe.run_folders().pop().unwrap();
    probe.fathom("report").arg(&folder).run().expect_code(0);
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(
        page.contains("Operations in each second: sustain") && page.contains(&said.words),
        "{}",
        said.words
    );
}

#[test]
fn what_contradicts_a_drive_is_refused() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    for words in [
        &["--sustain", "--time", "3s"][..],
        &["--sustain", "--rate", "100"],
        &["--sustain", "--slo", "p99<5ms"],
        &["--sustain", "--depth", "1..4"],
        &["--sustain", "5s"],
        &["--sustain", "5000d"],
    ] {
        let output = probe.run(words);
        assert_eq!(output.code, 2, "{words:?}: {output:?}");
        assert_sentence(&output);
    }
    probe.assert_clean();
}

#[test]
fn an_interrupted_drive_keeps_what_it_saw() {
    let speed = Speed { service: Duration::from_millis(4), parallel: 2 };
    let disk = SlowDisk::new(Filesystem::Ext4, Bytes::mib(128), speed);
    let probe = Probe::new(disk.path());
    let mut running =
        probe.disk().args(["--size", "16M", "--json", "--depth", "4", "--sustain", "1h"]).spawn();
    wait_until("three seconds", || running.has_ended() || readings_so_far(&probe) >= 3);
    running.signal(Signal::INT);
    let output = running.wait();
    // A busy machine is a finding of its own.
    assert!(matches!(output.code, 0 | 1), "{output:?}");
    assert_eq!(output.json()["state"], "interrupted");
    let said = burst_allowance(&probe.last_run().results().unwrap()).cloned().unwrap();
    // A drive that was cut short excludes no larger bucket.
    assert!(said.verdict != BurstVerdict::Sustained && said.requests > 0, "{said:#?}");
    probe.assert_clean();
}

mod timed {
    use fathom_testkit::{assert, assert_eq, test};

    use super::*;

    /// A bucket that is empty after 3 s.
    #[test]
    fn a_bucket_is_emptied_and_told() {
        let speed = Speed { service: Duration::from_millis(4), parallel: 5 };
        let allowance = Allowance { requests: 2250.0, refill_per_s: 500.0 };
        let truth = Truth { speed, allowance: Some(allowance) };
        let (said, code, probe) = sustain(&truth.disk(), &["20s", "--depth", "10"]);
        assert_eq!((said.verdict, code), (BurstVerdict::Burst, 1), "{said:#?}");
        let [high, low] = said.levels.as_slice() else { panic!("{said:#?}") };
        assert!(error(high.per_s, truth.burst_per_s()) < 0.1, "{said:#?}");
        assert!(error(low.per_s, allowance.refill_per_s) < 0.1, "{said:#?}");
        let bucket = said.bucket.unwrap();
        assert!(error(bucket.requests, allowance.requests) < 0.3, "{bucket:#?}");
        assert!(error(bucket.refill_per_s, allowance.refill_per_s) < 0.3, "{bucket:#?}");
        let run = probe.last_run();
        assert!(run.findings().unwrap().iter().any(|finding| finding.id == "burst-exhausted"));
        // Each second of the drive is in the folder, and on its page.
        let readings = run.readings().unwrap();
        assert!(readings.iter().filter(|one| one.name.starts_with("probe.sustain-randread")).count() >= 13);
        let folder = probe.run_folders().pop().unwrap();
        probe.fathom("report").arg(&folder).run().expect_code(0);
        let page = fs::read_to_string(folder.join("report.html")).unwrap();
        assert!(page.contains("Operations in each second: sustain") && page.contains("In burst: "));
    }
}

mod proof {
    use std::panic::resume_unwind;
    use std::thread;

    use fathom_stats::SeededRandom;
    use fathom_testkit::{assert, assert_eq, test};

    use super::*;
    use crate::disk::results;

    /// The seed of the drawn buckets.
    const SEED: u64 = 26;
    const BUCKETS: u64 = 10;

    /// A disk with a bucket that lasts for 3 to 7 s, and refills with a fifth to three fifths of its rate.
    fn drawn(number: u64) -> (Truth, Allowance) {
        let mut random = SeededRandom::from_seed(SEED).split(number);
        let speed = Speed {
            service: Duration::from_micros(2000 + random.below(3000)),
            parallel: 3 + random.below(4) as usize,
        };
        let burst_per_s = speed.parallel as f64 / speed.service.as_secs_f64();
        let refill_per_s = (burst_per_s * (0.2 + 0.4 * random.uniform())).round();
        let seconds = 3.0 + 4.0 * random.uniform();
        let requests = ((burst_per_s - refill_per_s) * seconds).round();
        let allowance = Allowance { requests, refill_per_s };
        (Truth { speed, allowance: Some(allowance) }, allowance)
    }

    #[test]
    fn ten_drawn_buckets_are_emptied_and_measured() {
        let mut all = Vec::new();
        // Two at a time: each leaves a processor half idle.
        for first in (0..BUCKETS).step_by(2) {
            let pair = [drawn(first), drawn(first + 1)];
            let disks = pair.map(|(truth, _)| truth.disk());
            let said = thread::scope(|scope| {
                let drives = disks.each_ref().map(|disk| scope.spawn(move || sustain(disk, &["25s"]).0));
                drives.map(|drive| drive.join().unwrap_or_else(|panic| resume_unwind(panic)))
            });
            for ((truth, allowance), said) in pair.into_iter().zip(said) {
                println!("{:.0} a second, then {allowance:?}: {}", truth.burst_per_s(), said.words);
                assert_eq!(said.verdict, BurstVerdict::Burst, "{truth:?}: {said:#?}");
                let (high, low) = (said.levels[0].per_s, said.lowest().unwrap().per_s);
                let bucket = said.bucket.unwrap();
                let errors = [
                    error(high, truth.burst_per_s()),
                    error(low, allowance.refill_per_s),
                    error(bucket.requests, allowance.requests),
                ];
                println!(
                    "   errors {errors:.3?}, refill {:.0}, in {:.0} s",
                    bucket.refill_per_s, said.seconds
                );
                all.push(errors);
            }
        }
        let is_right = |errors: &&[f64; 3]| errors[0] <= 0.05 && errors[1] <= 0.05 && errors[2] <= 0.15;
        let right = all.iter().filter(is_right).count();
        assert!(right >= 9, "{right} of 10: {all:.3?}");
    }

    #[test]
    fn a_disk_without_a_bucket_is_sustained() {
        let speed = Speed { service: Duration::from_millis(3), parallel: 4 };
        let (said, code, _) = sustain(&Truth { speed, allowance: None }.disk(), &["40s"]);
        assert_eq!((said.verdict, code), (BurstVerdict::NoStep, 0), "{said:#?}");
        assert!(
            said.words.starts_with("Sustained for ") && (35.0..60.0).contains(&said.seconds),
            "{said:#?}"
        );
        assert!(error(said.lowest().unwrap().per_s, 4.0 / 0.003) < 0.05, "{said:#?}");
    }

    /// The reads of a probe would not empty the bucket that such a disk may have, whatever it measured.
    #[test]
    fn a_checkup_calls_no_bucket_sustained() {
        let speed = Speed { service: Duration::from_millis(1), parallel: 4 };
        let disk = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed);
        disk.set_allowance(Some(Allowance { requests: 60_000.0, refill_per_s: 1000.0 }));
        let probe = Probe::new(disk.path());
        let words = ["--quick", "--size", "16M", "--json", "--no-record", "--dir"];
        let checkup = probe.fathom("checkup").args(words).arg(&probe.dir);
        let output = checkup.limit(Duration::from_secs(400)).run();
        assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
        let document = output.json();
        let said = results(&document, "burst_allowance");
        assert_eq!(said.len(), 1, "{document:#}");
        assert_eq!(said[0]["verdict"], "cannot_tell", "{:#}", said[0]);
        assert!(
            said[0]["words"].as_str().unwrap().contains("burst rates: what the disk sustains is unknown")
        );
    }
}
