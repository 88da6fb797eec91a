//! Kills a process with SIGKILL in set-up, use and tear-down, at numbered changes of its undo journal or at random times, then runs
//! `fathom cleanup`: nothing of ours is left, and nothing foreign is touched.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fathom_process::ledger::{CleanupOutcome, undo_dead_in};
use fathom_process::{Ledger, ProcessId, Resource, signatures};
use fathom_storage::{
    Array, ArrayKind, Base, Cap, CapLimits, Filesystem, LoopDevice, QueueSettings, TargetSpec,
};
use fathom_testkit::{TIMEOUT, assert, assert_eq, leftovers, test};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::process::{Signal, getpid, kill_process};

use crate::disk::{joined, on_disk, settings};
use crate::{TargetFolder, loops, use_it};

/// Passes the helper process its folder, the kind of target, the two disks that it may borrow, and the point at which it ends.
const PLACE: &str = "FATHOM_TEST_KILLED_PLACE";
const KIND: &str = "FATHOM_TEST_KILLED_KIND";
const DISKS: &str = "FATHOM_TEST_KILLED_DISKS";
const POINT: &str = "FATHOM_TEST_KILLED_POINT";

/// The points before and after changes of the undo journal that this process has passed.
static PASSED: AtomicU64 = AtomicU64::new(0);

/// The target that is built repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Loop,
    Btrfs,
    Disk,
    Folder,
    Md,
    Lvm,
    BtrfsDisks,
    MdDisks,
    LvmDisks,
}

const KINDS: [Kind; 9] = [
    Kind::Loop,
    Kind::Btrfs,
    Kind::Disk,
    Kind::Folder,
    Kind::Md,
    Kind::Lvm,
    Kind::BtrfsDisks,
    Kind::MdDisks,
    Kind::LvmDisks,
];

fn spec(kind: Kind, place: &Path, disks: &[PathBuf; 2]) -> TargetSpec {
    let queue = QueueSettings {
        read_ahead_kib: Some(16),
        scheduler: Some("mq-deadline".into()),
        nr_requests: Some(40),
    };
    let array = |kind, chunk_kib| Some(Array { kind, chunk_kib });
    let target = match kind {
        Kind::Loop => TargetSpec { queue, ..loops(place, 1, 16, Filesystem::Ext4) },
        Kind::Btrfs => TargetSpec {
            array: array(ArrayKind::BtrfsRaid0, None),
            queue: QueueSettings { read_ahead_kib: Some(16), ..Default::default() },
            ..loops(place, 2, 128, Filesystem::Btrfs)
        },
        Kind::Disk => on_disk(&disks[0], place),
        Kind::Folder => TargetSpec::new(Base::Directory(place.to_owned())),
        Kind::Md => {
            TargetSpec { array: array(ArrayKind::MdRaid0, Some(64)), ..loops(place, 2, 32, Filesystem::Ext4) }
        }
        Kind::Lvm => TargetSpec {
            array: array(ArrayKind::LvmStriped, Some(64)),
            ..loops(place, 2, 32, Filesystem::Ext4)
        },
        Kind::BtrfsDisks => joined(ArrayKind::BtrfsRaid0, Filesystem::Btrfs, disks, place),
        Kind::MdDisks => joined(ArrayKind::MdRaid0, Filesystem::Ext4, disks, place),
        Kind::LvmDisks => joined(ArrayKind::LvmStriped, Filesystem::Ext4, disks, place),
    };
    TargetSpec { cap: Some(CapLimits::iops(100_000)), ..target }
}

/// Set-up, use by this and another process, tear-down.
fn cycle(ledger: &Ledger, spec: &TargetSpec) {
    let target = spec.prepare(ledger).unwrap();
    // The process ends by itself with its parent, even if the parent dies before it is recorded.
    let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let noted = ledger.will_make(Resource::process(process.id()).unwrap()).unwrap();
    target.adopt_process(process.id()).unwrap();
    use_it(target.path());
    noted.undo().unwrap();
    process.wait().unwrap();
    target.undo().unwrap();
}

