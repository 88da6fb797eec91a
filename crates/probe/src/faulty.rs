//! An in-memory disk that fails on demand, for faults that no real disk produces on request.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::file::BlockFile;
use crate::tracks::lock;

/// The fault, and when it occurs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DiskFault {
    None,
    /// The n-th read fails with EIO.
    ReadError(u64),
    /// Writes from the n-th on fail with ENOSPC.
    Full(u64),
    /// Every n-th write is acknowledged but not executed.
    LostWrite(u64),
    /// Every n-th write is only half executed.
    TornWrite(u64),
    /// Every n-th write lands one block further.
    MisplacedWrite(u64),
    /// The n-th sync fails with EIO.
    SyncError(u64),
    /// The n-th read takes this long, and all that arrive in the meantime wait.
    Stall(u64, Duration),
}

pub(crate) struct FaultyFile {
    bytes: Mutex<Vec<u8>>,
    fault: DiskFault,
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl FaultyFile {
    pub(crate) fn new(bytes: Vec<u8>, fault: DiskFault) -> Self {
        let zero = AtomicU64::default;
        FaultyFile { bytes: Mutex::new(bytes), fault, reads: zero(), writes: zero(), syncs: zero() }
    }

    /// The reads, writes and syncs that have begun.
    pub(crate) fn begun(&self) -> u64 {
        [&self.reads, &self.writes, &self.syncs].map(|counter| counter.load(Ordering::Relaxed)).iter().sum()
    }

    fn store(&self, block: &[u8], offset: u64) {
        let at = usize::try_from(offset).unwrap();
        let mut bytes = lock(&self.bytes);
        if bytes.len() < at + block.len() {
            bytes.resize(at + block.len(), 0);
        }
        bytes[at..at + block.len()].copy_from_slice(block);
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl BlockFile for FaultyFile {
    fn read_at(&self, block: &mut [u8], offset: u64) -> io::Result<()> {
        let nth = count(&self.reads);
        let bytes = lock(&self.bytes);
        match self.fault {
            DiskFault::ReadError(n) if nth == n => return Err(error(libc::EIO)),
            DiskFault::Stall(n, time) if nth == n => std::thread::sleep(time),
            _ => {}
        }
        let at = usize::try_from(offset).unwrap();
        block.copy_from_slice(&bytes[at..at + block.len()]);
        Ok(())
    }

    fn write_at(&self, block: &[u8], offset: u64) -> io::Result<()> {
        let nth = count(&self.writes);
        match self.fault {
            DiskFault::Full(n) if nth >= n => return Err(error(libc::ENOSPC)),
            DiskFault::LostWrite(n) if nth.is_multiple_of(n) => {}
            DiskFault::TornWrite(n) if nth.is_multiple_of(n) => self.store(&block[..block.len() / 2], offset),
            DiskFault::MisplacedWrite(n) if nth.is_multiple_of(n) => {
                self.store(block, offset + block.len() as u64)
            }
            _ => self.store(block, offset),
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let nth = count(&self.syncs);
        if matches!(self.fault, DiskFault::SyncError(n) if nth == n) { Err(error(libc::EIO)) } else { Ok(()) }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn start_over(&self, _size_bytes: u64) -> io::Result<()> {
        Ok(())
    }
}
