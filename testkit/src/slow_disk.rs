//! A disk of a known speed: each request takes a fixed time, and a fixed number are served in parallel. It may have a token bucket in front.
//!
//! It is a loop device on a file in our own file system (FUSE), whose threads sleep before they read or write. The kernel
//! therefore sees a device of that latency and parallelism, whatever the machine's real disk does. The data is in memory.
//! The disk is slow, and is only for tests of judgement.

use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fathom_errors::{Error, Kind, Result};
use fathom_host::DeviceNumber;
use fathom_process::{Guard, Ledger, Resource};
use fathom_storage::{Filesystem, FilesystemOptions, LoopDevice, LoopOptions, MountGuard, format_and_mount};
use fathom_units::Bytes;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::thread::set_current_timer_slack;

use crate::scratch::{Scratch, fixture_ledger, root_fixture};
use crate::skip::Need;
use crate::token_bucket::{Allowance, TokenBucket};

/// The speed of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// The time of each request.
    pub service: Duration,
    /// The number of requests served in parallel.
    pub parallel: usize,
}

/// A mounted file system on a loop device of a known speed.
#[derive(Debug)]
pub struct SlowDisk {
    // Taken down in this order.
    mounted: MountGuard,
    device: LoopDevice,
    _session: BackgroundSession,
    _fuse: Guard,
    _folder: Guard,
    service_us: Arc<AtomicU64>,
    bucket: SharedBucket,
    ledger: Ledger,
    _scratch: Scratch,
}

impl SlowDisk {
    /// A new, empty one. The test ends as skipped if this machine does not support it.
    #[track_caller]
    pub fn new(filesystem: Filesystem, size: Bytes, speed: Speed) -> SlowDisk {
        root_fixture(Need::Disk, || SlowDisk::make(filesystem, size, speed))
    }

