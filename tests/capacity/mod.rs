//! The capacities that `fathom checkup` states: that they are true, and that their limit is named.
//!
//! A stated rate is tried on a server of the same kind: `ycsb` at 0.9 of it holds the objective, and at 1.2 of it does not. `make verdicts` records
//! ten attempts on each of three disks at full size (`ONLY=capacity-slow,capacity-capped` selects; recorded attempts stay), `make test` counts them
//! and checks their table in the docs, and `make proof` makes one attempt on each of the two disks that are made, with the bracket of a quick checkup.

mod attempt;
mod disk;
mod table;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use fathom_explain::Need;
use fathom_probe::Pace;
use fathom_record::capacity::{Capacity, CapacityLimit, CapacityLoad, NeedVerdict};
use fathom_testkit::{Disturbance, assert, assert_eq, test};
use fathom_units::count;
use serde::{Deserialize, Serialize};

use self::attempt::{Attempt, LIMIT, LoadedServer, search};
use self::disk::{Disk, DiskKind, KINDS};

/// Parts of a stated rate at which the objective holds, and at which it does not.
const HOLDS_AT: f64 = 0.9;
const BREAKS_AT: f64 = 1.2;
/// Attempts on each disk, and the share of them that must come out.
const ATTEMPTS: u64 = 10;
const MIN_TRUE_SHARE: f64 = 0.9;

/// A stated rate, and how it went below and above it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) disk: DiskKind,
    pub(crate) seed: u64,
    pub(crate) capacity: Capacity,
    pub(crate) below: Option<Attempt>,
    pub(crate) above: Option<Attempt>,
}

impl Trial {
    pub(crate) fn load(&self) -> CapacityLoad {
        self.capacity.load
    }

    /// Whether the statement is true, also the one that no rate holds; a withheld one is neither.
    pub(crate) fn is_true(&self) -> Option<bool> {
        let holds_below = self.below.as_ref().is_none_or(Attempt::holds);
        Some(holds_below && !self.above.as_ref()?.holds())
    }

    /// The trial as a line, while it is recorded.
    pub(crate) fn line(&self) -> String {
        let attempt = |attempt: &Option<Attempt>| {
            attempt.as_ref().map_or_else(
                || "not tried".to_owned(),
                |one| {
                    format!(
                        "{} of {} a second, p99 {:.1} ms",
                        count(one.done_per_s),
                        count(one.offered_per_s),
                        one.p99_us / 1e3
                    )
                },
            )
        };
        format!(
            "{}, {}, seed {}: stated {}, limit {}; below: {}; above: {}; true: {:?}",
            self.disk.words(),
            self.load().name(),
            self.seed,
            self.capacity.stated_per_s().map_or_else(
                || "nothing".to_owned(),
                |(lower, upper)| format!("{} to {}", count(lower), count(upper))
            ),
            self.capacity.limit.words(),
            attempt(&self.below),
            attempt(&self.above),
            self.is_true()
        )
    }
}

/// Whether a name in `ONLY` selects a disk of `make verdicts`.
pub(crate) fn is_disk(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name() == name)
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/capacity/recorded.jsonl")
}