/// Counts a point; kills this process at the one that it was given.
fn pass() {
    let point = PASSED.fetch_add(1, Ordering::Relaxed);
    if std::env::var(POINT).is_ok_and(|last| last.parse() == Ok(point)) {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

/// Not a test of its own: builds and takes down targets without end, until it is killed.
#[test]
#[ignore = "the helper process of the other tests here"]
fn helper_process() {
    let place = PathBuf::from(std::env::var_os(PLACE).expect("only another test runs this"));
    let kind = KINDS[std::env::var(KIND).unwrap().parse::<usize>().unwrap()];
    let disks = std::env::var(DISKS).unwrap();
    let disks = disks.split_once(' ').map(|(first, second)| [first.into(), second.into()]).unwrap();
    let ledger = Ledger::open_observed(&place.join("state"), pass).unwrap();
    let spec = spec(kind, &place, &disks);
    fs::write(place.join("begun"), "").unwrap();
    let start = Instant::now();
    // A bound, in case the killer has died itself.
    while start.elapsed() < Duration::from_secs(600) {
        cycle(&ledger, &spec);
    }
}

/// A running helper; killed and awaited when this is dropped.
struct Helper(Child);

impl Helper {
    fn command(kind: Kind, place: &Path, disks: &[PathBuf; 2]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "killed::helper_process", "--ignored", "--nocapture"])
            .env(PLACE, place)
            .env(KIND, (kind as usize).to_string())
            .env(DISKS, format!("{} {}", disks[0].display(), disks[1].display()))
            .stdout(Stdio::null());
        command
    }

    /// The number of a helper that has killed itself at a point.
    fn killed(kind: Kind, place: &Path, disks: &[PathBuf; 2], point: u64) -> u32 {
        let mut child = Helper::command(kind, place, disks).env(POINT, point.to_string()).spawn().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{kind:?} at point {point}: {status}");
        child.id()
    }

    fn start(kind: Kind, place: &Path, disks: &[PathBuf; 2]) -> Helper {
        let begun = place.join("begun");
        let _ = fs::remove_file(&begun);
        let mut helper = Helper(Helper::command(kind, place, disks).spawn().unwrap());
        let start = Instant::now();
        while !begun.exists() {
            assert!(helper.0.try_wait().unwrap().is_none(), "the helper ended");
            assert!(start.elapsed() < TIMEOUT, "the helper hangs");
            thread::sleep(Duration::from_millis(2));
        }
        helper
    }

    /// Sends SIGKILL to the helper alone and returns its number; processes that it had started continue.
    fn kill(mut self) -> u32 {
        assert!(self.0.try_wait().unwrap().is_none(), "the helper ended by itself");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        self.0.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cleans up once more after a failure, since the folder is removed with the test.
struct CleanupGuard(PathBuf);

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        let _ = undo_dead_in(&self.0);
    }
}

/// Resources that are not ours, in the midst of ours: two disks, a mounted file system, a group and a file.
struct ForeignResources {
    cap: Cap,
    mounted: fathom_storage::MountGuard,
    second: LoopDevice,
    /// Loop devices that serve as disks, if no disks of the machine were lent.
    made: Vec<LoopDevice>,
    disks: [PathBuf; 2],
    settings: [[Option<String>; 3]; 2],
    file: PathBuf,
}

impl ForeignResources {
    fn make(theirs: &TargetFolder, ours: &Path, lent: Option<[PathBuf; 2]>) -> ForeignResources {
        let made = if lent.is_some() { Vec::new() } else { vec![theirs.disk(128), theirs.disk(128)] };
        let disks = lent.unwrap_or_else(|| [0, 1].map(|at: usize| made[at].path().to_owned()));
        let second = theirs.disk(32);
        let options = Default::default();
        let mounted =
            fathom_storage::format_and_mount(&theirs.ledger, &second, Filesystem::Ext4, &options).unwrap();
        fs::write(mounted.path().join("theirs"), "theirs").unwrap();
        let cap = Cap::new(&theirs.ledger, second.number(), CapLimits::iops(1000)).unwrap();
        let file = ours.join("theirs");
        fs::write(&file, "theirs").unwrap();
        let settings = disks.each_ref().map(|disk| settings(&kernel_name(disk)));
        ForeignResources { cap, mounted, second, made, disks, settings, file }
    }

    fn assert_untouched(&self) {
        for (disk, before) in self.disks.iter().zip(&self.settings) {
            assert_eq!(settings(&kernel_name(disk)), *before);
            assert_eq!(signatures(disk).unwrap(), [], "{} was not given back empty", disk.display());
        }
        assert_eq!(fs::read_to_string(self.mounted.path().join("theirs")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&self.file).unwrap(), "theirs");
        assert!(self.cap.path().exists());
        assert!(Path::new("/sys/block").join(self.second.name()).join("loop").exists());
    }
}

fn kernel_name(disk: &Path) -> String {
    disk.file_name().unwrap().to_string_lossy().into_owned()
}

/// The folder in which targets are built, and the foreign resources in their midst.
struct Ground {
    // Taken down in this order.
    foreign: ForeignResources,
    _swept: CleanupGuard,
    theirs: TargetFolder,
    place: TargetFolder,
}

impl Ground {
    fn new(lent: Option<[PathBuf; 2]>) -> Ground {
        let (place, theirs) = (TargetFolder::new(), TargetFolder::new());
        let none = [PathBuf::new(), PathBuf::new()];
        // Skipped without a block throttle: the caps that are part of every target here cannot be made then.
        drop(theirs.prepare(&spec(Kind::Loop, &place.path(), &none)));
        let folder = place.path();
        let foreign = ForeignResources::make(&theirs, &folder, lent);
        Ground { _swept: CleanupGuard(folder.join("state")), place, theirs, foreign }
    }

