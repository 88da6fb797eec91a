//! The collections of a workload: the template of their documents, the number of documents, and the indexes.

use bson::{Bson, Document};
use fathom_errors::Error;

use super::item::{Item, MappingEntries};
use super::template::{Compiler, Generator, Template};

/// The largest document that a server takes, in bytes.
pub(super) const MAX_BYTES: u64 = 16 << 20;
/// The most documents of a collection.
const MAX_DOCUMENTS: u64 = 1_000_000_000_000;
/// The most collections, and the most indexes of one, as in servers.
const MAX_COLLECTIONS: usize = 1000;
const MAX_INDEXES: usize = 63;

/// Table: the options of an index that are passed on to the server.
const INDEX_OPTIONS: [&str; 14] = [
    "key",
    "name",
    "unique",
    "sparse",
    "expireAfterSeconds",
    "partialFilterExpression",
    "collation",
    "background",
    "hidden",
    "storageEngine",
    "wildcardProjection",
    "weights",
    "default_language",
    "v",
];

#[derive(Clone, Debug)]
pub struct WorkloadCollection {
    pub name: String,
    /// The number of documents that it holds after the load.
    pub documents: u64,
    /// Whether the load drops it first.
    pub drop: bool,
    /// The indexes besides that of `_id`, as `createIndexes` takes them.
    pub indexes: Vec<Document>,
    /// The options of `create` besides the name; `None` if the server is to create the collection by itself.
    pub options: Option<Document>,
    /// The template of its documents; `None` if nothing is inserted.
    pub(super) document: Option<Template>,
}

/// Reads the collections, in the order in which they are loaded.
pub(super) fn read(compiler: &mut Compiler, item: &Item<'_>) -> Result<Vec<WorkloadCollection>, Error> {
    let entries = item.entries()?;
    if entries.is_empty() || entries.len() > MAX_COLLECTIONS {
        return Err(item.refuse(format!("1 to {MAX_COLLECTIONS} collections are expected")));
    }
    compiler.collections = entries.iter().map(|(name, _)| (*name).to_owned()).collect();
    entries.iter().map(|(name, inner)| collection(compiler, name, inner)).collect()
}

fn collection(compiler: &mut Compiler, name: &str, item: &Item<'_>) -> Result<WorkloadCollection, Error> {
    if name.is_empty() || name.contains('$') || name.len() > 200 {
        return Err(item.refuse("a collection's name has 1 to 200 bytes and no '$'"));
    }
    let fields = item.fields(&["documents", "drop", "indexes", "options", "document"])?;
    let document = match fields.get("document") {
        None => None,
        Some(inner) => Some(record(compiler, inner)?),
    };
    let documents = fields.count("documents", 0, MAX_DOCUMENTS)?.unwrap_or(0);
    if documents > 0 && document.is_none() {
        return Err(item.refuse("it has documents to load, but 'document' does not say what they are"));
    }
    let drop = fields.truth("drop", false)?;
    let indexes = indexes(compiler, &fields)?;
    let options = fields.get("options").map(|options| compiler.plain_document(options)).transpose()?;
    Ok(WorkloadCollection { name: name.to_owned(), documents, drop, indexes, options, document })
}

/// Reads the template of a record, which has a number.
pub(super) fn record(compiler: &mut Compiler, item: &Item<'_>) -> Result<Template, Error> {
    compiler.is_record = true;
    let template = compiler.document(item);
    compiler.is_record = false;
    let template = template?;
    let largest = template.largest_bytes();
    if largest > MAX_BYTES {
        return Err(item
            .refuse(format!("a document may become {largest} bytes large, and a server takes {MAX_BYTES}")));
    }
    Ok(template)
}

fn indexes(compiler: &mut Compiler, fields: &MappingEntries<'_>) -> Result<Vec<Document>, Error> {
    let Some(item) = fields.get("indexes") else { return Ok(Vec::new()) };
    let list = item.list()?;
    if list.len() > MAX_INDEXES {
        return Err(
            item.refuse(format!("a collection has {MAX_INDEXES} indexes at most besides that of _id"))
        );
    }
    list.iter().map(|inner| index(compiler, inner)).collect()
}

fn index(compiler: &mut Compiler, item: &Item<'_>) -> Result<Document, Error> {
    let fields = item.fields(&INDEX_OPTIONS)?;
    let key_item = fields.need("key")?;
    let key = compiler.plain_document(key_item)?;
    if key.is_empty() {
        return Err(key_item.refuse("an index has at least one field"));
    }
    let mut index = compiler.plain_document(item)?;
    if !index.contains_key("name") {
        let parts: Vec<String> =
            key.iter().map(|(field, value)| format!("{field}_{}", name_of(value))).collect();
        index.insert("name", parts.join("_"));
    }
    Ok(index)
}

/// A direction as drivers write it in an index's name.
fn name_of(value: &Bson) -> String {
    match value {
        Bson::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The method to find the number of the next record in a collection that already holds some.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resumption {
    /// From the largest value of this field: the field, its start and step.
    Largest { field: String, start: i64, step: i64 },
    /// By probing which values of this field exist.
    Probe(String),
    /// By the count of documents: no field gives the number, and inserts cannot collide.
    Count,
}

impl WorkloadCollection {
    /// The method to find the number of the next record: by `_id`, else by an indexed field, unique ones first.
    pub(super) fn resumption(&self) -> Resumption {
        let Some(document) = &self.document else { return Resumption::Count };
        let unique = |index: &&Document| index.get_bool("unique").unwrap_or(false);
        let (first, then): (Vec<&Document>, Vec<&Document>) = self.indexes.iter().partition(unique);
        let leading = |index: &&Document| index.get_document("key").ok()?.keys().next().cloned();
        let indexed = first.iter().chain(&then).filter_map(leading);
        for field in std::iter::once("_id".to_owned()).chain(indexed) {
            let Some(template) = document.at(&field).filter(|template| template.is_numbered()) else {
                continue;
            };
            if let Template::Generator(generator) = template
                && let Generator::Sequence { start, step } = **generator
            {
                return Resumption::Largest { field, start, step };
            }
            return Resumption::Probe(field);
        }
        Resumption::Count
    }
}
