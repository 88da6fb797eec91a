//! The server's state of each connection: a client, an engine session of its own, and sometimes a login in progress.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::Session;
use fathom_service::{Answer, IdleConnection, NetworkCounters, RequestMessage, Service};

use crate::Result;
use crate::auth::Conversation;
use crate::client::Client;
use crate::dispatch::{self, RequestContext};
use crate::executor::GateRequest;
use crate::instance::Instance;
use crate::log::Log;

/// The state of a connection.
pub(crate) struct ConnectionPeer {
    client: Arc<Client>,
    session: Option<Box<dyn Session>>,
    conversation: Option<Conversation>,
    /// The number of consecutive brief operations up to now.
    brief_run: u32,
    /// Its last request for the gate to the event loops.
    asked: GateRequest,
    /// Whether an event loop serves it.
    in_loop: bool,
}

impl ConnectionPeer {
    /// Records that an event loop takes the connection over.
    pub(crate) fn enter_loop(&mut self) {
        self.in_loop = true;
    }

    /// Records that the connection gets its own thread again, and resets its run of brief operations.
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
    type Peer = ConnectionPeer;

    fn log(&self) -> &Log {
        &self.log
    }

    fn traffic(&self) -> &NetworkCounters {
        &self.counters.network
    }

    fn is_stopping(&self) -> bool {
        Instance::is_stopping(self)
    }

    fn welcome(&self, remote: &str, socket: &Arc<TcpStream>) -> (u64, ConnectionPeer) {
        let client = self.clients.add(remote.to_owned());
        client.set_socket(Arc::clone(socket));
        (
            client.id,
            ConnectionPeer {
                client,
                session: None,
                conversation: None,
                brief_run: 0,
                asked: GateRequest::default(),
                in_loop: false,
            },
        )
    }

    fn turn_away(&self) {
        self.clients.reject();
    }

    fn answer(
        self: &Arc<Self>,
        peer: &mut ConnectionPeer,
        incoming: &RequestMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer> {
        if peer.session.is_none() {
            peer.session = Some(self.engine.session()?);
        }
        let Some(session) = &peer.session else { return Ok(Answer::Close) };
        let place = RequestContext {
            instance: self,
            session: &**session,
            client: &peer.client,
            in_loop: peer.in_loop,
        };
        let ran = dispatch::run(&place, incoming, &mut peer.conversation, out);
        peer.brief_run = if ran.brief { peer.brief_run.saturating_add(1) } else { 0 };
        Ok(ran.answer)
    }

    fn is_wanted(&self, peer: &ConnectionPeer) -> bool {
        self.executor.wants(peer.brief_run, &peer.asked) && !Instance::is_stopping(self)
    }

    fn take_over(self: &Arc<Self>, connection: IdleConnection<Self>) {
        self.executor.take(connection);
    }

    fn is_over(&self, peer: &ConnectionPeer) -> bool {
        peer.client.close.load(Ordering::Relaxed)
    }

    fn leave(&self, id: u64) {
        self.clients.remove(id);
    }
}
