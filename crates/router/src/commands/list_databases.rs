//! `listDatabases`: those of all shards and of the config servers, each once, their sizes added up.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use fathom_query::Filter;
use fathom_service::parse;

use super::everywhere::number;
use super::{Reply, variables_of};
use crate::Result;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;

/// Lists them.
pub(super) fn run(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let name_only = parse::boolean(request.fields, "nameOnly")?;
    let filter = match parse::document(request.fields, "filter")? {
        Some(filter) => Some(Filter::parse(filter, &variables_of(request)?)?),
        None => None,
    };
    let command = Outgoing::of(&doc! { "listDatabases": 1 })?;
    let config = Arc::clone(op.instance.cluster.config());
    let backends = op.instance.cluster.shards().into_iter().map(|shard| shard.backend);
    let commands: Vec<_> =
        std::iter::once(config).chain(backends).map(|backend| (backend, command.clone())).collect();
    let mut databases: BTreeMap<String, (f64, bool, Document)> = BTreeMap::new();
    for (answer, (backend, _)) in
        call::ask_all("admin", &commands, &request.sending()).into_iter().zip(&commands)
    {
        let answer = parse::owned(&answer?)?;
        let of_config = backend.id() == "config";
        for entry in answer.get_array("databases").into_iter().flatten().filter_map(Bson::as_document) {
            let name = entry.get_str("name").unwrap_or_default();
            // What a shard keeps for itself is nobody's; `config` and `admin` are the config servers'.
            if name == "local" || matches!(name, "config" | "admin") != of_config {
                continue;
            }
            let place = databases.entry(name.to_owned()).or_insert_with(|| (0.0, true, Document::new()));
            place.0 += number(entry, "sizeOnDisk");
            place.1 &= entry.get_bool("empty").unwrap_or(false);
            place.2.insert(backend.id(), number(entry, "sizeOnDisk"));
        }
    }
    let mut total = 0.0;
    let mut array = reply.begin_array("databases");
    for (name, (bytes, empty, shards)) in databases {
        let entry = match name_only {
            true => doc! { "name": name },
            false => doc! { "name": name, "sizeOnDisk": bytes, "empty": empty, "shards": shards },
        };
        if let Some(filter) = &filter
            && filter.matches(&parse::raw_of(&entry)?)?.is_none()
        {
            continue;
        }
        total += bytes;
        array.bson(&Bson::Document(entry));
    }
    array.end();
    if !name_only {
        reply.f64("totalSize", total);
    }
    Ok(())
}
