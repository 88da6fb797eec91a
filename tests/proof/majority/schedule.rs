//! What happens to a set and when, as a seed says: the same seed gives the same schedule.

use std::time::Duration;

use fathom_stats::SeededRandom;

/// A fault of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It dies without warning, and is started again when the fault ends.
    Kill,
    /// It is stopped (SIGSTOP) and continued.
    Pause,
    /// It is cut off from members and clients.
    Unplug,
    /// It and the others do not reach each other; clients reach all.
    Cut,
    /// Messages of the others to it are lost; its own arrive.
    Deafen,
}

const FAULTS: [Fault; 5] = [Fault::Kill, Fault::Pause, Fault::Unplug, Fault::Cut, Fault::Deafen];

/// Whom it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultTarget {
    /// The primary of that time.
    Primary,
    Member(usize),
}

/// A fault, since the schedule began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) begins: Duration,
    pub(crate) ends: Duration,
    pub(crate) who: FaultTarget,
    pub(crate) fault: Fault,
}

/// Faults in the order in which they begin; some begin before others have ended.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

/// How long faults go on beginning.
const LENGTH: Duration = Duration::from_secs(10);

impl Schedule {
    /// That of a seed, for so many members.
    pub(crate) fn new(seed: u64, members: u64) -> Schedule {
        let mut random = SeededRandom::from_seed(seed);
        let mut steps = Vec::new();
        let mut begins = Duration::from_millis(300);
        while begins < LENGTH {
            let who = match random.below(2) {
                0 => FaultTarget::Primary,
                _ => FaultTarget::Member(usize::try_from(random.below(members)).unwrap()),
            };
            let fault = FAULTS[usize::try_from(random.below(5)).unwrap()];
            let lasts = Duration::from_millis(match random.below(3) {
                // Too short to be noticed, long enough for an election, and longer than that.
                0 => 50 + random.below(600),
                1 => 1200 + random.below(1500),
                _ => 2500 + random.below(3500),
            });
            steps.push(Step { begins, ends: begins + lasts, who, fault });
            begins += Duration::from_millis(400 + random.below(2600));
        }
        Schedule { seed, steps }
    }

    /// Whether a member is killed in it.
    pub(crate) fn kills(&self) -> bool {
        self.steps.iter().any(|step| step.fault == Fault::Kill)
    }
}

#[test]
fn a_seed_gives_one_schedule_and_another_seed_another_one() {
    let text = |seed| format!("{:?}", Schedule::new(seed, 3).steps);
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    let all: Vec<Fault> =
        (0..20).flat_map(|seed| Schedule::new(seed, 3).steps).map(|step| step.fault).collect();
    assert!(FAULTS.iter().all(|fault| all.contains(fault)));
}
