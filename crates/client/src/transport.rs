//! A socket, in the clear or through TLS, for those who wait for it and for those who are told when it is ready.
//!
//! With [`Transport::set_nonblocking`] every call does what can be done now. Of TLS a write may be taken and not be sent yet,
//! and what is read may want an answer: then [`Transport::wants_write`] says so until a `flush` succeeds. Reading never waits for sending, so that two sides that
//! both have much to say do not wait for each other.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::{ClientConnection, StreamOwned};

/// A connected socket; with TLS, after the handshake.
pub enum Transport {
    /// In the clear.
    Plain(TcpStream),
    /// Through TLS. Its parts are for questions about the session: bytes go through [`Read`] and [`Write`] of this type.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => tls.get_ref(),
        }
    }

    /// Whether calls return [`io::ErrorKind::WouldBlock`] where they would wait. Time-outs do not matter then.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket().set_nonblocking(nonblocking)
    }

    /// Whether bytes of TLS are still to be sent: ask for readiness to write, then `flush`.
    pub fn wants_write(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.conn.wants_write(),
        }
    }
}

impl Read for Transport {
    /// With TLS, one call may return less than was received: read until [`io::ErrorKind::WouldBlock`], since a poll sees only
    /// what is still in the socket.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let StreamOwned { conn, sock } = match self {
            Transport::Plain(socket) => return socket.read(buffer),
            Transport::Tls(tls) => tls.as_mut(),
        };
        loop {
            match conn.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            conn.read_tls(sock)?;
            if let Err(cause) = conn.process_new_packets() {
                // What is wrong is told to the other side, as far as it goes.
                let _ = conn.write_tls(sock);
                return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
            }
        }
    }
}

impl Write for Transport {
    /// With TLS, takes as much as its buffer has room for, and sends of that what the socket takes now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let StreamOwned { conn, sock } = match self {
            Transport::Plain(socket) => return socket.write(bytes),
            Transport::Tls(tls) => tls.as_mut(),
        };
        let mut taken = conn.writer().write(bytes)?;
        let sent = send(conn, sock);
        if taken == 0 && !bytes.is_empty() {
            // The buffer was full. Without room by now, the caller must wait as for a full socket.
            taken = conn.writer().write(bytes)?;
            if taken == 0 {
                return Err(sent.err().unwrap_or_else(|| io::ErrorKind::WouldBlock.into()));
            }
        }
        // An error of the socket comes again at the next call; that these bytes were taken would be lost.
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.flush(),
            Transport::Tls(tls) => send(&mut tls.conn, &mut tls.sock),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Transport::Plain(_)) { "Plain" } else { "Tls" };
        f.debug_tuple(kind).field(self.socket()).finish()
    }
}

/// Sends what TLS has ready.
fn send(conn: &mut ClientConnection, sock: &mut TcpStream) -> io::Result<()> {
    while conn.wants_write() {
        match conn.write_tls(sock) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
