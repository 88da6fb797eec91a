//! `distinct`: the values of all shards, each once, in their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::raw::RawBson;
use fathom_query::{Bound, KeyBuilder};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::count::shards_of;
use super::{Reply, pass_on, send_to};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;
use crate::route::Route;

/// What all values together may take, as in mongod.
const MOST_BYTES: usize = 16 << 20;

/// Lists the values.
pub(super) fn run(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.commands.add(1);
    let found =
        op.instance.with_route(request.database, &namespace, |route| answer(op, request, route, reply))?;
    if found.is_none() {
        reply.begin_array("values").end();
    }
    Ok(())
}

fn answer(op: Operation<'_>, request: &Request<'_>, route: &Route, reply: &mut Reply<'_>) -> Result<()> {
    let shards = shards_of(request, route)?;
    if let [only] = shards.as_slice() {
        return send_to(op, request, route, only, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        });
    }
    let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::with_capacity(shards.len());
    for shard in &shards {
        let command = Outgoing::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let mut values: BTreeMap<Vec<u8>, RawBson> = BTreeMap::new();
    let mut bytes = 0;
    for answer in call::ask_all(request.database, &commands, &request.sending()) {
        let answer = answer?;
        let found = answer.get_array("values").map_err(|error| parse::malformed(&error))?;
        for value in found {
            let value = value.map_err(|error| parse::malformed(&error))?;
            let mut key = KeyBuilder::new();
            key.append(value, false);
            let key = key.finish(Bound::Exact).bytes;
            bytes += key.len() + 8;
            if bytes > MOST_BYTES {
                return Err(Failure::new(Code(17217), "distinct too big, 16mb cap"));
            }
            values.entry(key).or_insert_with(|| value.into());
        }
    }
    let mut array = reply.begin_array("values");
    values.values().for_each(|value| array.value(value.as_raw_bson_ref()));
    Ok(())
}
