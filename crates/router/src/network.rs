//! What the router is to its connections.

use std::net::TcpStream;
use std::sync::Arc;

use fathom_service::log::Log;
use fathom_service::{Answer, Incoming, Service, Traffic, Unattended};

use crate::Result;
use crate::client::Client;
use crate::dispatch;
use crate::instance::Instance;

impl Service for Instance {
    type Peer = Arc<Client>;

    fn log(&self) -> &Log {
        &self.log
    }

    fn traffic(&self) -> &Traffic {
        &self.counters.traffic
    }

    fn is_stopping(&self) -> bool {
        Instance::is_stopping(self)
    }

    fn welcome(&self, remote: &str, _socket: &Arc<TcpStream>) -> (u64, Arc<Client>) {
        let client = self.clients.add(remote);
        (client.id, client)
    }

    fn turn_away(&self) {
        self.clients.reject();
    }

    fn answer(
        self: &Arc<Self>,
        peer: &mut Arc<Client>,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer> {
        Ok(dispatch::run(self, peer, incoming, out))
    }

    fn is_over(&self, _: &Arc<Client>) -> bool {
        false
    }

    fn leave(&self, id: u64) {
        self.clients.remove(id);
    }

    fn is_wanted(&self, client: &Arc<Client>) -> bool {
        self.relay.wants(client) && !self.is_stopping()
    }

    fn take_over(self: &Arc<Self>, connection: Unattended<Self>) {
        self.relay.take(connection);
    }
}
