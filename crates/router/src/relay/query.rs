//! Which requests a loop passes on: queries of known collections that one shard answers.

use std::sync::Arc;

use fathom_service::Incoming;
use fathom_service::parse::Listed;

use crate::backend::Backend;
use crate::commands::{Command, for_shard, shards_of};
use crate::dispatch::request_of;
use crate::instance::Instance;
use crate::outgoing::Outgoing;
use crate::request::Request;

/// Requests above this could fill a socket and make the loop wait.
const MOST_BYTES: usize = 8 << 10;

/// A query for one shard.
pub(super) struct Query<'a> {
    pub(super) command: &'static Command,
    pub(super) request: Request<'a>,
    pub(super) backend: Arc<Backend>,
    pub(super) outgoing: Outgoing<'a>,
    /// Whether its cursor lives until it is closed.
    pub(super) no_timeout: bool,
}

impl<'a> Query<'a> {
    /// The query that a request of `length` bytes is; none if it is anything else, or wrong, or if somebody would have to be asked
    /// where to send it.
    pub(super) fn read(
        instance: &Instance,
        length: usize,
        incoming: &Incoming<'a>,
        fields: &'a Listed<'a>,
    ) -> Option<Query<'a>> {
        if length > MOST_BYTES || fields.first()?.0 != "find" {
            return None;
        }
        let (command, request) = request_of(instance, incoming, fields).ok()?;
        if request.is_numbered {
            return None;
        }
        let (_, no_timeout) = request.cursor_terms().ok()?;
        let route = instance.known_route(request.database, &request.namespace().ok()?)?;
        let shards = shards_of(&request, &route).ok()?;
        let [shard] = shards.as_slice() else { return None };
        let backend = instance.cluster.known_shard(shard)?;
        let outgoing = for_shard(&request, &route, shard).ok()?;
        Some(Query { command, request, backend, outgoing, no_timeout })
    }
}
