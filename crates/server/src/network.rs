//! What the server is to its connections: each has a client, an engine session of its own, and perhaps a login under way.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::Session;
use fathom_service::{Answer, Incoming, Service, Traffic};

use crate::Result;
use crate::auth::Conversation;
use crate::client::Client;
use crate::dispatch::{self, Surroundings};
use crate::instance::Instance;
use crate::log::Log;

/// What is kept of a connection.
pub(crate) struct Peer {
    client: Arc<Client>,
    session: Option<Box<dyn Session>>,
    conversation: Option<Conversation>,
}

impl Service for Instance {
    type Peer = Peer;

    fn log(&self) -> &Log {
        &self.log
    }

    fn traffic(&self) -> &Traffic {
        &self.counters.network
    }

    fn is_stopping(&self) -> bool {
        Instance::is_stopping(self)
    }

    fn welcome(&self, remote: &str, socket: &Arc<TcpStream>) -> (u64, Peer) {
        let client = self.clients.add(remote.to_owned());
        client.set_socket(Arc::clone(socket));
        (client.id, Peer { client, session: None, conversation: None })
    }

    fn turn_away(&self) {
        self.clients.reject();
    }

    fn answer(
        self: &Arc<Self>,
        peer: &mut Peer,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer> {
        if peer.session.is_none() {
            peer.session = Some(self.engine.session()?);
        }
        let Some(session) = &peer.session else { return Ok(Answer::Close) };
        let surroundings = Surroundings { instance: self, session: &**session, client: &peer.client };
        Ok(dispatch::run(&surroundings, incoming, &mut peer.conversation, out))
    }

    fn is_over(&self, peer: &Peer) -> bool {
        peer.client.close.load(Ordering::Relaxed)
    }

    fn leave(&self, id: u64) {
        self.clients.remove(id);
    }
}