    /// The same outside a test, for the bench.
    ///
    /// # Errors If this machine does not support it.
    pub fn make(filesystem: Filesystem, size: Bytes, speed: Speed) -> Result<SlowDisk> {
        let scratch = Scratch::new()?;
        let ledger: Ledger = fixture_ledger()?;
        let path: PathBuf = scratch.path().join(ledger.unique_name() + ".slow");
        let folder = ledger.create_directory(&path)?.guard();
        let fuse = ledger.will_make(Resource::mount(&path, SOURCE))?.guard();
        // In memory: a file on a real disk would be written back meanwhile, and some requests would wait for that.
        let bytes = memfd_create(SOURCE, MemfdFlags::CLOEXEC)
            .map_err(|e| Error::new(Kind::Io, "cannot have a file in memory").because(e))?;
        let bytes = File::from(bytes);
        let service_us = Arc::new(AtomicU64::new(0));
        let bucket = SharedBucket::default();
        let file_system = SlowFile::start(bytes, &service_us, &bucket, speed.parallel);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(SOURCE.to_owned())];
        let session = fuser::spawn_mount(file_system, &path, &config)
            .map_err(|e| Error::io("mount FUSE at", &path, e))?;
        let device = LoopDevice::create(&ledger, &path, size, LoopOptions::default())?;
        // The mount point cannot lie in a folder that holds one file.
        let options = FilesystemOptions { beside: Some(scratch.path()), ..FilesystemOptions::default() };
        let mounted = format_and_mount(&ledger, &device, filesystem, &options)?;
        let disk = SlowDisk {
            mounted,
            device,
            _session: session,
            _fuse: fuse,
            _folder: folder,
            service_us,
            bucket,
            ledger,
            _scratch: scratch,
        };
        // Up to here the disk had no delay.
        disk.set_service(speed.service);
        Ok(disk)
    }

    /// The top folder of the file system.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// The kernel's name, `loopN`.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// Its number, for caps on it.
    pub fn device_number(&self) -> DeviceNumber {
        self.device.number()
    }

    /// The ledger that records it, for caps on it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Sets the time of each request from now on.
    pub fn set_service(&self, service: Duration) {
        self.service_us.store(u64::try_from(service.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Puts a full bucket of this size in front of it, or removes the bucket. A disk without delay has none.
    pub fn set_allowance(&self, allowance: Option<Allowance>) {
        if let Ok(mut bucket) = self.bucket.lock() {
            *bucket = allowance.map(TokenBucket::new);
        }
    }
}

const SOURCE: &str = "fathom-slow-disk";
const ENTRY_LIFETIME: Duration = Duration::from_secs(3600);
const FILE: INodeNo = INodeNo(2);

type Job = Box<dyn FnOnce() + Send>;
type SharedBucket = Arc<Mutex<Option<TokenBucket>>>;

/// A request with its time of arrival.
type QueuedJob = (Instant, Job);

/// A folder with at most one file, whose reads and writes are slow.
struct SlowFile {
    bytes: Arc<File>,
    /// The name of the file, if it exists.
    name: Mutex<Option<std::ffi::OsString>>,
    service_us: Arc<AtomicU64>,
    jobs: Sender<QueuedJob>,
}

impl SlowFile {
    fn start(bytes: File, service_us: &Arc<AtomicU64>, bucket: &SharedBucket, parallel: usize) -> SlowFile {
        let (jobs, waiting) = channel::<QueuedJob>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..parallel.max(1) {
            let (waiting, service_us) = (Arc::clone(&waiting), Arc::clone(service_us));
            let bucket = Arc::clone(bucket);
            thread::spawn(move || {
                // Otherwise the kernel lets a thread sleep 50 us longer.
                let _ = set_current_timer_slack(NonZeroU64::new(1));
                let mut free = Instant::now();
                loop {
                    let job = waiting.lock().ok().and_then(|waiting| waiting.recv().ok());
                    let Some((coming, job)) = job else { return };
                    // A request that was waiting begins when the previous one ended, not when this thread woke up: otherwise each
                    // would take longer by the wake-up.
                    let mut begin = free.max(coming);
                    if let Ok(Some(bucket)) = bucket.lock().as_deref_mut() {
                        begin = bucket.take(begin);
                    }
                    free = begin + Duration::from_micros(service_us.load(Ordering::Relaxed));
                    thread::sleep(free.saturating_duration_since(Instant::now()));
                    job();
                }
            });
        }
        SlowFile { bytes: Arc::new(bytes), name: Mutex::new(None), service_us: Arc::clone(service_us), jobs }
    }

    /// Hands a request to a thread that waits first; without a delay the request is served at once, which saves two thread switches.
    fn serve(&self, job: impl FnOnce() + Send + 'static) {
        match self.service_us.load(Ordering::Relaxed) {
            0 => job(),
            _ => {
                let _ = self.jobs.send((Instant::now(), Box::new(job)));
            }
        }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let size = self.bytes.metadata().map_or(0, |metadata| metadata.len());
        let is_file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if is_file { size } else { 0 },
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn is_there(&self, name: &OsStr) -> bool {
        self.name.lock().is_ok_and(|held| held.as_deref() == Some(name))
    }
}

impl fuser::Filesystem for SlowFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // The number of requests that the kernel allows in flight; more than any test's queue.
        let _ = config.set_max_background(1024);
        let _ = config.set_congestion_threshold(1024);
        // Without these the kernel waits for each request of the loop device before it sends the next.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.is_there(name) {
            reply.entry(&ENTRY_LIFETIME, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.attributes(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size.map_or(Ok(()), |size| self.bytes.set_len(size)) {
            Ok(()) => reply.attr(&Duration::ZERO, &self.attributes(inode)),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        if let Ok(mut held) = self.name.lock() {
            *held = Some(name.to_owned());
        }
        let attributes = self.attributes(FILE);
        reply.created(
            &ENTRY_LIFETIME,
            &attributes,
            Generation(0),
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO,
        );
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        if let Ok(mut held) = self.name.lock() {
            *held = None;
        }
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = Arc::clone(&self.bytes);
        self.serve(move || {
            let mut buffer = vec![0; size as usize];
            match bytes.read_at(&mut buffer, offset) {
                Ok(length) => reply.data(buffer.get(..length).unwrap_or_default()),
                Err(_) => reply.error(Errno::EIO),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (bytes, data) = (Arc::clone(&self.bytes), data.to_vec());
        self.serve(move || match bytes.write_all_at(&data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(0)),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A cache that outlives a power cut: a flush costs what a request does.
        self.serve(move || reply.ok());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::{assert, test};

    #[test]
    fn requests_are_served_in_parallel_up_to_a_number() {
        let service_us = Arc::new(AtomicU64::new(1));
        let bytes = File::from(memfd_create(SOURCE, MemfdFlags::CLOEXEC).unwrap());
        let file = SlowFile::start(bytes, &service_us, &SharedBucket::default(), 8);
        let (begun, release) = (Arc::new(Barrier::new(9)), Arc::new(Barrier::new(9)));
        for _ in 0..8 {
            let (begun, release) = (Arc::clone(&begun), Arc::clone(&release));
            file.serve(move || {
                begun.wait();
                release.wait();
            });
        }
        begun.wait();
        let (is_served, (done, waiting)) = (Arc::new(AtomicBool::new(false)), channel());
        let ninth = Arc::clone(&is_served);
        file.serve(move || {
            ninth.store(true, Ordering::Relaxed);
            done.send(()).unwrap();
        });
        // All eight threads are inside a request.
        assert!(!is_served.load(Ordering::Relaxed), "a ninth request is served beside eight");
        release.wait();
        waiting.recv().unwrap();
    }

    /// The time that a read of a block in no cache takes.
    fn read_time(device: &Path, offset: u64) -> Duration {
        let file = File::open(device).unwrap();
        let begun = Instant::now();
        file.read_exact_at(&mut [0; 512], offset).unwrap();
        begun.elapsed()
    }

    #[test]
    fn a_request_takes_at_least_its_service_time() {
        let speed = Speed { service: Duration::from_millis(5), parallel: 8 };
        let disk = SlowDisk::new(Filesystem::Ext4, Bytes(64 << 20), speed);
        let device = PathBuf::from("/dev").join(disk.device_name());
        disk.set_service(Duration::from_millis(50));
        let slow = read_time(&device, 40 << 20);
        assert!(slow >= Duration::from_millis(50), "{slow:?}");
        disk.set_service(Duration::ZERO);
    }
}
