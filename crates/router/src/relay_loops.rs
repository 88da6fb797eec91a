//! The loops of the relay, as those see them who hand connections over.

use fathom_service::event_loop::{EventLoop, EventLoops};
use fathom_service::{Service, Unattended};

use crate::client::Client;

/// After how many queries of one shard, one after the other, a connection is taken over. Giving it back costs a thread.
const RUN: u32 = 16;

/// The loops, as those see them who hand connections over.
#[derive(Debug)]
pub(crate) struct Relay<S: Service> {
    loops: EventLoops<S>,
}

impl<S: Service> Default for Relay<S> {
    fn default() -> Self {
        Relay { loops: EventLoops::default() }
    }
}

impl<S: Service> Relay<S> {
    /// How many loops there are.
    pub(crate) fn loops(&self) -> usize {
        self.loops.all().len()
    }

    /// The loops.
    pub(crate) fn all(&self) -> &[EventLoop<S>] {
        self.loops.all()
    }

    /// Whether a client's connection is to be taken over; where all loops are busy it keeps its thread.
    pub(crate) fn wants(&self, client: &Client) -> bool {
        client.one_shard_queries() >= RUN && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<S>) {
        self.loops.take(connection);
    }

    /// Wakes all loops.
    pub(crate) fn ring(&self) {
        self.loops.ring();
    }
}
