//! Reads and writes a loop's connections, and handles connections that fail.

use std::io;

use fathom_wire::{Header, Message, OpCode};

use super::super::link::{ReadOutcome, whole_frame};
use super::ClientLoop;
use crate::driving::recorder;
use crate::source::Source;

impl<S: Source> ClientLoop<S> {
    pub(super) fn writable(&mut self, place: usize) {
        let depth = self.place.shared.depth;
        let Some(link) = self.links.get_mut(place) else { return };
        let was_congested = link.is_congested();
        if let Err(error) = link.flush() {
            self.fail_io(place, &error);
            return;
        }
        if was_congested && !link.is_congested() {
            // Operations without a reply paused until the socket took the messages, and continue here.
            let idle = self.idle.iter().filter(|idle| **idle == place).count();
            let free = depth.saturating_sub(link.under_way() + idle);
            self.ready.retain(|ready| *ready != place);
            self.ready.extend(std::iter::repeat_n(place, free));
        }
    }

    /// Reads what has arrived. If the connection has `ended`, its end must be read now, since no further event will come.
    pub(super) fn readable(&mut self, place: usize, ended: bool) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = self.read(place, ended, &mut scratch);
        self.scratch = scratch;
        if let Err(error) = read {
            self.fail_io(place, &error);
        }
    }

    fn read(&mut self, place: usize, ended: bool, scratch: &mut [u8]) -> io::Result<()> {
        loop {
            let Some(link) = self.links.get_mut(place) else { return Ok(()) };
            let Some((count, received)) = link.read(scratch)? else { return Ok(()) };
            let now_ns = self.place.shared.clock.now_ns();
            let bytes = scratch.get(..count).unwrap_or_default();
            if link.input().is_empty() {
                let used = self.frames(place, bytes, now_ns)?;
                self.keep(place, bytes.get(used..).unwrap_or_default());
            } else {
                let mut input = std::mem::take(link.input());
                input.extend_from_slice(bytes);
                let used = self.frames(place, &input, now_ns)?;
                input.drain(..used);
                if let Some(link) = self.links.get_mut(place).filter(|link| link.is_live()) {
                    *link.input() = input;
                }
            }
            if received == ReadOutcome::Drained && !ended {
                return Ok(());
            }
        }
    }

    fn keep(&mut self, place: usize, rest: &[u8]) {
        if let Some(link) = self.links.get_mut(place).filter(|link| link.is_live()) {
            link.input().extend_from_slice(rest);
        }
    }

    /// Takes the complete frames at the start of `bytes`; returns their number of bytes.
    fn frames(&mut self, place: usize, bytes: &[u8], now_ns: u64) -> io::Result<usize> {
        let mut used = 0;
        while let Some(length) = whole_frame(bytes.get(used..).unwrap_or_default())? {
            self.frame(place, bytes.get(used..used + length).unwrap_or_default(), now_ns)?;
            used += length;
            if !self.links.get(place).is_some_and(|link| link.is_live()) {
                return Ok(bytes.len());
            }
        }
        Ok(used)
    }

    fn frame(&mut self, place: usize, frame: &[u8], now_ns: u64) -> io::Result<()> {
        let header = Header::from_frame(frame).map_err(io::Error::other)?;
        if header.op_code != OpCode::COMPRESSED {
            return self.reply(place, frame, now_ns);
        }
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let Some(link) = self.links.get_mut(place) else { return Ok(()) };
        let result =
            link.decompress(frame, &mut unpacked).and_then(|()| self.reply(place, &unpacked, now_ns));
        self.unpacked = unpacked;
        result
    }

    fn reply(&mut self, place: usize, frame: &[u8], now_ns: u64) -> io::Result<()> {
        let header = Header::from_frame(frame).map_err(io::Error::other)?;
        let Message::Msg(message) = Message::parse(frame).map_err(io::Error::other)? else {
            return Err(io::Error::other("the server does not answer in OP_MSG"));
        };
        let Some(link) = self.links.get_mut(place) else { return Ok(()) };
        match link.jobs.pop_front() {
            Some(job) if job.request_id == header.response_to => {
                self.answered(place, job, message.body, now_ns);
                Ok(())
            }
            Some(job) => {
                link.jobs.push_front(job);
                Err(io::Error::other("the server answers another request than the oldest"))
            }
            None => Err(io::Error::other("the server sent data without a request")),
        }
    }

    pub(super) fn fail_io(&mut self, place: usize, error: &io::Error) {
        let kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => "connection closed",
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset",
            io::ErrorKind::Other => "protocol",
            _ => "connection failed",
        };
        let said = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        };
        self.fail(place, kind, &said);
    }

    /// Gives up a connection: operations under way on it are lost, and it is reopened.
    pub(super) fn fail(&mut self, place: usize, kind: &str, said: &str) {
        recorder::note(&mut self.piece.failures, kind, said);
        self.renew(place);
    }

    /// Reopens a connection; operations under way on it are lost.
    pub(super) fn renew(&mut self, place: usize) {
        let Some(link) = self.links.get_mut(place) else { return };
        if !link.is_live() {
            return;
        }
        link.detach();
        self.ready.retain(|ready| *ready != place);
        let Some(link) = self.links.get_mut(place) else { return };
        let jobs = std::mem::take(&mut link.jobs);
        let now_ns = self.place.shared.clock.now_ns();
        for job in jobs {
            self.lost(place, job, now_ns);
        }
        self.idle.retain(|idle| *idle != place);
        if !self.draining {
            self.wish(place);
        }
    }
}
