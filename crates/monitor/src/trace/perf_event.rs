//! The kernel's trace of chosen tracepoints, as a ring of bytes for each processor (perf_event_open(2)).
//!
//! One ring per processor takes all events, so that a drain reads few places. The kernel counts records that found no
//! room, in records of the ring. This file does not interpret the bytes.

#![expect(unsafe_code, reason = "perf_event_open, its ring and unshare have no safe interface")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The part of `struct perf_event_attr` that every kernel since 4.1 knows (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const KIND_TRACEPOINT: u32 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const FLAG_DISABLED: u64 = 1;
const FLAG_USE_CLOCK: u64 = 1 << 25;
const FLAG_CLOSE_ON_EXEC: libc::c_ulong = 8;
// Of include/uapi/linux/perf_event.h, as x86 and Arm encode them.
const IOCTL_ENABLE: libc::c_ulong = 0x2400;
const IOCTL_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOCTL_SET_FILTER: libc::c_ulong = 0x4008_2406;
// Of struct perf_event_mmap_page: where the kernel says how far it wrote, and we say how far we read.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

/// The events of one processor and the ring they go to.
pub(crate) struct RingBuffer {
    start: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
    _events: Vec<File>,
}

// SAFETY: the ring owns its mapping and files alone; moving it to another thread moves the only handle.
unsafe impl Send for RingBuffer {}

impl RingBuffer {
    /// Starts the tracepoints with these ids on one processor; `filter` is the kernel's filter language (`dev == 7`). A
    /// kernel that refuses the filter traces all events. `data_bytes` is a power of two and at least a page.
    pub(crate) fn open(
        ids: &[u64],
        processor: u32,
        filter: &str,
        data_bytes: usize,
    ) -> io::Result<RingBuffer> {
        let filter = CString::new(filter)?;
        let mut events: Vec<File> = Vec::new();
        for id in ids {
            let event = open_event(*id, processor)?;
            // SAFETY: the event is open, and the kernel copies the string, which lives until after the call.
            unsafe { libc::ioctl(event.as_raw_fd(), IOCTL_SET_FILTER as _, filter.as_ptr()) };
            events.push(event);
        }
        let Some((first, others)) = events.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let page_bytes = rustix::param::page_size();
        // SAFETY: a new shared mapping at an address of the kernel's choice touches no existing memory.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), page_bytes + data_bytes, access, MapFlags::SHARED, first, 0)
        };
        let start = NonNull::new(mapped?.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let outputs: Vec<i32> = others.iter().map(AsRawFd::as_raw_fd).collect();
        let first = first.as_raw_fd();
        // From here on the drop of the ring undoes the mapping.
        let ring = RingBuffer { start, page_bytes, data_bytes, _events: events };
        for other in outputs {
            // SAFETY: both are events that the ring holds open.
            check(unsafe { libc::ioctl(other, IOCTL_SET_OUTPUT as _, first) })?;
        }
        for event in &ring._events {
            // SAFETY: the event is open; the call takes no pointer.
            check(unsafe { libc::ioctl(event.as_raw_fd(), IOCTL_ENABLE as _, 0) })?;
        }
        Ok(ring)
    }

    /// Adds all bytes since the last drain to `into` and gives their room back to the kernel.
    pub(crate) fn drain(&mut self, into: &mut Vec<u8>) {
        let head = self.counter(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.counter(TAIL_OFFSET).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let from = (tail as usize) & (self.data_bytes - 1);
        let before_end = length.min(self.data_bytes - from);
        for (at, count) in [(from, before_end), (0, length - before_end)] {
            // SAFETY: at + count is within the data pages of our mapping, and the kernel writes no byte between tail and head
            // until the tail below is moved.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.start.as_ptr().add(self.page_bytes + at), count)
            });
        }
        self.counter(TAIL_OFFSET).store(head, Ordering::Release);
    }

    /// A counter of the ring's first page.
    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of our mapping is live as long as self and 4096 bytes or more; both offsets are multiples of 8,
        // and the kernel reads and writes these words as a whole.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, made in `open` with this length, and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.page_bytes + self.data_bytes) };
        debug_assert!(unmapped.is_ok(), "our own mapping can be unmapped");
    }
}

fn open_event(id: u64, processor: u32) -> io::Result<File> {
    let attributes = PerfEventAttributes {
        kind: KIND_TRACEPOINT,
        size: size_of::<PerfEventAttributes>() as u32,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TIME | SAMPLE_RAW,
        flags: FLAG_DISABLED | FLAG_USE_CLOCK,
        clock: libc::CLOCK_MONOTONIC,
        ..PerfEventAttributes::default()
    };
    let (every_process, no_group) = (-1, -1);
    // SAFETY: the attributes live until after the call, with their true size in them; a file that comes back is ours alone.
    unsafe {
        let number = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            every_process,
            processor as libc::c_int,
            no_group,
            FLAG_CLOSE_ON_EXEC,
        );
        check(number as libc::c_int)?;
        Ok(File::from(OwnedFd::from_raw_fd(number as libc::c_int)))
    }
}

fn check(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the calling thread its own mounts, which end with it.
pub(crate) fn own_mounts() -> io::Result<()> {
    // SAFETY: the call takes no pointer. It parts the thread's working directory from its siblings', who keep theirs.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}
