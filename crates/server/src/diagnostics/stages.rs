//! The stages of a pipeline that say what the server knows of itself: `$collStats`, `$indexStats`, `$currentOp`.
//!
//! They give whole documents; who runs the pipeline checks that the stage comes first and that the client may see it.

use bson::{Bson, DateTime, Document, doc};
use fathom_query::{Code, Failure};

use super::Usage;
use super::build::{self, number};
use super::collection_stats::{write, write_latencies};
use super::current_op::{Shown, current_operations};
use crate::Result;
use crate::client::Client;
use crate::instance::Instance;
use crate::storage::Collection;

/// The document of `$collStats` for a collection by its full name; `options` is the stage's own document.
pub(crate) fn coll_stats_stage(
    instance: &Instance,
    namespace: &str,
    options: &Document,
) -> Result<Vec<Document>> {
    let collection = instance.catalog.get(namespace);
    let one = build::document(|writer| {
        writer.string("ns", namespace);
        writer.string("host", &build::host(instance));
        writer.date_time("localTime", DateTime::now());
        for (name, value) in options {
            let options = value.as_document().ok_or_else(|| not_an_object(name, value))?;
            match name.as_str() {
                "latencyStats" => {
                    let histograms = options.get_bool("histograms").unwrap_or(false);
                    let none = Usage::default();
                    let usage = collection.as_ref().map_or(&none, |collection| collection.usage());
                    write_latencies(usage, histograms, &mut writer.begin_document(name));
                }
                "storageStats" => {
                    let scale = scale_of(options.get("scale"))?;
                    let collection = found(collection.as_deref(), namespace, name)?;
                    write(instance, collection, scale, &mut writer.begin_document(name))?;
                }
                "count" => number(writer, name, found(collection.as_deref(), namespace, name)?.records()),
                other => {
                    let what = format!("this server does not have {other} of $collStats");
                    return Err(Failure::new(Code::CommandNotSupported, what));
                }
            }
        }
        Ok(())
    })?;
    Ok(vec![one])
}

/// The documents of `$indexStats`: one for each index of a collection by its full name; none if there is no such collection.
pub(crate) fn index_stats_stage(instance: &Instance, namespace: &str) -> Vec<Document> {
    let Some(collection) = instance.catalog.get(namespace) else { return Vec::new() };
    let host = build::host(instance);
    let state = collection.lock();
    let document = |index: &std::sync::Arc<crate::storage::Index>| {
        let (uses, since) = index.accesses();
        doc! {
            "name": index.name(),
            "key": index.spec().key().clone(),
            "host": &host,
            "accesses": { "ops": build::signed(uses), "since": since },
            "spec": index.spec().document().clone(),
        }
    };
    state.indexes.iter().map(document).collect()
}

/// The documents of `$currentOp` as `client` may see them; `options` is the stage's own document.
pub(crate) fn current_op_stage(
    instance: &Instance,
    client: &Client,
    options: &Document,
) -> Result<Vec<Document>> {
    let mut shown = Shown { idle: false, all_users: false };
    for (name, value) in options {
        let flag = || {
            value.as_bool().ok_or_else(|| {
                let what = format!("The '{name}' parameter of the $currentOp stage must be a boolean value");
                Failure::new(Code::FailedToParse, what)
            })
        };
        match name.as_str() {
            "idleConnections" => shown.idle = flag()?,
            "allUsers" => shown.all_users = flag()?,
            // Sessions, cursors and forwarded operations that rest are none here that this stage could show.
            "idleSessions" | "idleCursors" | "localOps" | "backtrace" | "truncateOps" => {
                flag()?;
            }
            other => {
                let what = format!("Unrecognized option '{other}' in $currentOp stage.");
                return Err(Failure::new(Code::FailedToParse, what));
            }
        }
    }
    Ok(current_operations(instance, client, shown))
}

/// What sizes are divided by; absent is 1.
pub(crate) fn scale_of(value: Option<&Bson>) -> Result<i64> {
    let scale = match value {
        None | Some(Bson::Null) => return Ok(1),
        Some(Bson::Int32(scale)) => i64::from(*scale),
        Some(Bson::Int64(scale)) => *scale,
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast, as mongod reads it")]
        Some(Bson::Double(scale)) => *scale as i64,
        Some(_) => return Err(Failure::new(Code::TypeMismatch, "scale has to be a number")),
    };
    if scale < 1 {
        return Err(Failure::new(Code::BadValue, "scale has to be >= 1"));
    }
    Ok(scale)
}

fn found<'c>(collection: Option<&'c Collection>, namespace: &str, part: &str) -> Result<&'c Collection> {
    collection.ok_or_else(|| {
        let what = format!(
            "Unable to retrieve {part} in $collStats stage :: caused by :: Collection [{namespace}] not found."
        );
        Failure::new(Code::NamespaceNotFound, what)
    })
}

fn not_an_object(name: &str, value: &Bson) -> Failure {
    let what =
        format!("{name} argument must be an object, but got {value} of type {:?}", value.element_type());
    Failure::new(Code(40167), what)
}
