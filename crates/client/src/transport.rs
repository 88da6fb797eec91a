//! A socket, in plain text or with TLS, for blocking callers and for those that poll it; and the frames that a connection reads
//! from its bytes.
//!
//! With [`Transport::set_nonblocking`] every call does only what it can without waiting. With TLS, written bytes may be buffered
//! and not sent yet, and reading may produce bytes to send: then [`Transport::wants_write`] returns true until a `flush` succeeds.
//! Reading never waits for sending, so that two sides with much data to send do not block each other.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_wire::Header;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::tls::{ClientTls, client_config};
use crate::{Address, Target, host_addresses};

/// A connected socket; with TLS, after the handshake.
pub enum Transport {
    /// A connection without TLS.
    Plain(TcpStream),
    /// A connection with TLS. Its parts are for questions about the session: bytes pass through [`Read`] and [`Write`] of this type.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// The TCP socket under TLS.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => tls.get_ref(),
        }
    }

    /// Makes calls return [`io::ErrorKind::WouldBlock`] instead of waiting, or not. Time-outs do not apply then.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket().set_nonblocking(nonblocking)
    }

    /// Whether TLS bytes remain to be sent: poll for readiness to write, then `flush`.
    pub fn wants_write(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.conn.wants_write(),
        }
    }
}

impl Read for Transport {
    /// With TLS, one call may return less than was received: read until [`io::ErrorKind::WouldBlock`], since a poll sees only the
    /// bytes that are still in the socket.
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
                // Sends the TLS alert to the peer, if that is still possible.
                let _ = conn.write_tls(sock);
                return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
            }
        }
    }
}

impl Write for Transport {
    /// With TLS, accepts as many bytes as its buffer has room for, and sends as many as the socket accepts now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let StreamOwned { conn, sock } = match self {
            Transport::Plain(socket) => return socket.write(bytes),
            Transport::Tls(tls) => tls.as_mut(),
        };
        let mut taken = conn.writer().write(bytes)?;
        let sent = send(conn, sock);
        if taken == 0 && !bytes.is_empty() {
            // The buffer was full. If it has no room now either, the caller must wait as for a full socket.
            taken = conn.writer().write(bytes)?;
            if taken == 0 {
                return Err(sent.err().unwrap_or_else(|| io::ErrorKind::WouldBlock.into()));
            }
        }
        // A socket error is reported again by the next call; reporting it here would hide that these bytes were accepted.
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

/// Sends the bytes that TLS has ready.
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

/// The size of a read from the socket, so that a small reply takes one read.
const READ_BYTES: usize = 64 * 1024;

