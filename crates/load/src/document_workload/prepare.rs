//! Prepares a server for a workload: creates collections and indexes, and finds the numbers at which inserts continue.

use std::sync::Arc;

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};
use fathom_client::{Code, Connection};
use fathom_errors::{Error, Kind};
use fathom_stats::SeededRandom;
use fathom_wire::DocumentWriter;

use super::DocumentWorkload;
use super::collections::{Resumption, WorkloadCollection};
use super::shared::DocumentShared;
use super::template::{Drawing, Template, TemplateVariables};
use crate::binding::Binding;

/// The number of values that one query probes.
const PROBED_VALUES: u64 = 1000;

impl DocumentWorkload {
    /// Creates collections and indexes, and finds out how many documents each collection holds. If a load follows,
    /// it first drops the collections that are to be dropped.
    ///
    /// # Errors
    /// If the server refuses a command or the connection is lost.
    pub fn prepare(
        &self,
        connection: &mut Connection,
        binding: Binding,
        load_follows: bool,
    ) -> Result<Arc<DocumentShared>, Error> {
        let mut next = Vec::new();
        for collection in &self.collections {
            let about = |error: Error| {
                let what = format!("cannot prepare the collection '{}'", collection.name);
                Error::new(error.kind(), what).because(error)
            };
            set_up(collection, connection, &binding.database, load_follows).map_err(about)?;
            next.push(self.next_of(collection, connection, &binding.database).map_err(about)?);
        }
        Ok(Arc::new(DocumentShared::new(self.clone(), binding, &next)))
    }

    /// The number of the next document of a collection.
    fn next_of(
        &self,
        collection: &WorkloadCollection,
        connection: &mut Connection,
        database: &str,
    ) -> Result<u64, Error> {
        match collection.resumption() {
            Resumption::Count => count(collection, connection, database),
            Resumption::Largest { field, start, step } => {
                let command = doc! {
                    "find": &collection.name, "filter": { &field: { "$gte": start } }, "sort": { &field: -1 },
                    "projection": { &field: 1 }, "limit": 1, "singleBatch": true,
                };
                let found = all(connection, database, &command)?;
                let Some(largest) = found.first().and_then(|document| at(document, &field)) else {
                    return Ok(0);
                };
                let largest = match largest {
                    Bson::Int32(number) => Some(i64::from(number)),
                    Bson::Int64(number) => Some(number),
                    Bson::Double(number) => Some(number as i64),
                    _ => None,
                };
                let above = largest.and_then(|largest| largest.checked_sub(start)).unwrap_or(0);
                Ok(u64::try_from(above / step.max(1) + 1).unwrap_or(0))
            }
            Resumption::Probe(field) => {
                let Some(template) = collection.document.as_ref().and_then(|document| document.at(&field))
                else {
                    return Ok(0);
                };
                self.probe(collection, &field, template, connection, database)
            }
        }
    }

    /// Probes from the count of records on, until a full row of values is missing.
    fn probe(
        &self,
        collection: &WorkloadCollection,
        field: &str,
        template: &Template,
        connection: &mut Connection,
        database: &str,
    ) -> Result<u64, Error> {
        let mut next = count(collection, connection, database)?;
        loop {
            let values: Vec<Bson> =
                (next..next + PROBED_VALUES).map(|number| self.value(template, number)).collect();
            let command = doc! {
                "find": &collection.name, "filter": { field: { "$in": &values } }, "projection": { field: 1 },
            };
            let found = all(connection, database, &command)?;
            let found: Vec<Bson> = found.iter().filter_map(|document| at(document, field)).collect();
            let Some(last) = values.iter().rposition(|value| found.contains(value)) else { return Ok(next) };
            next += last as u64 + 1;
        }
    }

    /// The value of a template that depends only on the record's number.
    fn value(&self, template: &Template, number: u64) -> Bson {
        let mut drawing = Drawing {
            random: &mut SeededRandom::from_seed(0),
            existing: &self.existing,
            collections: &[],
            choosers: &mut [],
            variables: &TemplateVariables::default(),
            number,
        };
        let mut bytes = Vec::new();
        let mut alone = DocumentWriter::new(&mut bytes);
        template.append_field("value", &mut drawing, &mut alone);
        alone.end();
        let alone = RawDocumentBuf::from_bytes(bytes).ok();
        let value = alone.and_then(|alone| alone.get("value").ok().flatten().map(RawBson::from));
        value.and_then(|value| Bson::try_from(value).ok()).unwrap_or(Bson::Null)
    }
}

fn set_up(
    collection: &WorkloadCollection,
    connection: &mut Connection,
    database: &str,
    load_follows: bool,
) -> Result<(), Error> {
    if load_follows && collection.drop {
        run(connection, database, &doc! { "drop": &collection.name }, Code::NamespaceNotFound)?;
    }
    if let Some(options) = &collection.options {
        let mut create = doc! { "create": &collection.name };
        create.extend(options.clone());
        run(connection, database, &create, Code::NamespaceExists)?;
    }
    if !collection.indexes.is_empty() {
        let create = doc! { "createIndexes": &collection.name, "indexes": &collection.indexes };
        connection.run(database, &create)?;
    }
    Ok(())
}

/// Runs a command for which one error code counts as success.
fn run(connection: &mut Connection, database: &str, command: &Document, ignored: Code) -> Result<(), Error> {
    match connection.run(database, command) {
        Ok(_) => Ok(()),
        Err(error) if error.failure().is_some_and(|failure| failure.code() == ignored) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn count(collection: &WorkloadCollection, connection: &mut Connection, database: &str) -> Result<u64, Error> {
    let reply = connection.run(database, &doc! { "count": &collection.name })?;
    let n = reply.get("n").ok().flatten().map(|n| (n.as_i32(), n.as_i64(), n.as_f64()));
    let n = n.and_then(|(int, long, double)| long.or(int.map(i64::from)).or(double.map(|n| n as i64)));
    n.and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| Error::new(Kind::Malformed, "the reply to count has no count"))
}

fn all(
    connection: &mut Connection,
    database: &str,
    command: &Document,
) -> Result<Vec<RawDocumentBuf>, Error> {
    let found: fathom_client::Result<Vec<_>> = connection.cursor(database, command)?.collect();
    Ok(found?)
}

/// The value of a field, by a path.
fn at(document: &RawDocumentBuf, path: &str) -> Option<Bson> {
    let mut document = Document::try_from(document).ok()?;
    let (parents, name) = path.rsplit_once('.').map_or((None, path), |(parents, name)| (Some(parents), name));
    for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
        document = match document.remove(parent)? {
            Bson::Document(inner) => inner,
            _ => return None,
        };
    }
    document.remove(name)
}
