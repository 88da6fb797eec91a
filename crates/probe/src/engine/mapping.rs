//! The mmap engine's file: loads and stores in a shared mapping, through the page cache.
//!
//! A store to a page whose read fails, or whose disk is full, raises SIGBUS, which would end the program.
//! So each block is first populated by `madvise` (MADV_POPULATE_READ or _WRITE, Linux 5.14), which does the same
//! page faults and returns an error instead; older kernels are refused. Not comparable with fio's mmap engine
//! under direct=1, which drops each page after use, nor with mongoperf's, which touches one byte a page.

#![expect(unsafe_code, reason = "a file mapping has no safe interface")]

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use fathom_errors::{Error, Kind, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::file::BlockFile;

/// The smallest page size. On a machine with larger pages, a page is touched more than once.
const PAGE: usize = 4096;

/// A whole file, mapped shared.
pub(crate) struct Mapping<'a> {
    file: &'a File,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain shared memory of a file; blocks are copied in and out by byte copies, and two
// threads copying over one block give mixed bytes in the file, never anything that the type system relies on.
unsafe impl Sync for Mapping<'_> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Mapping<'_> {}

impl<'a> Mapping<'a> {
    /// Maps the first `size_bytes` of `file`, which must be that long.
    pub(crate) fn new(file: &'a File, size_bytes: u64, writable: bool) -> Result<Self> {
        let len = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let refused = || Error::new(Kind::Unsupported, format!("cannot map {len} bytes of the test file"));
        // SAFETY: a new mapping at an address of the kernel's choice; the file is ours and laid out to this length.
        let mapped = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) };
        let start = NonNull::new(mapped.map_err(|e| refused().because(e))?.cast()).ok_or_else(refused)?;
        let mapping = Mapping { file, start, len };
        // SAFETY: one page inside our own mapping.
        let probe = unsafe {
            madvise(
                mapping.start.as_ptr().cast(),
                rustix::param::page_size().min(len),
                Advice::LinuxPopulateRead,
            )
        };
        let old =
            |e| refused().because(e).advise("the mmap engine needs Linux 5.14 or later; use --engine psync");
        probe.map_err(old)?;
        Ok(mapping)
    }

    /// The address of a block, populated for `advice`.
    fn block(&self, offset: u64, len: usize, advice: Advice) -> io::Result<NonNull<u8>> {
        let inside =
            usize::try_from(offset).ok().filter(|at| at.checked_add(len).is_some_and(|end| end <= self.len));
        let Some(at) = inside else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let page = at & !(rustix::param::page_size() - 1);
        // SAFETY: at + len <= self.len was checked, so both pointers stay inside the mapping.
        unsafe {
            madvise(self.start.add(page).as_ptr().cast(), at + len - page, advice)?;
            Ok(self.start.add(at))
        }
    }

    /// Loads one byte of each page of a range, as mongoperf's mapped reads do.
    pub(crate) fn load_pages(&self, offset: u64, len: usize) -> io::Result<()> {
        let from = self.block(offset, len, Advice::LinuxPopulateRead)?;
        for at in (0..len).step_by(PAGE) {
            // SAFETY: `at` is inside the range that `block()` checked and populated; other threads and the kernel
            // change these bytes only by atomic stores or as file content.
            let byte = unsafe { AtomicU8::from_ptr(from.as_ptr().add(at)) }.load(Ordering::Relaxed);
            black_box(byte);
        }
        Ok(())
    }

    /// Stores one byte in each page of a range, as mongoperf's mapped writes do: the byte already present, so that the page becomes
    /// dirty and its stamp stays valid.
    pub(crate) fn store_pages(&self, offset: u64, len: usize) -> io::Result<()> {
        let to = self.block(offset, len, Advice::LinuxPopulateWrite)?;
        for at in (0..len).step_by(PAGE) {
            // SAFETY: as above; the pages were populated for writing.
            let byte = unsafe { AtomicU8::from_ptr(to.as_ptr().add(at)) };
            // Opaque to the compiler, which could otherwise omit a store of the value just loaded.
            byte.store(black_box(byte.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        Ok(())
    }
}

impl BlockFile for Mapping<'_> {
    fn read_at(&self, block: &mut [u8], offset: u64) -> io::Result<()> {
        let from = self.block(offset, block.len(), Advice::LinuxPopulateRead)?;
        // SAFETY: `block()` checked the range; the buffer is ours alone and does not overlap a file mapping.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), block.as_mut_ptr(), block.len()) };
        Ok(())
    }

    fn write_at(&self, block: &[u8], offset: u64) -> io::Result<()> {
        let to = self.block(offset, block.len(), Advice::LinuxPopulateWrite)?;
        // SAFETY: as above; the pages were just populated for writing.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), to.as_ptr(), block.len()) };
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        BlockFile::sync_all(self.file)
    }

    fn start_over(&self, _size_bytes: u64) -> io::Result<()> {
        // A mapping keeps its length: appends start over at the front, on existing pages.
        Ok(())
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new` with this length, and no block pointer outlives a call.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "our own mapping can be unmapped");
    }
}