pub(crate) struct TransportStream {
    transport: Transport,
    address: Address,
    timeout: Option<Duration>,
    /// Bytes received and not consumed yet: `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl TransportStream {
    /// Connects to `address`; until [`TransportStream::set_timeout`] every wait is limited by the target's connect time-out.
    pub(crate) fn connect(address: &Address, target: &Target) -> Result<TransportStream> {
        let socket = connect(address, target.connect_timeout)?;
        let failed = |cause| connect_failed(address, cause);
        // A request is written whole in one call: waiting for more to send would only add latency.
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(target.connect_timeout)).map_err(failed)?;
        socket.set_write_timeout(Some(target.connect_timeout)).map_err(failed)?;
        let transport = match &target.tls {
            None => Transport::Plain(socket),
            Some(tls) => Transport::Tls(Box::new(shake_hands(address, tls, socket)?)),
        };
        let timeout = Some(target.connect_timeout);
        Ok(TransportStream {
            transport,
            address: address.clone(),
            timeout,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        })
    }

    /// Sets the time limit of every further wait.
    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        let socket = self.transport.socket();
        let failed = |cause| Error::new(Kind::Io, "cannot set a time-out").because(cause);
        socket.set_read_timeout(timeout).map_err(failed)?;
        socket.set_write_timeout(timeout).map_err(failed)?;
        self.timeout = timeout;
        Ok(())
    }

    /// Another handle to the socket.
    pub(crate) fn socket(&self) -> Result<TcpStream> {
        let socket = self.transport.socket().try_clone();
        socket.map_err(|cause| Error::new(Kind::Io, "cannot take a second handle of a socket").because(cause))
    }

    /// The socket, and the number of bytes that were received and not consumed.
    pub(crate) fn into_transport(self) -> (Transport, usize) {
        (self.transport, self.end - self.start)
    }

    /// Sends all of `frames`.
    pub(crate) fn send(&mut self, frames: &[u8]) -> Result<()> {
        let sent = self.transport.write_all(frames).and_then(|()| self.transport.flush());
        sent.map_err(|cause| self.failed("send to", cause))
    }

    /// Makes calls do only what they can without waiting, or not.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        let failed = |cause| Error::new(Kind::Io, "cannot change how a socket waits").because(cause);
        self.transport.set_nonblocking(nonblocking).map_err(failed)
    }

    /// Reads until a frame is complete; false if the non-blocking socket has no more bytes now.
    pub(crate) fn has_frame(&mut self) -> Result<bool> {
        loop {
            let have = self.end - self.start;
            let wanted = if have < Header::BYTES { Header::BYTES } else { self.length()? };
            if have >= Header::BYTES && have >= wanted {
                return Ok(true);
            }
            self.make_room(wanted);
            let place = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.transport.read(place) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.end += count,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.failed("receive from", cause)),
            }
        }
    }

    /// The length of the frame whose header has arrived.
    fn length(&self) -> Result<usize> {
        let header = self.buffer.get(self.start..).and_then(|bytes| bytes.first_chunk());
        let header = header.map(Header::parse).transpose().map_err(|failure| {
            let what = format!("{} does not speak MongoDB's protocol", self.address);
            Error::new(Kind::Malformed, what).because(failure).with_id("not-mongodb")
        })?;
        Ok(header.map_or(0, |header| header.length_bytes))
    }

    /// The next complete frame.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        // A blocking socket returns without data only when its time-out has passed.
        if !self.has_frame()? {
            return Err(self.failed("receive from", io::ErrorKind::WouldBlock.into()));
        }
        let frame = self.start..self.start + self.length()?;
        self.start = frame.end;
        Ok(self.buffer.get(frame).unwrap_or_default())
    }

    /// Makes room for a frame of `wanted` bytes after the buffered ones.
    fn make_room(&mut self, wanted: usize) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }

    fn closed(&self) -> Error {
        Error::new(Kind::Io, format!("{} closed the connection", self.address))
    }

    fn failed(&self, action: &str, cause: io::Error) -> Error {
        match cause.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let waited = self.timeout.unwrap_or_default();
                Error::new(Kind::Io, format!("cannot {action} {}: no progress for {waited:?}", self.address))
            }
            // A closed pipe here is the server's side, not our own output.
            _ => Error::new(Kind::Io, format!("cannot {action} {}", self.address)).because(cause),
        }
    }
}

impl AsFd for TransportStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

impl fmt::Debug for TransportStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("address", &self.address)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// Connects to the first of the host's addresses that answers, all within `timeout`. Each address gets a share of the remaining
/// time, so that an unresponsive one leaves some for the next.
fn connect(address: &Address, timeout: Duration) -> Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut addresses = host_addresses(&address.host, address.port, timeout)
        .map_err(|cause| unresolved(address, cause))?
        .into_iter();
    while let Some(socket_address) = addresses.next() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            last = io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}"));
            break;
        }
        let shares = u32::try_from(addresses.len()).unwrap_or(u32::MAX).saturating_add(1);
        match TcpStream::connect_timeout(&socket_address, left / shares) {
            Ok(socket) => return Ok(socket),
            Err(cause) => last = cause,
        }
    }
    Err(connect_failed(address, last))
}

/// Performs the TLS handshake at once, so that certificate errors are reported here.
fn shake_hands(
    address: &Address,
    tls: &ClientTls,
    socket: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(address.host.clone())
        .map_err(|cause| Error::usage(format!("'{}' is not a host name", address.host)).because(cause))?;
    let failed = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(Kind::Io, format!("the TLS handshake with {address} failed")).because(cause)
    };
    let client = ClientConnection::new(Arc::clone(&client_config(tls)?), name)
        .map_err(|cause| failed(cause.into()))?;
    let mut stream = StreamOwned::new(client, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|cause| failed(cause.into()))?;
    }
    Ok(stream)
}

/// The only connection error that is [`Kind::NotFound`].
fn unresolved(address: &Address, cause: io::Error) -> Error {
    let what = format!("cannot connect to {address}, whose name cannot be resolved");
    Error::new(Kind::NotFound, what).because(cause).with_id("no-server").advise("check the name")
}

fn connect_failed(address: &Address, cause: io::Error) -> Error {
    let is_limit = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|limit| cause.raw_os_error() == Some(limit.raw_os_error()));
    let advice = match is_limit {
        true => "raise the limit of open files (ulimit -n), or take fewer connections",
        false => "check that the server runs and listens there",
    };
    let what = format!("cannot connect to {address}");
    Error::new(Kind::Io, what).because(cause).with_id("no-server").advise(advice)
}
