//! A connection of an event loop, with its buffers and the operations that wait for replies.
//!
//! No function here blocks. Bytes that the socket does not take now are kept and sent when it is ready; an incomplete frame is
//! kept until its rest arrives. A length that the peer announces is accepted only up to the protocol's limit.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use fathom_client::{ConnectionParts, Transport};
use fathom_wire::{Codec, Compressor, Header};

/// An operation under way.
#[derive(Debug)]
pub(super) struct PendingOperation<State> {
    pub(super) state: State,
    /// The number of its records.
    pub(super) records: u64,
    /// When it was due.
    pub(super) due_ns: u64,
    /// When its first message was sent.
    pub(super) begun_ns: u64,
    /// When its last message was sent.
    pub(super) sent_ns: u64,
    /// The request id of its last message.
    pub(super) request_id: i32,
}

#[derive(Debug)]
struct LiveConnection {
    transport: Transport,
    codec: Codec,
    compressor: Option<Compressor>,
}

/// A connection, live or being opened again.
#[derive(Debug)]
pub(super) struct ConnectionSlot<State> {
    live: Option<LiveConnection>,
    request_id: i32,
    /// The beginning of a frame whose rest is to come.
    input: Vec<u8>,
    /// Bytes that are still to be sent.
    output: Vec<u8>,
    /// Operations that were sent, the oldest first.
    pub(super) jobs: VecDeque<PendingOperation<State>>,
    /// Operations that will be sent again after a pause: they count as under way.
    pub(super) resting: usize,
}

/// The outcome of [`ConnectionSlot::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// More may be there at once.
    More,
    /// Everything available was read.
    Drained,
}

impl<State> ConnectionSlot<State> {
    pub(super) fn new() -> Self {
        ConnectionSlot {
            live: None,
            request_id: 0,
            input: Vec::new(),
            output: Vec::new(),
            jobs: VecDeque::new(),
            resting: 0,
        }
    }

    /// Attaches an open connection.
    pub(super) fn attach(&mut self, parts: ConnectionParts) -> io::Result<()> {
        parts.transport.set_nonblocking(true)?;
        self.request_id = parts.request_id;
        self.live = Some(LiveConnection {
            transport: parts.transport,
            codec: parts.codec,
            compressor: parts.compressor,
        });
        Ok(())
    }

    /// Drops the connection with its unsent and incomplete bytes.
    pub(super) fn detach(&mut self) {
        self.live = None;
        self.input.clear();
        self.output.clear();
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The number of operations that began and have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.jobs.len() + self.resting
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.live.as_ref().map(|live| live.transport.as_fd())
    }

    /// The request id for the next message.
    pub(super) fn next_request_id(&mut self) -> i32 {
        self.request_id = self.request_id.wrapping_add(1);
        self.request_id
    }

    /// Sends a message, or keeps what the socket does not take.
    pub(super) fn send(&mut self, frame: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        let Some(live) = &mut self.live else { return Err(ErrorKind::NotConnected.into()) };
        let bytes = match live.compressor {
            None => frame,
            Some(compressor) => {
                packed.clear();
                live.codec.compress(frame, compressor, packed).map_err(io::Error::other)?;
                packed.as_slice()
            }
        };
        if !self.output.is_empty() {
            self.output.extend_from_slice(bytes);
            return Ok(());
        }
        let sent = push(&mut live.transport, bytes)?;
        self.output.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Sends the kept bytes, now that the socket may take them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(live) = &mut self.live else { return Ok(()) };
        if !self.output.is_empty() {
            let sent = push(&mut live.transport, &self.output)?;
            self.output.drain(..sent);
        }
        if live.transport.wants_write() {
            match live.transport.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// Whether bytes wait to be sent.
    pub(super) fn is_congested(&self) -> bool {
        !self.output.is_empty()
    }

    /// Reads once into `scratch`; the caller keeps an incomplete rest as input. Returns how many bytes of `scratch` are new, `None`
    /// if none are available at the moment, or an error at the connection's end.
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> io::Result<Option<(usize, ReadOutcome)>> {
        let Some(live) = &mut self.live else { return Ok(None) };
        loop {
            match live.transport.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    // A socket that gave less than it was asked for is empty; TLS gives record by record.
                    let plain = matches!(live.transport, Transport::Plain(_));
                    let drained = plain && count < scratch.len();
                    return Ok(Some((count, if drained { ReadOutcome::Drained } else { ReadOutcome::More })));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The input that is incomplete.
    pub(super) fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    pub(super) fn decompress(&mut self, frame: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let Some(live) = &mut self.live else { return Err(ErrorKind::NotConnected.into()) };
        out.clear();
        live.codec.decompress(frame, out).map(|_| ()).map_err(io::Error::other)
    }
}

/// The length of the frame at the start of `bytes`, if it is complete.
pub(super) fn whole_frame(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(header) = bytes.first_chunk::<{ Header::BYTES }>() else { return Ok(None) };
    let length = Header::parse(header).map_err(io::Error::other)?.length_bytes;
    Ok((bytes.len() >= length).then_some(length))
}

/// Writes until the socket takes no more; returns how much it took.
fn push(transport: &mut Transport, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match transport.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
