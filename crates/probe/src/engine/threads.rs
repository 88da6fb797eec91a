//! The thread engines (psync, mmap): each worker has one request in flight.
//!
//! The clock is read twice per request, three times with a sync; the time between covers only the request: stamping data and
//! recording happen outside of it.

use std::path::Path;

use fathom_errors::Result;

use crate::buffer::AlignedBuffer;
use crate::clock::{now_ns, sleep_until};
use crate::engine::{check_read, failed};
use crate::file::BlockFile;
use crate::requests::{IoRequest, RequestStream};
use crate::shape::{Pattern, WriteSync};
use crate::tracks::{Track, TrackShard};
use crate::worker_context::WorkerContext;

/// The longest sleep of a worker before it checks whether the window is over.
const MAX_SLEEP_NS: u64 = 50_000_000;

/// Runs worker `index` until the window ends.
pub(crate) fn work<F: BlockFile>(file: &F, path: &Path, crew: &WorkerContext<'_>, index: u64) -> Result<()> {
    let size = crew.file_bytes();
    let mut worker = Worker {
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
        buffer: AlignedBuffer::new(usize::try_from(crew.job.block.get()).unwrap_or(usize::MAX))?,
        shard: crew.shards.shard(usize::try_from(index).unwrap_or(0)),
    };
    crew.starter.wait();
    match crew.job.pattern {
        Pattern::Checkpoint => worker.checkpoints(),
        Pattern::Append => worker.append(),
        _ => worker.stream(),
    }
}

struct Worker<'a, F> {
    file: &'a F,
    path: &'a Path,
    crew: &'a WorkerContext<'a>,
    requests: RequestStream,
    buffer: AlignedBuffer,
    shard: &'a TrackShard,
}

impl<F: BlockFile> Worker<'_, F> {
    fn stream(&mut self) -> Result<()> {
        while let Some(turn) = self.next_turn() {
            let Some(request) = self.requests.next() else { return Ok(()) };
            if request.write {
                self.write(request, turn)?
            } else {
                self.read(request, turn)?
            }
            self.requests.ended(request.offset);
        }
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let crew = self.crew;
        while let Some(turn) = self.next_turn() {
            let place = loop {
                if let Some(place) = crew.log.take(crew.job.block.get()) {
                    break place;
                }
                let restarted = crew.log.start_over(|| self.file.start_over(crew.journal_bytes));
                restarted.map_err(|e| failed("empty", self.path, 0, e))?;
            };
            self.write(IoRequest { write: true, offset: place.offset }, turn)?;
        }
        Ok(())
    }

    /// Waits for the next intended start, under a rate; `None` when the window is over.
    fn next_turn(&self) -> Option<Option<u64>> {
        match &self.crew.arrivals {
            None => (!self.crew.starter.stopping()).then_some(None),
            Some(arrivals) => self.await_start(arrivals.next_ns()).map(Some),
        }
    }

    /// Sleeps until an intended start; `None` when the window ends first.
    fn await_start(&self, intended_ns: u64) -> Option<u64> {
        loop {
            if self.crew.starter.stopping() {
                return None;
            }
            let now = now_ns();
            if now >= intended_ns {
                return Some(intended_ns);
            }
            sleep_until(intended_ns.min(now + MAX_SLEEP_NS));
        }
    }

    fn read(&mut self, request: IoRequest, intended: Option<u64>) -> Result<()> {
        let begin = now_ns();
        let read = self.file.read_at(self.buffer.as_mut_slice(), request.offset);
        let end = now_ns();
        read.map_err(|e| failed("read", self.path, request.offset, e))?;
        // Checked before it is counted: the window may end in between, and every counted read must have been checked.
        check_read(self.crew, self.buffer.as_slice(), request.offset)?;
        let mut tracks = self.shard.tracks();
        tracks.record(Track::Read, end - begin);
        if let Some(intended) = intended {
            tracks.record(Track::ReadResponse, end - intended);
        }
        Ok(())
    }

    fn write(&mut self, request: IoRequest, intended: Option<u64>) -> Result<()> {
        let (begin, written) = self.write_block(request)?;
        let end = if self.crew.job.durable == WriteSync::Fdatasync {
            self.file.sync_data().map_err(|e| failed("fdatasync", self.path, request.offset, e))?;
            now_ns()
        } else {
            written
        };
        let mut tracks = self.shard.tracks();
        tracks.record(Track::Write, written - begin);
        match self.crew.job.durable {
            WriteSync::None => {}
            WriteSync::Dsync => tracks.record(Track::Durable, end - begin),
            WriteSync::Fdatasync => {
                tracks.record(Track::Sync, end - written);
                tracks.record(Track::Durable, end - begin);
            }
        }
        if let Some(intended) = intended {
            tracks.record(Track::WriteResponse, end - intended);
        }
        Ok(())
    }

    /// Stamps and writes one block; returns the times of its start and its completion.
    fn write_block(&mut self, request: IoRequest) -> Result<(u64, u64)> {
        let generation = self.crew.next_generation();
        self.crew.stamper.fill(self.buffer.as_mut_slice(), request.offset, generation);
        let begin = now_ns();
        let written = self.file.write_at(self.buffer.as_slice(), request.offset);
        let end = now_ns();
        if let Some(generations) = self.crew.generations.filter(|_| self.crew.job.pattern != Pattern::Append)
        {
            let generation = if written.is_ok() { generation } else { 0 };
            generations.wrote(request.offset, self.buffer.len(), generation);
        }
        written.map_err(|e| failed("write", self.path, request.offset, e))?;
        Ok((begin, end))
    }

    fn checkpoints(&mut self) -> Result<()> {
        let crew = self.crew;
        crew.rally.begin(now_ns());
        while !crew.starter.stopping() {
            while crew.rally.take() {
                if crew.starter.stopping() {
                    return Ok(());
                }
                let Some(request) = self.requests.next() else { break };
                let (begin, end) = self.write_block(request)?;
                self.requests.ended(request.offset);
                self.shard.tracks().record(Track::Write, end - begin);
            }
            let mut outcome = Ok(());
            crew.rally.meet(now_ns, || crew.starter.stopping(), |began| outcome = self.end_burst(began));
            outcome?;
        }
        Ok(())
    }

    /// The fsync at the end of a burst, by the thread that arrived last.
    fn end_burst(&self, began_ns: u64) -> Result<()> {
        let begin = now_ns();
        self.file.sync_all().map_err(|e| failed("fsync", self.path, 0, e))?;
        let end = now_ns();
        let mut tracks = self.shard.tracks();
        tracks.record(Track::Sync, end - begin);
        tracks.record(Track::Durable, end - began_ns);
        drop(tracks);
        self.await_start(end + self.crew.job.burst_rest.get());
        Ok(())
    }
}
