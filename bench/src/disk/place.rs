//! The places in which the programs are compared: a folder on the disk, and an ext4 on a loop device whose file is in memory.
//!
//! The disk shows the performance that users see; the loop device has no disk noise and shows the cost of the programs
//! themselves. All resources are recorded in the ledger first, undone at the end, and left to `fathom cleanup` after a crash.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use fathom_process::{Guard, Identity, Ledger, Resource, Signals};
use fathom_storage::{Filesystem, FilesystemOptions, LoopDevice, LoopOptions, MountGuard, format_and_mount};
use fathom_units::Bytes;
use rustix::fs::{FallocateFlags, fallocate, statfs};

use super::options::DiskBenchOptions;
use super::program::{FATHOM_DATA, FIO_DATA, FIO_JOURNAL, ProgramPaths, document, fio_job};
use super::shape::BenchShape;
use super::watch::ChildProgram;

/// The memory file system that Linux provides to all users (POSIX shared memory, shm_overview(7)).
const MEMORY: &str = "/dev/shm";
/// The file system number of tmpfs (statfs(2)).
const TMPFS: u64 = 0x0102_1994;
/// Size of the loop device: the three files, and room for ext4 itself.
const LOOP_SIZE: Bytes = Bytes::gib(2);

/// A folder to compare in, with the files in it.
pub(super) struct TestLocation {
    /// `disk` or `loop`, as in reports.
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) dir: PathBuf,
    /// Size of each file.
    pub(super) size: Bytes,
    /// The length of a run here.
    pub(super) seconds: u64,
    // Undone in this order.
    files: Vec<Guard>,
    folder: Option<Guard>,
    mounted: Option<MountGuard>,
    device: Option<LoopDevice>,
}

impl TestLocation {
    /// A new folder in `BENCH_DIR`, or in the tree's target folder.
    pub(super) fn on_disk(root: &Path, options: &DiskBenchOptions, ledger: &Ledger) -> Result<TestLocation> {
        let parent = options.dir.clone().unwrap_or_else(|| root.join("target"));
        if options.dir.is_none() {
            fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        let parent =
            fs::canonicalize(&parent).with_context(|| format!("cannot open {}", parent.display()))?;
        let dir = parent.join(ledger.unique_name());
        let folder = Some(ledger.create_directory(&dir)?.guard());
        let (size, seconds) = (Bytes::gib(1), options.seconds);
        let what = String::from("the disk");
        Ok(TestLocation {
            name: "disk",
            what,
            dir,
            size,
            seconds,
            files: Vec::new(),
            folder,
            mounted: None,
            device: None,
        })
    }

    /// An ext4 on a loop device in memory. Needs root. Without disk noise two thirds of the time are enough.
    pub(super) fn in_memory(options: &DiskBenchOptions, ledger: &Ledger) -> Result<TestLocation> {
        let folder = Path::new(MEMORY);
        let found = statfs(folder).with_context(|| format!("cannot look at {MEMORY}"))?;
        if found.f_type as u64 != TMPFS || found.f_bavail * (found.f_bsize as u64) < LOOP_SIZE.get() {
            bail!("{MEMORY} is no tmpfs with {LOOP_SIZE} free");
        }
        let direct = LoopOptions { direct_io: true, ..LoopOptions::default() };
        // tmpfs takes O_DIRECT since Linux 6.6; before, its pages are reached through the page cache's functions.
        let device = LoopDevice::create(ledger, folder, LOOP_SIZE, direct).or_else(|_| {
            let buffered = LoopOptions { direct_io: false, ..direct };
            LoopDevice::create(ledger, folder, LOOP_SIZE, buffered)
        })?;
        let dio = fs::read_to_string(format!("/sys/block/{}/loop/dio", device.name())).unwrap_or_default();
        let mounted = format_and_mount(ledger, &device, Filesystem::Ext4, &FilesystemOptions::default())?;
        let seconds = (options.seconds * 2 / 3).max(1);
        Ok(TestLocation {
            name: "loop",
            what: format!(
                "a loop device on tmpfs (direct-io {})",
                if dio.trim() == "1" { "on" } else { "off" }
            ),
            dir: mounted.path().to_owned(),
            size: Bytes::mib(512),
            seconds,
            files: Vec::new(),
            folder: None,
            mounted: Some(mounted),
            device: Some(device),
        })
    }

    /// Writes the files that both programs then work on: ours, and fio's own of the same size. fio's files are made
    /// only if `writes` is set.
    pub(super) fn lay_out(
        &mut self,
        programs: &ProgramPaths,
        ledger: &Ledger,
        signals: &Signals,
        writes: bool,
    ) -> Result<()> {
        let path = self.dir.join(FATHOM_DATA);
        let mut entry = ledger.will_make(Resource::file(&path))?;
        let [shape, ..] = BenchShape::ALL;
        let said = run(programs.fathom(self, shape, "100ms"), &[0, 1], signals).context("fathom disk")?;
        entry.made_as(Resource::File { identity: Some(Identity::at(&path)?), path })?;
        self.files.push(entry.guard());
        let said = document(&said)?;
        let subject = &said["results"][0];
        let on = subject["device"].as_str().unwrap_or("an unknown device");
        self.what = format!("{}, {} on {on}", self.what, subject["file_system"].as_str().unwrap_or("?"));
        if !writes {
            return Ok(());
        }
        for name in [FIO_DATA, FIO_JOURNAL] {
            let (_, entry) = ledger.create_file(&self.dir.join(name))?;
            self.files.push(entry.guard());
            // fio would remove a file that is too short and create another one, which this program could not identify for removal.
            self.reserve(name)?;
        }
        let mut command = fio_job(&self.dir.join(FIO_DATA), self.size.get());
        command.args(["--rw=write", "--bs=1M", "--ioengine=psync", "--refill_buffers=1", "--end_fsync=1"]);
        run(command, &[0], signals).context("fio, laying out its file")?;
        Ok(())
    }

    /// Gives fio's append file the state in which ours begins each run: room reserved, nothing written. It is
    /// larger than ours so that fio never reaches blocks again that it has written already; our own program pays the
    /// cost of starting over.
    pub(super) fn empty_fio_journal(&self) -> Result<()> {
        self.reserve(FIO_JOURNAL)
    }

    /// Empties a file and reserves its room again.
    fn reserve(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        let reserve = || -> std::io::Result<()> {
            let file = File::options().write(true).open(&path)?;
            file.set_len(0)?;
            fallocate(&file, FallocateFlags::empty(), 0, self.size.get())?;
            file.sync_all()
        };
        reserve().with_context(|| format!("cannot reserve room for {}", path.display()))
    }

    /// Removes all that was made.
    pub(super) fn undo(self) -> Result<()> {
        let TestLocation { files, folder, mounted, device, .. } = self;
        let mut first = Ok(());
        for guard in files.into_iter().chain(folder) {
            first = first.and(guard.undo());
        }
        // A failure must not prevent the remaining steps.
        first = first.and(mounted.map_or(Ok(()), MountGuard::undo));
        first = first.and(device.map_or(Ok(()), LoopDevice::undo));
        first.map_err(|error| anyhow!(error).context("not all could be taken away; run 'fathom cleanup'"))
    }
}

/// Runs a program that is not measured, to its end.
fn run(command: Command, fine: &[i32], signals: &Signals) -> Result<String> {
    // Laying out a file on a slow disk takes minutes.
    Ok(ChildProgram::start(command, 600, signals)?.finish(fine)?.0)
}
