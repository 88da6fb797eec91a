//! A file as the thread engines see it: positioned reads and writes of whole blocks, and syncs.
//!
//! A trait, so that faults which no real disk produces on demand can be tested through the same engines. A short transfer is an
//! error here: on a fully laid-out regular file it means that the end moved.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync, ftruncate};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

/// Positioned input and output of whole blocks.
pub(crate) trait BlockFile: Sync {
    /// Fills `block` from `offset`.
    fn read_at(&self, block: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `block` at `offset`.
    fn write_at(&self, block: &[u8], offset: u64) -> io::Result<()>;
    /// Makes data durable, and the metadata needed to read it back.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes data and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Empties an append file and reserves its room again.
    fn start_over(&self, size_bytes: u64) -> io::Result<()>;
}

impl BlockFile for File {
    #[inline]
    fn read_at(&self, block: &mut [u8], offset: u64) -> io::Result<()> {
        let read = retry_on_intr(|| pread(self, &mut *block, offset))?;
        whole(read, block.len(), "read")
    }

    #[inline]
    fn write_at(&self, block: &[u8], offset: u64) -> io::Result<()> {
        let written = retry_on_intr(|| pwrite(self, block, offset))?;
        whole(written, block.len(), "write")
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fdatasync(self))?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(self))?)
    }

    fn start_over(&self, size_bytes: u64) -> io::Result<()> {
        ftruncate(self, 0)?;
        reserve(self, size_bytes)
    }
}

/// Reserves space for `size_bytes`, so that a full disk shows before the first write and extents are few. If the file system cannot
/// reserve, only the size is set.
pub(crate) fn reserve(file: impl AsFd, size_bytes: u64) -> io::Result<()> {
    match retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, size_bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(ftruncate(&file, size_bytes)?),
        other => Ok(other?),
    }
}

/// An error unless `moved` equals the number of bytes asked for.
pub(crate) fn whole(moved: usize, wanted: usize, action: &str) -> io::Result<()> {
    if moved == wanted {
        return Ok(());
    }
    let what = format!("short {action}: {moved} of {wanted} bytes");
    Err(io::Error::new(
        if action == "write" { io::ErrorKind::WriteZero } else { io::ErrorKind::UnexpectedEof },
        what,
    ))
}
