//! Ends a connection from another thread, while its own waits for a reply.

use std::net::TcpStream;

use crate::{Connection, Result};

/// The means to end a connection; the thread that waits on it gets an error.
#[derive(Debug)]
pub struct Interrupter(TcpStream);

impl Interrupter {
    /// Ends it. A connection that has ended already stays so.
    pub fn interrupt(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl Connection {
    /// The means to end this connection from another thread.
    pub fn interrupter(&self) -> Result<Interrupter> {
        Ok(Interrupter(self.stream.socket()?))
    }
}