    /// Cleans up after a killed helper, and returns the number of things undone.
    fn clean_up(&self, pid: u32, context: &str) -> usize {
        let folder = self.place.path();
        let outcomes = undo_dead_in(&folder.join("state")).unwrap();
        for outcome in &outcomes {
            assert!(!matches!(outcome.fate, CleanupOutcome::Kept(_)), "{context}: {outcome:?}");
        }
        assert_eq!(leftovers(&folder, Some(pid)).unwrap(), Vec::<String>::new(), "{context}");
        for outcome in &outcomes {
            if let Resource::Process(id) = outcome.found.thing {
                assert!(!ProcessId::lives(id), "{context}");
            }
        }
        self.foreign.assert_untouched();
        outcomes.iter().filter(|outcome| matches!(outcome.fate, CleanupOutcome::Undone)).count()
    }

    fn end(self) {
        let ForeignResources { cap, mounted, second, made, .. } = self.foreign;
        cap.lift().unwrap();
        mounted.undo().unwrap();
        second.undo().unwrap();
        for disk in made {
            disk.undo().unwrap();
        }
        self.theirs.assert_empty();
    }
}

/// Kills the helper at `points` random moments of a cycle, the kinds in turn, and cleans up after each. Disks of the machine
/// may be lent for it; otherwise loop devices take their place.
pub(crate) fn kill_at(points: u32, kinds: &[Kind], seed: u64, lent: Option<[PathBuf; 2]>) {
    let ground = Ground::new(lent);
    let (folder, disks) = (ground.place.path(), &ground.foreign.disks);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let lengths: Vec<Duration> = kinds
        .iter()
        .map(|&kind| {
            let start = Instant::now();
            cycle(&ground.place.ledger, &spec(kind, &folder, disks));
            start.elapsed()
        })
        .collect();
    let (mut undone, mut owing) = (0, 0);
    for point in 0..points {
        let which = point as usize % kinds.len();
        let helper = Helper::start(kinds[which], &folder, disks);
        // Slightly more than one cycle, so that its very end is hit too.
        let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * 1.1;
        thread::sleep(lengths[which].mul_f64(share));
        let pid = helper.kill();
        let context = format!("point {point} of seed {seed}: {:?} after {share:.3} of a cycle", kinds[which]);
        let count = ground.clean_up(pid, &context);
        undone += count;
        owing += u32::from(count > 0);
    }
    println!("{points} kills; {owing} of them left something, {undone} things undone");
    // The other kills hit before the first step or after the last.
    assert!(owing * 3 >= points, "a third of the kills at least should meet a target half-way");
    ground.end();
}

/// Kills the helper at `points` points of a cycle, evenly spread, and cleans up after each.
fn kill_at_changes(kind: Kind, points: u64) {
    let ground = Ground::new(None);
    let (folder, disks) = (ground.place.path(), &ground.foreign.disks);
    // This process passes the same points.
    let ledger = Ledger::open_observed(&folder.join("state"), pass).unwrap();
    let before = PASSED.load(Ordering::Relaxed);
    cycle(&ledger, &spec(kind, &folder, disks));
    let all = PASSED.load(Ordering::Relaxed) - before;
    assert!(all >= points, "{kind:?} has {all} points");
    let (mut undone, mut owing) = (0, 0);
    for number in 0..points {
        let point = number * (all - 1) / (points - 1);
        let pid = Helper::killed(kind, &folder, disks, point);
        let count = ground.clean_up(pid, &format!("{kind:?} at point {point} of {all}"));
        undone += count;
        owing += u64::from(count > 0);
    }
    println!("{kind:?}: {owing} of {points} kills left something, {undone} things undone");
    // Before the first record and after the last nothing is.
    assert!(owing * 2 >= points, "half of the kills at least should meet a target half-way");
    ground.end();
}

#[test]
fn a_loop_device_is_cleaned_up_after_a_kill_at_any_change_of_the_journal() {
    kill_at_changes(Kind::Loop, 12);
}

#[test]
fn a_striped_btrfs_is_cleaned_up_after_a_kill_at_any_change_of_the_journal() {
    kill_at_changes(Kind::Btrfs, 8);
    kill_at_changes(Kind::BtrfsDisks, 8);
}

#[test]
fn a_disk_is_cleaned_up_after_a_kill_at_any_change_of_the_journal() {
    kill_at_changes(Kind::Disk, 12);
}

#[test]
fn a_folder_is_cleaned_up_after_a_kill_at_any_change_of_the_journal() {
    kill_at_changes(Kind::Folder, 17);
}

mod proof {
    use fathom_testkit::test;

    use super::*;

    #[test]
    fn after_kill_9_at_each_of_50_points_nothing_is_left_and_nothing_foreign_touched() {
        kill_at(50, &[Kind::Loop, Kind::Btrfs, Kind::Disk, Kind::Folder, Kind::BtrfsDisks], 8, None);
    }
}
