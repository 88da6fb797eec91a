//! The specification of a disk probe.

use std::path::{Path, PathBuf};

use fathom_probe::judge::DatasetSize;
use fathom_probe::{
    IoEngine, Job, LadderPlan, Pace, Pattern, Permits, Slo, SustainPlan, TargetNeeds, WindowPlan,
};
use fathom_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The free space above which a quick probe takes a file of [`QUICK_SIZE`].
const QUICK_SIZE_FREE: Bytes = Bytes::gib(2);
const QUICK_SIZE: Bytes = Bytes::mib(256);

/// A probe of a disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeSpec {
    /// The directory for the test file, or a block device.
    pub dir: PathBuf,
    /// The size of the test file; a quarter of the free space up to 2 GiB if absent.
    pub size: Option<Bytes>,
    /// True if the page cache is bypassed.
    pub is_direct: bool,
    /// The user's permissions: unusual file systems, and a device that may be overwritten.
    pub permits: Permits,
    /// True if every block is stamped and checked.
    pub is_verified: bool,
    /// True if the test file is kept.
    pub keeps_file: bool,
    /// The seed of its random streams.
    pub seed: u64,
    /// The documents in the sentences about the disk.
    pub documents: DatasetSize,
    /// The time limit for the layout of the file. Unlimited if absent.
    pub layout_budget: Option<Nanos>,
    /// The jobs to run on the file.
    pub plan: ProbePlan,
}

/// The jobs of a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ProbePlan {
    /// All access patterns of mongod, one after another.
    Profile(Pace, IoEngine),
    /// One pattern at rising depths.
    Ladder(LadderPlan),
    /// One pattern at one depth or rate.
    Window(WindowPlan),
    /// One pattern at its knee, until its sustained rate is known.
    Sustain(SustainPlan),
    /// The highest rate of a job that holds an objective, in steps of a length.
    Objective(Job, Slo, Nanos),
}

impl ProbeSpec {
    /// A probe through `O_DIRECT` that leaves nothing behind.
    pub fn new(dir: &Path, plan: ProbePlan) -> ProbeSpec {
        ProbeSpec {
            dir: dir.to_owned(),
            size: None,
            is_direct: true,
            permits: Permits::default(),
            is_verified: false,
            keeps_file: false,
            seed: 0,
            documents: DatasetSize::default(),
            layout_budget: None,
            plan,
        }
    }

    /// The size of the file for a quick probe. None for a full probe or with little free space, when the default applies.
    pub fn size_for(dir: &Path, pace: Pace) -> Option<Bytes> {
        let system = rustix::fs::statvfs(dir).ok()?;
        let free = Bytes(system.f_bavail.saturating_mul(system.f_frsize));
        (pace == Pace::Quick && free > QUICK_SIZE_FREE).then_some(QUICK_SIZE)
    }

    /// The time limit for the layout at a pace, for a file of default size.
    pub fn layout_budget_for(pace: Pace) -> Nanos {
        match pace {
            Pace::Quick => Nanos::secs(4),
            Pace::Full => Nanos::secs(30),
        }
    }
}

impl ProbePlan {
    pub(crate) fn needs(&self) -> TargetNeeds {
        let of = |jobs: &[Job]| TargetNeeds {
            writes: jobs.iter().any(|job| job.pattern.writes()),
            journal: jobs.iter().any(|job| job.pattern == Pattern::Append),
        };
        match self {
            ProbePlan::Profile(..) => TargetNeeds { writes: true, journal: true },
            ProbePlan::Ladder(ladder) => of(std::slice::from_ref(&ladder.job)),
            ProbePlan::Window(window) => of(&window.jobs),
            ProbePlan::Sustain(sustain) => of(std::slice::from_ref(&sustain.job)),
            ProbePlan::Objective(job, ..) => of(std::slice::from_ref(job)),
        }
    }

    /// The user's jobs at their largest depth. Empty for a profile, which has its own jobs.
    pub(crate) fn named_jobs(&self) -> Vec<Job> {
        match self {
            ProbePlan::Profile(..) => Vec::new(),
            ProbePlan::Ladder(ladder) => {
                let depth = if ladder.complete { ladder.depth_max } else { ladder.depth_min };
                vec![Job { depth, ..ladder.job.clone() }]
            }
            ProbePlan::Window(window) => window.jobs.clone(),
            ProbePlan::Sustain(sustain) => vec![sustain.job.clone()],
            ProbePlan::Objective(job, ..) => vec![job.clone()],
        }
    }
}
