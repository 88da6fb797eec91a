//! Queries that one shard answers, without a thread for each client: a few loops pass them on and their replies back.
//!
//! A thread that waits for its client, then for a shard, sleeps and is woken twice for each query, which costs more than
//! all that is done to the query itself (docs/journal). A connection that has sent nothing else for a while is therefore taken over
//! by a loop. It goes back to a thread of its own at the first message that is anything else or does not succeed: the loop never
//! answers with a failure, repeats nothing and waits for nobody but its sockets, so that what a client sees is decided in one place.

mod query;
mod session;
mod shards;

use std::sync::Arc;

use fathom_service::Unattended;
use fathom_service::event_loop::EventLoops;

use crate::client::Client;
use crate::instance::Instance;

/// After how many queries of one shard, one after the other, a connection is taken over. Giving it back costs a thread.
const RUN: u32 = 16;

/// The loops, as those see them who hand connections over.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    loops: EventLoops<Instance>,
}

impl Relay {
    /// How many loops there are.
    pub(crate) fn loops(&self) -> usize {
        self.loops.all().len()
    }

    /// Whether a client's connection is to be taken over; where all loops are busy it keeps its thread.
    pub(crate) fn wants(&self, client: &Client) -> bool {
        client.one_shard_queries() >= RUN && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<Instance>) {
        self.loops.take(connection);
    }

    /// Wakes all loops.
    pub(crate) fn ring(&self) {
        self.loops.ring();
    }
}

/// Runs one of the loops until the router stops.
pub(crate) fn run(instance: &Arc<Instance>, place: usize) {
    let loops = instance.relay.loops.all();
    if let Some(one) = loops.get(place) {
        let _ending = one.ending();
        let before = place.checked_sub(1).and_then(|before| loops.get(before));
        session::Sessions::new(instance, one, before.map(|before| before.load())).run();
    }
}
