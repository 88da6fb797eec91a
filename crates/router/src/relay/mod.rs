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

use crate::instance::Instance;

/// Runs one of the loops until the router stops.
pub(crate) fn run(instance: &Arc<Instance>, place: usize) {
    let loops = instance.relay.all();
    if let Some(one) = loops.get(place) {
        let _ending = one.ending();
        let before = place.checked_sub(1).and_then(|before| loops.get(before));
        session::Sessions::new(instance, one, before.map(|before| before.load())).run();
    }
}
