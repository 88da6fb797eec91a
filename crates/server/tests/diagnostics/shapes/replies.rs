//! Table: the replies to compare, and the engines on which they are compared.

use std::collections::BTreeSet;
use std::path::Path;

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_server::config::EngineName;

use super::allowed::ALLOWED;
use super::compare::differences;
use crate::diagnostics::support::{Lab, at, run_on};

struct Row {
    shape: &'static str,
    database: &'static str,
    command: fn() -> Document,
    /// The position of the captured part in our reply; empty for the whole.
    part: &'static str,
    engines: &'static [EngineName],
}

const BOTH: &[EngineName] = &[EngineName::WiredTiger, EngineName::RocksDb];
/// The engine with WiredTiger's own counters.
const WIRED_TIGER: &[EngineName] = &[EngineName::WiredTiger];

const fn row(shape: &'static str, database: &'static str, command: fn() -> Document) -> Row {
    Row { shape, database, command, part: "", engines: BOTH }
}

/// A reply is compared once its command is there; the rows are in the order of their shapes.
fn rows() -> Vec<Row> {
    vec![
        row("buildInfo", "admin", || doc! { "buildInfo": 1 }),
        Row { engines: WIRED_TIGER, ..row("collStats", "test", || doc! { "collStats": "c" }) },
        row("connectionStatus", "admin", || doc! { "connectionStatus": 1 }),
        row("dbStats", "test", || doc! { "dbStats": 1 }),
        row("explain", "test", || {
            doc! { "explain": { "find": "c", "filter": { "_id": "user5" } }, "verbosity": "executionStats" }
        }),
        row("hello", "admin", || doc! { "isMaster": 1 }),
        row("hostInfo", "admin", || doc! { "hostInfo": 1 }),
        Row {
            part: "opLatencies",
            ..row(
                "opLatencies",
                "admin",
                || doc! { "serverStatus": 1, "opLatencies": { "histograms": true } },
            )
        },
        Row { engines: WIRED_TIGER, ..row("serverStatus", "admin", || doc! { "serverStatus": 1 }) },
        Row {
            part: "data.serverStatus",
            engines: WIRED_TIGER,
            ..row("serverStatus", "admin", || doc! { "getDiagnosticData": 1 })
        },
        Row { part: "totals", ..row("top", "admin", || doc! { "top": 1 }) },
    ]
}

fn shape(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/mongod-4.0.3/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The differences of a reply from a captured one.
pub(crate) fn shape_differences(name: &str, reply: &Document) -> Vec<String> {
    differences(&shape(name), reply)
}

/// Runs commands for every counter that appears only once it is used.
fn prepare(connection: &mut Connection) {
    run_on(connection, "test", &doc! { "insert": "c", "documents": [{ "_id": "user5", "a": 1 }] });
    run_on(connection, "test", &doc! { "find": "c" });
    run_on(
        connection,
        "test",
        &doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 2 } } }] },
    );
}

#[test]
fn replies_have_the_shapes_of_mongods() {
    let mut used = BTreeSet::new();
    let mut unexpected = Vec::new();
    for engine in BOTH {
        let lab = Lab::start(*engine);
        let mut connection = lab.connect();
        prepare(&mut connection);
        for row in rows().into_iter().filter(|row| row.engines.contains(engine)) {
            let whole = run_on(&mut connection, row.database, &(row.command)());
            let ours = if row.part.is_empty() { &whole } else { at(&whole, row.part).as_document().unwrap() };
            for difference in differences(&shape(row.shape), ours) {
                match ALLOWED.iter().position(|one| one.covers(row.shape, &difference)) {
                    Some(place) => drop(used.insert(place)),
                    None => unexpected.push(format!("{}: {difference}", row.shape)),
                }
            }
        }
    }
    unexpected.sort();
    unexpected.dedup();
    assert!(unexpected.is_empty(), "not listed:\n{}", unexpected.join("\n"));
    let gone: Vec<String> = ALLOWED
        .iter()
        .enumerate()
        .filter(|(place, _)| !used.contains(place))
        .map(|(_, one)| format!("{}: {}", one.shape, one.difference))
        .collect();
    assert!(gone.is_empty(), "listed, but no more a difference:\n{}", gone.join("\n"));
}
