//! A connection that is ready for commands, taken apart for an event loop that drives many of them itself.

use std::fmt;

use bson::RawDocumentBuf;
use fathom_errors::Kind;
use fathom_wire::{Codec, Compressor};

use super::Connection;
use crate::{Address, Error, Result, Transport};

/// What a connection is made of, after the handshake and the login.
pub struct Parts {
    /// The socket, blocking and with the target's time-outs until told otherwise.
    pub transport: Transport,
    /// Compresses and decompresses for this connection.
    pub codec: Codec,
    /// What both sides agreed to compress with.
    pub compressor: Option<Compressor>,
    /// The number of the last request; the next is one more.
    pub request_id: i32,
    /// The server's address.
    pub address: Address,
    /// The reply to hello.
    pub hello: RawDocumentBuf,
}

impl Connection {
    /// Takes the connection apart. No reply may be outstanding: bytes that came without being asked for are an error, and so
    /// is a connection that a network error has ended.
    pub fn into_parts(self) -> Result<Parts> {
        let Connection { stream, address, codec, compressor, request_id, hello, broken, .. } = self;
        if broken {
            let what = format!("the connection to {address} was ended by an error before");
            return Err(fathom_errors::Error::new(Kind::Stopped, what).into());
        }
        let (transport, unread_bytes) = stream.into_transport();
        if unread_bytes > 0 {
            let what = format!("it sent {unread_bytes} bytes that were not asked for");
            return Err(Error::protocol(what));
        }
        Ok(Parts { transport, codec, compressor, request_id, address, hello })
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("transport", &self.transport)
            .field("compressor", &self.compressor)
            .field("request_id", &self.request_id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