fn trials() -> Vec<Trial> {
    let text = fs::read_to_string(recording()).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Tries what a search on a disk stated for each load: the lower bound from below, the upper one from above. Returns the trials with the worst
/// disturbance of the machine during their attempts. The search has its own remedies for a disturbance, which are on trial.
fn try_all(kind: DiskKind, pace: Pace, seed: u64) -> (Vec<Trial>, Disturbance) {
    let disk = Disk::new(kind);
    let capacities = search(&disk, pace, seed);
    let server = LoadedServer::start(&disk, pace);
    let mut worst = Disturbance::default();
    let try_one = |capacity: &Capacity| {
        // A single stated rate is tried from both sides, and each end of a bracket.
        let upper = capacity.bracket_per_s().map(|(_, upper)| upper).or(capacity.broken_per_s);
        let load = capacity.load;
        let mut attempt = |rate: Option<f64>, factor: f64, seed| {
            let rate = rate.filter(|_| capacity.withheld.is_none())?;
            let (attempt, disturbance) = server.attempt_at_rest(load, factor * rate, seed);
            worst = worst.max(disturbance);
            Some(attempt)
        };
        Trial {
            disk: kind,
            seed,
            capacity: capacity.clone(),
            below: attempt(capacity.rate_per_s, HOLDS_AT, 1000 + 2 * seed),
            above: attempt(upper, BREAKS_AT, 1001 + 2 * seed),
        }
    };
    let trials = capacities.iter().map(try_one).collect();
    server.stop();
    disk.undo();
    (trials, worst)
}

#[test]
fn stated_rates_were_true_on_each_disk() {
    let trials = trials();
    assert!(!trials.is_empty(), "no attempt is recorded");
    table::check(&trials);
    for (kind, load) in table::rows(&trials) {
        let of_row = trials.iter().filter(|trial| trial.disk == kind && trial.load() == load);
        let tried: Vec<bool> = of_row.filter_map(Trial::is_true).collect();
        let share = tried.iter().filter(|is_true| **is_true).count() as f64 / tried.len().max(1) as f64;
        // The machine's own disk is shared with others: its figures are shown, and not asked for.
        if kind != DiskKind::Own {
            assert!(share >= MIN_TRUE_SHARE, "{}: {load:?}: {share}", kind.words());
        }
    }
}

/// A need of 0.8 of the lower end that one checkup stated is covered by what the next one stated, and of 1.2 of the upper end is not.
#[test]
fn a_need_near_the_capacity_is_answered_right() {
    let trials = trials();
    let (mut answers, mut undecided) = (0, 0);
    for (kind, load) in table::rows(&trials) {
        let is_of_row = |trial: &&Trial| {
            trial.disk == kind && trial.load() == load && trial.capacity.stated_per_s().is_some()
        };
        let of_row: Vec<&Trial> = trials.iter().filter(is_of_row).collect();
        let [first, second, ..] = of_row.as_slice() else { continue };
        let of_second = trials.iter().filter(|trial| trial.disk == kind && trial.seed == second.seed);
        let capacities: Vec<&Capacity> = of_second.map(|trial| &trial.capacity).collect();
        let (lower, upper) = first.capacity.stated_per_s().unwrap();
        for (rate, verdict) in [(0.8 * lower, NeedVerdict::Yes), (1.2 * upper, NeedVerdict::No)] {
            let need = match load {
                CapacityLoad::Reads | CapacityLoad::Mix => format!("reads={rate},p99=10ms"),
                // Memory holds these records: an update reads nothing.
                CapacityLoad::JournaledWrites => format!("writes={rate},p99=10ms,data=1G,memory=64G"),
            };
            let answer = need.parse::<Need>().unwrap().answer("a server", &capacities, true);
            println!("{}: {need}: {}", kind.words(), answer.sentence);
            let is_wrong = answer.verdict != verdict && answer.verdict != NeedVerdict::CannotTell;
            assert!(!is_wrong, "{}: {need}: {answer:?}", kind.words());
            answers += 1;
            undecided += usize::from(answer.verdict == NeedVerdict::CannotTell);
        }
    }
    println!("{answers} answers, {undecided} of them \"cannot tell\"");
    // Two needs for each of two loads, on each disk that has two checkups.
    let is_tried = |kind: &DiskKind| (0..ATTEMPTS).filter(|seed| is_recorded(*kind, *seed)).count() > 1;
    let disks = KINDS.iter().filter(|kind| is_tried(kind)).count();
    assert!(disks > 0 && answers >= 4 * disks, "{answers} answers for {disks} disks");
}

/// Takes two hours; only `make verdicts` runs it.
#[test]
#[ignore = "records for two hours; make verdicts runs it"]
fn record() {
    let only = env::var("ONLY").unwrap_or_default();
    let is_selected = |kind: &DiskKind| only.is_empty() || only.split(',').any(|name| name == kind.name());
    let kinds: Vec<DiskKind> = KINDS.into_iter().filter(is_selected).collect();
    let mut disturbed = 0;
    for seed in 0..ATTEMPTS {
        for kind in &kinds {
            if is_recorded(*kind, seed) {
                continue;
            }
            let (tried, disturbance) = try_all(*kind, Pace::Full, seed);
            for trial in &tried {
                println!("{}", trial.line());
            }
            if disturbance.exceeds(LIMIT) {
                println!("not counted, since the machine was disturbed each time: {disturbance}");
                disturbed += 1;
                continue;
            }
            let mut file = OpenOptions::new().create(true).append(true).open(recording()).unwrap();
            for trial in tried {
                writeln!(file, "{}", serde_json::to_string(&trial).unwrap()).unwrap();
            }
        }
    }
    let recorded =
        kinds.iter().flat_map(|kind| (0..ATTEMPTS).filter(|seed| is_recorded(*kind, *seed))).count();
    println!("{recorded} checkups are recorded, {disturbed} were disturbed");
    assert_eq!(recorded + disturbed, kinds.len() * ATTEMPTS as usize);
}

/// Whether the checkup of a disk with this seed is recorded.
fn is_recorded(kind: DiskKind, seed: u64) -> bool {
    trials().iter().any(|trial| trial.disk == kind && trial.seed == seed)
}

mod proof {
    use std::time::Duration;

    use fathom_testkit::{
        Bytes, Cap, CapLimits, Fathom, Filesystem, OrSkip, RealDisk, assert, assert_eq, test, undisturbed,
    };
    use serde_json::Value;

    use super::disk::CAP_IOPS;
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

    fn checkup(directory: &Path) -> Fathom {
        let words = ["checkup", "--quick", "--size", "64M", "--no-record", "--json", "--dir"];
        Fathom::new(PROGRAM).args(words).arg(directory).limit(Duration::from_secs(400))
    }

    /// The capacity for a load in the document of a checkup.
    fn capacity(document: &Value, load: &str) -> Value {
        let results = document["results"].as_array().unwrap();
        let is_wanted = |one: &&Value| one["type"] == "capacity" && one["load"] == load;
        results
            .iter()
            .find(is_wanted)
            .unwrap_or_else(|| panic!("no capacity for {load} in {document:#}"))
            .clone()
    }

    #[test]
    fn processors_are_the_limit_of_a_disk_in_memory() {
        let disk = RealDisk::in_memory(Filesystem::Ext4, Bytes(1900 << 20));
        let output = checkup(disk.path()).run();
        assert!(matches!(output.code, 0 | 4), "{}", output.stderr);
        let document = output.json();
        let reads = capacity(&document, "reads");
        if reads["withheld"].is_null() {
            assert_eq!(reads["limit"], "processors", "{reads:#}");
            // The capacity says it, so no finding says it again.
            let of_reads = &document["loads"][0];
            assert!(of_reads["findings"].is_array(), "{of_reads:#}");
            assert!(!of_reads.to_string().contains("processor-is-short"), "{of_reads:#}");
            assert!(reads["rate_per_s"].as_f64().unwrap() > CAP_IOPS as f64, "{reads:#}");
        } else {
            // Other programs took the processors, which it must say.
            assert!(reads["withheld"].as_str().unwrap().contains("programs"), "{reads:#}");
        }
        disk.undo().unwrap();
    }

    #[test]
    fn a_cap_on_the_device_is_the_limit_of_reads() {
        let disk = RealDisk::new(Filesystem::Ext4, Bytes(2 << 30));
        let cap = Cap::new(disk.ledger(), disk.device_number(), CapLimits::iops(CAP_IOPS))
            .or_skip(fathom_testkit::Need::Cgroup);
        let output = checkup(disk.path()).under_cap(cap.processes_file()).run().expect_code(1);
        let reads = capacity(&output.json(), "reads");
        assert_eq!(reads["limit"], "cap", "{reads:#}");
        assert!(reads["limit_reason"].as_str().unwrap().contains("300 reads a second"), "{reads:#}");
        let saturated = reads["saturation"]["device_reads_per_s"].as_f64().unwrap() / CAP_IOPS as f64;
        assert!((0.9..1.1).contains(&saturated), "{reads:#}");
        assert!(reads["device_reads_per_page"].as_f64().unwrap() > 0.9, "{reads:#}");
        cap.lift().unwrap();
        disk.undo().unwrap();
    }

    /// The machine's own disk may change between two moments, so `make verdicts` alone tries it.
    #[test]
    fn a_quick_bracket_holds_the_capacity_of_each_disk() {
        let mut tried = Vec::new();
        for kind in [DiskKind::Slow, DiskKind::Capped] {
            tried.extend(undisturbed(LIMIT, || try_all(kind, Pace::Quick, 7)));
        }
        let lines: Vec<String> = tried.iter().map(Trial::line).collect();
        println!("{}", lines.join("\n"));
        // Two loads on each disk. Other programs may withhold a capacity, but not all.
        assert_eq!(tried.len(), 4, "{lines:#?}");
        assert!(tried.iter().any(|trial| trial.is_true().is_some()), "{lines:#?}");
        // Writers share a sync: on the slow disk they may fill the processors of a small machine first.
        let fills_processors = |trial: &Trial| {
            trial.disk == DiskKind::Slow
                && trial.load() == CapacityLoad::JournaledWrites
                && trial.capacity.limit == CapacityLimit::Processors
        };
        let is_named = |trial: &Trial| trial.capacity.limit.is_storage() || fills_processors(trial);
        assert!(tried.iter().all(is_named), "{lines:#?}");
        // Of ten statements one may be wrong, so of these few one.
        let wrong = tried.iter().filter(|trial| trial.is_true() == Some(false)).count();
        assert!(wrong <= 1, "{lines:#?}");
    }
}
