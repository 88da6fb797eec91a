//! The io_uring engine: one thread, one ring, many requests in flight.
//!
//! The ring is set up for a single issuer that runs completions itself (Linux 6.1), with plainer set-ups where the
//! kernel is older; the file and the buffers are registered, which saves their look-up per request. Each request
//! is submitted as soon as it is ready: collecting a batch first let devices idle and cost up to a tenth of their
//! throughput (docs/journal). One clock read serves all completions that came back together, so latency is what
//! the caller of the ring sees. A durable write is a write linked to its fdatasync; both completions are timed.

#![expect(unsafe_code, reason = "the submission queue takes raw pointers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use io_uring::squeue::Flags;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::buffer::AlignedBuffer;
use crate::clock::{now_ns, sleep_until};
use crate::engine::{check_read, failed, slots};
use crate::file::{BlockFile, whole};
use crate::requests::{IoRequest, RequestStream};
use crate::shape::{Pattern, WriteSync};
use crate::tracks::{Track, TrackShard};
use crate::worker_context::WorkerContext;

/// The longest wait of a ring for completions before it checks whether the window is over.
const MAX_WAIT_NS: u64 = 50_000_000;
/// The one registered file.
const FILE: Fixed = Fixed(0);
/// Marks the completion of a sync in `user_data`; the rest is the slot.
const SYNC_BIT: u64 = 1 << 32;

/// Checks whether this kernel provides a ring at all (it may be old, or io_uring disabled by sysctl or seccomp).
///
/// # Errors
/// [`Kind::Unsupported`], with what to use instead.
pub fn available() -> Result<()> {
    build(1).map(drop)
}

/// Runs ring `index` until the window ends.
pub(crate) fn work(file: &File, path: &Path, crew: &WorkerContext<'_>, index: u64) -> Result<()> {
    let depth = slots(crew.job.depth, crew.workers as u32, index as u32).max(1);
    let mut ring = Ring::new(file, path, crew, index, depth)?;
    crew.starter.wait();
    ring.burst_began_ns = now_ns();
    let outcome = ring.run();
    // The kernel may still write into our buffers: they are freed only when nothing is in flight.
    ring.drain();
    outcome
}

fn build(entries: u32) -> Result<IoUring> {
    let refused = |e: io::Error| {
        let advice = "the kernel is too old, or io_uring is switched off (sysctl kernel.io_uring_disabled); use --engine psync";
        Error::new(Kind::Unsupported, "this machine gives no io_uring").because(e).advise(advice)
    };
    let best = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    best.or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::new(entries))
        .map_err(refused)
}

#[derive(Clone, Copy, Default)]
struct Slot {
    offset: u64,
    write: bool,
    generation: u64,
    begin_ns: u64,
    written_ns: u64,
    intended_ns: Option<u64>,
}

struct Ring<'a> {
    ring: IoUring,
    /// Whether buffers are registered; a low memlock limit on kernels before 5.12 forbids it.
    registered: bool,
    slab: AlignedBuffer,
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: u32,
    file: &'a File,
    path: &'a Path,
    crew: &'a WorkerContext<'a>,
    requests: RequestStream,
    shard: &'a TrackShard,
    /// The next intended start that is not due yet.
    waiting_ns: Option<u64>,
    burst_left: u64,
    burst_began_ns: u64,
    rest_until_ns: u64,
    sync_began_ns: Option<u64>,
}

