//! A client's socket, plain or encrypted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A socket that the listener may shut down while its thread reads.
#[derive(Clone, Debug)]
pub(super) struct Socket(pub(super) Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's bytes.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Stream {
    /// The socket encrypted from here on, where `first` was read of it already.
    pub(super) fn encrypt(self, config: &Arc<ServerConfig>, mut first: &[u8]) -> io::Result<Stream> {
        let Stream::Plain(socket) = self else { return Ok(self) };
        let mut connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        while !first.is_empty() {
            connection.read_tls(&mut first)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    /// Whether bytes go as they are.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }

    /// The socket below.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => &socket.0,
            Stream::Tls(stream) => &stream.sock.0,
        }
    }

    /// The same, shared.
    pub(super) fn shared_socket(&self) -> Arc<TcpStream> {
        match self {
            Stream::Plain(socket) => Arc::clone(&socket.0),
            Stream::Tls(stream) => Arc::clone(&stream.sock.0),
        }
    }

    /// Reads what is there, at least one byte; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Stream::Plain(socket) => socket.read(buffer),
                Stream::Tls(stream) => stream.read(buffer),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A peer that goes without saying good-bye ends a connection like any other.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
        }
    }

    /// Writes all of it.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}
