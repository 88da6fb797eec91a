//! A connection between two messages without a thread of its own, for services that wait for many connections at once.
//!
//! It reads and writes only as far as this needs no waiting. A message that needs more, or that the service's fast path does not cover, returns
//! to a thread of its own ([`IdleConnection::attend`]), which finds all state as it was left. Only unencrypted connections can be idle: a poll
//! does not see data left in TLS buffers.

use std::fmt;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fathom_wire::{Header, Message, OpCode, OpMsg, OpMsgWriter};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::connection::spawn;
use crate::{Answer, IdleConnection, Result, Service};

/// The state of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferState {
    /// A whole message of this many bytes, to be answered or left to a thread.
    Frame(usize),
    /// Less than a message; a poll will report more.
    Part,
    /// The peer has disconnected, or sent an invalid message.
    End,
}

/// The outcome of answering a message by [`IdleConnection::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// Its reply is sent.
    Whole,
    /// A thread must send the rest of its reply, or answer it at all ([`IdleConnection::attend`]).
    NotWhole,
    /// The connection must be closed.
    End,
}

impl<S: Service> IdleConnection<S> {
    /// The service's state of the connection.
    pub fn peer(&self) -> &S::Peer {
        &self.connection.peer
    }

    /// The same state, mutable.
    pub fn peer_mut(&mut self) -> &mut S::Peer {
        &mut self.connection.peer
    }

    pub fn socket(&self) -> Arc<TcpStream> {
        self.connection.stream.shared_socket()
    }

    /// Records that a poll has reported an event.
    pub fn wake(&mut self) {
        self.drained = false;
    }

    /// Reads until a message is complete or no more bytes are available.
    pub fn receive(&mut self) -> BufferState {
        let connection = &mut self.connection;
        loop {
            let Ok(wanted) = connection.wanted() else { return BufferState::End };
            if connection.filled >= wanted {
                return BufferState::Frame(wanted);
            }
            if self.drained {
                return BufferState::Part;
            }
            connection.make_room(wanted);
            let room = connection.input.get_mut(connection.filled..).unwrap_or_default();
            let asked = room.len();
            match rustix::net::recv(connection.stream.socket(), room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return BufferState::End,
                Ok((read, _)) => {
                    connection.filled += read;
                    self.drained = read < asked;
                }
                Err(Errno::AGAIN) => self.drained = true,
                Err(Errno::INTR) => {}
                Err(_) => return BufferState::End,
            }
        }
    }

    /// The received command of `length` bytes; `None` if only a thread can answer it: one that is compressed, comes from an old driver,
    /// is malformed, or requests no reply or several.
    pub fn command(&self, length: usize) -> Option<OpMsg<'_>> {
        let frame = self.connection.input.get(..length)?;
        if Header::from_frame(frame).ok()?.op_code != OpCode::MSG {
            return None;
        }
        match Message::parse(frame).ok()? {
            Message::Msg(message) if !message.more_to_come() && !message.exhaust_allowed() => Some(message),
            _ => None,
        }
    }

    /// Answers the command of `length` bytes: `write` writes the reply's body. Returns whether the whole reply was sent; if
    /// not, a thread must send the rest ([`IdleConnection::attend`]). If `write` fails, the command stays unanswered.
    pub fn reply(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
        let connection = &mut self.connection;
        let request_id = Header::from_frame(connection.input.get(..length).unwrap_or_default())?.request_id;
        let number = connection.requests.wrapping_add(1);
        connection.output.clear();
        self.sent = 0;
        let mut writer = OpMsgWriter::begin(&mut connection.output, number, request_id);
        if let Err(failure) = write(writer.body_bytes()).and_then(|()| writer.finish().map(drop)) {
            connection.output.clear();
            return Err(failure);
        }
        connection.requests = number;
        let traffic = connection.service.traffic();
        traffic.received(length);
        traffic.sent(connection.output.len());
        Ok(self.send(length))
    }

    /// Answers the message of `length` bytes as a thread of its own would, but sends only as much as is possible without waiting.
    pub fn answer(&mut self, length: usize) -> AnswerOutcome {
        let answer = self.connection.write_answer(length);
        if answer == Answer::Unanswered {
            return AnswerOutcome::NotWhole;
        }
        self.connection.service.traffic().received(length);
        if answer == Answer::Close {
            return AnswerOutcome::End;
        }
        if !self.send(length) {
            return AnswerOutcome::NotWhole;
        }
        let connection = &self.connection;
        if connection.service.is_over(&connection.peer) { AnswerOutcome::End } else { AnswerOutcome::Whole }
    }

    /// Sends as much as possible of the reply to the message of `length` bytes, which has been executed. Returns whether all was sent.
    fn send(&mut self, length: usize) -> bool {
        let connection = &mut self.connection;
        self.sent = 0;
        if !connection.output.is_empty() {
            self.sent = send(connection.stream.socket().as_fd(), &connection.output);
        }
        connection.use_up(length);
        let all = self.sent == connection.output.len();
        if all {
            connection.spare_output();
            self.sent = connection.output.len();
        }
        all
    }

    /// Continues on a thread of its own, which sends the unsent rest and answers the unanswered messages.
    pub fn attend(self) {
        let IdleConnection { mut connection, sent, .. } = self;
        let service = Arc::clone(&connection.service);
        spawn(&*service, connection.id(), move || {
            let rest = connection.output.get(sent..).unwrap_or_default();
            if rest.is_empty() || connection.stream.write_all(rest).is_ok() {
                connection.serve();
            }
        });
    }
}

/// The number of bytes that the socket accepted. A failed socket reports its error to the next reader.
fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => return sent,
            Err(Errno::INTR) => {}
            Err(_) => return 0,
        }
    }
}

impl<S: Service> AsFd for IdleConnection<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.socket().as_fd()
    }
}

impl<S: Service> fmt::Debug for IdleConnection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unattended").field("drained", &self.drained).finish_non_exhaustive()
    }
}