impl<'a> Ring<'a> {
    fn new(
        file: &'a File,
        path: &'a Path,
        crew: &'a WorkerContext<'a>,
        index: u64,
        depth: u32,
    ) -> Result<Self> {
        // A linked sync takes a second entry per request.
        let ring = build((depth * 2).next_power_of_two())?;
        let refused = |e: io::Error| Error::io("register with io_uring", path, e);
        ring.submitter().register_files(&[file.as_raw_fd()]).map_err(refused)?;
        let block = usize::try_from(crew.job.block.get()).unwrap_or(usize::MAX);
        let slab = AlignedBuffer::new(block.saturating_mul(depth as usize))?;
        let whole_slab = libc::iovec { iov_base: slab.pointer_at(0).cast(), iov_len: slab.len() };
        // SAFETY: the slab is mapped for the ring's whole life and unregistered with it, before it is unmapped
        // (fields drop in order: `ring` comes before `slab`).
        let registered = unsafe { ring.submitter().register_buffers(&[whole_slab]) }.is_ok();
        let size = crew.file_bytes();
        Ok(Ring {
            ring,
            registered,
            slab,
            slots: vec![Slot::default(); depth as usize],
            free: (0..depth).rev().collect(),
            in_flight: 0,
            file,
            path,
            crew,
            requests: RequestStream::new(
                crew.job,
                size,
                index,
                crew.workers,
                crew.generations.is_some(),
                &crew.seed,
            ),
            shard: crew.shards.shard(usize::try_from(index).unwrap_or(0)),
            waiting_ns: None,
            burst_left: crew.job.burst_requests(),
            burst_began_ns: 0,
            rest_until_ns: 0,
            sync_began_ns: None,
        })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let stopping = self.crew.starter.stopping();
            let wake_ns = if stopping { None } else { self.fill()? };
            if self.in_flight == 0 {
                if stopping {
                    return Ok(());
                }
                if let Some(wake_ns) = wake_ns {
                    sleep_until(wake_ns.min(now_ns() + MAX_WAIT_NS));
                }
                continue;
            }
            self.wait(wake_ns)?;
            self.reap()?;
        }
    }

    /// Puts requests into all free slots, as far as arrivals allow; returns the time when the next one is due.
    fn fill(&mut self) -> Result<Option<u64>> {
        if self.crew.job.pattern == Pattern::Checkpoint
            && let Some(wake_ns) = self.end_of_burst()?
        {
            return Ok(Some(wake_ns));
        }
        while let Some(&slot) = self.free.last() {
            if self.crew.job.pattern == Pattern::Checkpoint && self.burst_left == 0 {
                break;
            }
            let mut intended_ns = None;
            if let Some(arrivals) = &self.crew.arrivals {
                let due = self.waiting_ns.take().unwrap_or_else(|| arrivals.next_ns());
                if due > now_ns() {
                    self.waiting_ns = Some(due);
                    return Ok(Some(due));
                }
                intended_ns = Some(due);
            }
            let Some(request) = self.requests.next() else {
                self.waiting_ns = intended_ns;
                return self.start_over();
            };
            self.free.pop();
            self.prepare(slot, request, intended_ns)?;
        }
        Ok(None)
    }

    /// Empties a full append file once nothing is in flight.
    fn start_over(&mut self) -> Result<Option<u64>> {
        if self.in_flight == 0 {
            let restarted = BlockFile::start_over(self.file, self.crew.journal_bytes);
            restarted.map_err(|e| failed("empty", self.path, 0, e))?;
            self.requests.rewind();
        }
        Ok(None)
    }

    /// Sends the fsync after a burst has been written, and waits for the rest after it.
    fn end_of_burst(&mut self) -> Result<Option<u64>> {
        let now = now_ns();
        if now < self.rest_until_ns {
            return Ok(Some(self.rest_until_ns));
        }
        if self.burst_left == 0 && self.in_flight == 0 {
            let sync = opcode::Fsync::new(FILE).build().user_data(SYNC_BIT);
            self.sync_began_ns = Some(now);
            self.push(&[sync])?;
            self.in_flight += 1;
        }
        Ok(None)
    }

    fn prepare(&mut self, index: u32, request: IoRequest, intended_ns: Option<u64>) -> Result<()> {
        let block = self.crew.job.block.get() as usize;
        let at = index as usize * block;
        let generation = if request.write { self.crew.next_generation() } else { 0 };
        if request.write
            && let Some(buffer) = self.slab.as_mut_slice().get_mut(at..at + block)
        {
            self.crew.stamper.fill(buffer, request.offset, generation);
        }
        if let Some(slot) = self.slots.get_mut(index as usize) {
            let IoRequest { write, offset } = request;
            *slot = Slot { offset, write, generation, intended_ns, begin_ns: now_ns(), written_ns: 0 };
        }
        let entry = self.entry(request, at, block as u32).user_data(u64::from(index));
        if request.write && self.syncs_each_write() {
            let sync = opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build();
            self.push(&[entry.flags(Flags::IO_LINK), sync.user_data(u64::from(index) | SYNC_BIT)])?;
        } else {
            self.push(&[entry])?;
        }
        self.burst_left = self.burst_left.saturating_sub(1);
        self.in_flight += 1;
        if self.free.is_empty() {
            // The wait comes next and submits this entry too: one system call instead of two.
            return Ok(());
        }
        self.tolerate(self.ring.submit())
    }

    /// Whether each write carries its own fdatasync; a checkpoint syncs once a burst.
    fn syncs_each_write(&self) -> bool {
        self.crew.job.durable == WriteSync::Fdatasync && self.crew.job.pattern != Pattern::Checkpoint
    }

    fn entry(&self, request: IoRequest, at: usize, len: u32) -> squeue::Entry {
        let pointer = self.slab.pointer_at(at);
        match (request.write, self.registered) {
            (false, true) => opcode::ReadFixed::new(FILE, pointer, len, 0).offset(request.offset).build(),
            (false, false) => opcode::Read::new(FILE, pointer, len).offset(request.offset).build(),
            (true, true) => opcode::WriteFixed::new(FILE, pointer, len, 0).offset(request.offset).build(),
            (true, false) => opcode::Write::new(FILE, pointer, len).offset(request.offset).build(),
        }
    }

    fn push(&mut self, entries: &[squeue::Entry]) -> Result<()> {
        // SAFETY: every pointer in the entries lies in `slab`, which outlives the ring's requests: `work` drains
        // them all before dropping it. The queue has room for two entries per slot.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.map_err(|e| Error::new(Kind::Io, "the submission queue is full").because(e))
    }

    /// Waits for one completion, or until `wake_ns`.
    fn wait(&mut self, wake_ns: Option<u64>) -> Result<()> {
        let waited = match wake_ns {
            None => self.ring.submit_and_wait(1),
            Some(wake_ns) => {
                let nap_ns = wake_ns.saturating_sub(now_ns()).min(MAX_WAIT_NS);
                let timeout = Timespec::new().sec(0).nsec(nap_ns as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        self.tolerate(waited)
    }

    /// A time-out, an interruption and a moment without kernel memory are no errors: the entries stay queued and
    /// the next call sends them.
    fn tolerate(&self, submitted: io::Result<usize>) -> Result<()> {
        match submitted {
            Ok(_) => Ok(()),
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(e) => Err(Error::io("submit requests to", self.path, e)),
        }
    }

    fn reap(&mut self) -> Result<()> {
        let now = now_ns();
        let mut first_error = Ok(());
        // Copied out in one go: the queue borrows the ring while it is read.
        while let Some((user_data, result)) = self.next_completion() {
            let handled = if user_data & SYNC_BIT != 0 {
                self.sync_came_back(user_data, result, now)
            } else {
                self.request_came_back(user_data as u32, result, now)
            };
            if first_error.is_ok() {
                first_error = handled;
            }
        }
        first_error
    }

    fn next_completion(&mut self) -> Option<(u64, i32)> {
        self.ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
    }

    fn request_came_back(&mut self, index: u32, result: i32, now: u64) -> Result<()> {
        let Some(slot) = self.slots.get_mut(index as usize) else { return Ok(()) };
        slot.written_ns = now;
        let slot = *slot;
        let block = self.crew.job.block.get() as usize;
        let action = if slot.write { "write" } else { "read" };
        let moved = outcome(result).and_then(|moved| whole(moved, block, action));
        let linked = slot.write && self.syncs_each_write();
        if slot.write
            && self.crew.job.pattern != Pattern::Append
            && let Some(generations) = self.crew.generations
        {
            generations.wrote(slot.offset, block, if moved.is_ok() { slot.generation } else { 0 });
        }
        if !linked {
            self.release(index, slot.offset);
        }
        moved.map_err(|e| failed(action, self.path, slot.offset, e))?;
        if !slot.write {
            let at = index as usize * block;
            check_read(self.crew, self.slab.as_slice().get(at..at + block).unwrap_or_default(), slot.offset)?;
        }
        let latency_ns = now.saturating_sub(slot.begin_ns);
        let mut tracks = self.shard.tracks();
        tracks.record(if slot.write { Track::Write } else { Track::Read }, latency_ns);
        if slot.write && self.crew.job.durable == WriteSync::Dsync {
            tracks.record(Track::Durable, latency_ns);
        }
        if let Some(intended_ns) = slot.intended_ns.filter(|_| !linked) {
            let track = if slot.write { Track::WriteResponse } else { Track::ReadResponse };
            tracks.record(track, now.saturating_sub(intended_ns));
        }
        Ok(())
    }

    fn sync_came_back(&mut self, user_data: u64, result: i32, now: u64) -> Result<()> {
        if let Some(began_ns) = self.sync_began_ns.take() {
            self.in_flight -= 1;
            outcome(result).map_err(|e| failed("fsync", self.path, 0, e))?;
            let mut tracks = self.shard.tracks();
            tracks.record(Track::Sync, now.saturating_sub(began_ns));
            tracks.record(Track::Durable, now.saturating_sub(self.burst_began_ns));
            self.rest_until_ns = now + self.crew.job.burst_rest.get();
            self.burst_began_ns = self.rest_until_ns;
            self.burst_left = self.crew.job.burst_requests();
            return Ok(());
        }
        let index = user_data as u32;
        let Some(slot) = self.slots.get(index as usize).copied() else { return Ok(()) };
        self.release(index, slot.offset);
        if result == -libc::ECANCELED {
            // Its write failed, and that error is the one to report.
            return Ok(());
        }
        outcome(result).map_err(|e| failed("fdatasync", self.path, slot.offset, e))?;
        let mut tracks = self.shard.tracks();
        tracks.record(Track::Sync, now.saturating_sub(slot.written_ns));
        tracks.record(Track::Durable, now.saturating_sub(slot.begin_ns));
        if let Some(intended_ns) = slot.intended_ns {
            tracks.record(Track::WriteResponse, now.saturating_sub(intended_ns));
        }
        Ok(())
    }

    fn release(&mut self, index: u32, offset: u64) {
        self.free.push(index);
        self.in_flight -= 1;
        self.requests.ended(offset);
    }

    /// Waits until nothing is in flight, whatever the results.
    fn drain(&mut self) {
        while self.in_flight > 0 {
            if self.wait(None).is_err() {
                sleep_until(now_ns() + MAX_WAIT_NS);
            }
            // The first error has been reported already.
            let _ = self.reap();
        }
    }
}

/// A completion's result as bytes moved or an error.
fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
