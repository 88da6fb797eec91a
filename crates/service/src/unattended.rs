//! A connection between two messages that no thread waits for: for a service that waits for many at once.
//!
//! It reads and writes what goes without waiting. What is too much for that, or not for the service's quick way, goes back to a
//! thread of its own ([`Unattended::attend`]), which finds everything as it was left. Only connections in the clear come here: of TLS a
//! poll does not see what is left in its buffers.

use std::fmt;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fathom_wire::{Header, Message, OpCode, OpMsg, OpMsgWriter};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::connection::spawn;
use crate::{Answer, Result, Service, Unattended};

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole message of so many bytes, to be answered or left to a thread.
    Frame(usize),
    /// Less than a message; more will be told by a poll.
    Part,
    /// The peer has gone, or sent what is no message.
    End,
}

/// What became of a message that [`Unattended::answer`] was to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Its reply is sent.
    Whole,
    /// A thread has to send the rest of its reply, or to answer it at all ([`Unattended::attend`]).
    NotWhole,
    /// The connection is to end.
    End,
}

impl<S: Service> Unattended<S> {
    /// What the service keeps of it.
    pub fn peer(&self) -> &S::Peer {
        &self.connection.peer
    }

    /// The same, to be changed.
    pub fn peer_mut(&mut self) -> &mut S::Peer {
        &mut self.connection.peer
    }

    /// Its socket.
    pub fn socket(&self) -> Arc<TcpStream> {
        self.connection.stream.shared_socket()
    }

    /// A poll has seen something.
    pub fn wake(&mut self) {
        self.drained = false;
    }

    /// Reads until a message is there or nothing more is.
    pub fn receive(&mut self) -> Received {
        let connection = &mut self.connection;
        loop {
            let Ok(wanted) = connection.wanted() else { return Received::End };
            if connection.filled >= wanted {
                return Received::Frame(wanted);
            }
            if self.drained {
                return Received::Part;
            }
            connection.make_room(wanted);
            let room = connection.input.get_mut(connection.filled..).unwrap_or_default();
            let asked = room.len();
            match rustix::net::recv(connection.stream.socket(), room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Received::End,
                Ok((read, _)) => {
                    connection.filled += read;
                    self.drained = read < asked;
                }
                Err(Errno::AGAIN) => self.drained = true,
                Err(Errno::INTR) => {}
                Err(_) => return Received::End,
            }
        }
    }

    /// The command of `length` bytes that was received; none where only a thread can answer it: what is compressed, of an old driver,
    /// malformed, or wants no reply or several.
    pub fn command(&self, length: usize) -> Option<OpMsg<'_>> {
        let frame = self.connection.input.get(..length)?;
        if Header::of_frame(frame).ok()?.op_code != OpCode::MSG {
            return None;
        }
        match Message::parse(frame).ok()? {
            Message::Msg(message) if !message.more_to_come() && !message.exhaust_allowed() => Some(message),
            _ => None,
        }
    }

    /// Answers the command of `length` bytes: `write` writes the reply's body. Whether all of it went; if not, a thread has to
    /// send the rest ([`Unattended::attend`]). What `write` fails with leaves the command unanswered.
    pub fn reply(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
        let connection = &mut self.connection;
        let request_id = Header::of_frame(connection.input.get(..length).unwrap_or_default())?.request_id;
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

    /// Answers the message of `length` bytes as a thread of its own would, but sends only what goes without waiting.
    pub fn answer(&mut self, length: usize) -> Answered {
        let answer = self.connection.write_answer(length);
        if answer == Answer::Unanswered {
            return Answered::NotWhole;
        }
        self.connection.service.traffic().received(length);
        if answer == Answer::Close {
            return Answered::End;
        }
        if !self.send(length) {
            return Answered::NotWhole;
        }
        let connection = &self.connection;
        if connection.service.is_over(&connection.peer) { Answered::End } else { Answered::Whole }
    }

    /// Sends what goes of the reply to the message of `length` bytes, which is done with; whether all went.
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

    /// Goes on by a thread of its own, which sends what is not sent and answers what is not answered.
    pub fn attend(self) {
        let Unattended { mut connection, sent, .. } = self;
        let service = Arc::clone(&connection.service);
        spawn(&*service, connection.id(), move || {
            let rest = connection.output.get(sent..).unwrap_or_default();
            if rest.is_empty() || connection.stream.write_all(rest).is_ok() {
                connection.serve();
            }
        });
    }
}

/// How many bytes the socket took. One that fails says so to whoever reads it next.
fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => return sent,
            Err(Errno::INTR) => {}
            Err(_) => return 0,
        }
    }
}

impl<S: Service> AsFd for Unattended<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.socket().as_fd()
    }
}

impl<S: Service> fmt::Debug for Unattended<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unattended").field("drained", &self.drained).finish_non_exhaustive()
    }
}
