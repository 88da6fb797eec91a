//! A client's socket, plain or encrypted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A socket that the listener may shut down while a thread reads it.
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

#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl SocketStream {
    /// Encrypts the socket from here on; `first` holds the bytes already read from it.
    pub(super) fn encrypt(self, config: &Arc<ServerConfig>, mut first: &[u8]) -> io::Result<SocketStream> {
        let SocketStream::Plain(socket) = self else { return Ok(self) };
        let mut connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        while !first.is_empty() {
            connection.read_tls(&mut first)?;
        }
        Ok(SocketStream::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    /// Whether the stream is unencrypted.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, SocketStream::Plain(_))
    }

    /// The TCP socket under TLS.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            SocketStream::Plain(socket) => &socket.0,
            SocketStream::Tls(stream) => &stream.sock.0,
        }
    }

    pub(super) fn shared_socket(&self) -> Arc<TcpStream> {
        match self {
            SocketStream::Plain(socket) => Arc::clone(&socket.0),
            SocketStream::Tls(stream) => Arc::clone(&stream.sock.0),
        }
    }

    /// Reads the available bytes, at least one; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                SocketStream::Plain(socket) => socket.read(buffer),
                SocketStream::Tls(stream) => stream.read(buffer),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A peer that disconnects without closing TLS ends a connection like any other.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
        }
    }

    /// Writes all of the bytes.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            SocketStream::Plain(socket) => socket.write_all(bytes),
            SocketStream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}
