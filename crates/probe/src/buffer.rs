//! Memory that direct I/O accepts: page-aligned, zeroed, its own mapping.
//!
//! `Vec<u8>` has no alignment to rely on, and O_DIRECT refuses what is not aligned to the device's need
//! (statx(2), stx_dio_mem_align), which is never more than a page.

#![expect(unsafe_code, reason = "an anonymous mapping has no safe interface")]

use std::ptr::NonNull;
use std::slice;

use fathom_errors::{Error, Kind, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A page-aligned buffer of fixed length.
pub(crate) struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
}

impl AlignedBuffer {
    /// Maps `len` bytes of zeros.
    pub(crate) fn new(len: usize) -> Result<Self> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no existing memory.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let refused = || Error::new(Kind::NoSpace, format!("cannot map {len} bytes for I/O buffers"));
        let start = NonNull::new(mapped.map_err(|e| refused().because(e))?.cast()).ok_or_else(refused)?;
        Ok(AlignedBuffer { start, len })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: start..start+len is our own live, initialised (zeroed) mapping, borrowed for &self.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and &mut self makes the borrow exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The address of the bytes at `offset`, for a ring that outlives the borrow; the caller keeps the buffer alive.
    pub(crate) fn pointer_at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len, "offset inside the buffer");
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, made in `new` with this length, and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "our own mapping can be unmapped");
    }
}

// SAFETY: the buffer owns its mapping alone; moving it to another thread moves the only handle.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access gives only shared slices, and `pointer_at` leaves all writing to its unsafe caller.
unsafe impl Sync for AlignedBuffer {}
