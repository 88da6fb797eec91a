//! What the server is to its connections: each has a client, an engine session of its own, and perhaps a login under way.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::Session;
use fathom_service::{Answer, Incoming, Service, Traffic, Unattended};

use crate::Result;
use crate::auth::Conversation;
use crate::client::Client;
use crate::dispatch::{self, Surroundings};
use crate::executor::Asked;
use crate::instance::Instance;
use crate::log::Log;

/// What is kept of a connection.
pub(crate) struct Peer {
    client: Arc<Client>,
    session: Option<Box<dyn Session>>,
    conversation: Option<Conversation>,
    /// How many brief operations came one after the other, up to now.
    brief_run: u32,
    /// When it last asked for the way to an event loop.
    asked: Asked,
    /// Whether an event loop has it.
    in_loop: bool,
}

impl Peer {
    /// An event loop takes it over.
    pub(crate) fn enter_loop(&mut self) {
        self.in_loop = true;
    }

    /// It gets a thread of its own, and proves itself anew.
    pub(crate) fn leave_loop(&mut self) {
        self.in_loop = false;
        self.brief_run = 0;
    }

    /// Whether its last operation was brief.
    pub(crate) fn is_brief(&self) -> bool {
        self.brief_run > 0
    }
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
        (
            client.id,
            Peer {
                client,
                session: None,
                conversation: None,
                brief_run: 0,
                asked: Asked::default(),
                in_loop: false,
            },
        )
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
        let place =
            Surroundings { instance: self, session: &**session, client: &peer.client, in_loop: peer.in_loop };
        let ran = dispatch::run(&place, incoming, &mut peer.conversation, out);
        peer.brief_run = if ran.brief { peer.brief_run.saturating_add(1) } else { 0 };
        Ok(ran.answer)
    }

    fn is_wanted(&self, peer: &Peer) -> bool {
        self.executor.wants(peer.brief_run, &peer.asked) && !Instance::is_stopping(self)
    }

    fn take_over(self: &Arc<Self>, connection: Unattended<Self>) {
        self.executor.take(connection);
    }

    fn is_over(&self, peer: &Peer) -> bool {
        peer.client.close.load(Ordering::Relaxed)
    }

    fn leave(&self, id: u64) {
        self.clients.remove(id);
    }
}
