//! The collections of a workload: what their documents look like, how many there are, which indexes they have.

use bson::{Bson, Document};
use fathom_errors::Error;

use super::item::{Fields, Item};
use super::template::{Compiler, Generator, Template};

/// The largest document that a server takes, in bytes.
pub(super) const LARGEST_BYTES: u64 = 16 << 20;
/// The most documents of a collection.
const MOST_DOCUMENTS: u64 = 1_000_000_000_000;
/// The most collections, and the most indexes of one, as servers have it.
const MOST_COLLECTIONS: usize = 1000;
const MOST_INDEXES: usize = 63;

/// Table: the options of an index that are handed on to the server.
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

/// A collection.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// How many documents the load makes it hold.
    pub documents: u64,
    /// Whether the load drops it first.
    pub drop: bool,
    /// The indexes besides that of `_id`, as `createIndexes` takes them.
    pub indexes: Vec<Document>,
    /// What `create` is given besides the name; none if the server is to create the collection by itself.
    pub options: Option<Document>,
    /// What its documents are; none if nothing is inserted.
    pub(super) document: Option<Template>,
}

/// Reads the collections, in the order in which they are loaded.
pub(super) fn read(compiler: &mut Compiler, item: &Item<'_>) -> Result<Vec<Collection>, Error> {
    let entries = item.entries()?;
    if entries.is_empty() || entries.len() > MOST_COLLECTIONS {
        return Err(item.refuse(format!("1 to {MOST_COLLECTIONS} collections are wanted")));
    }
    compiler.collections = entries.iter().map(|(name, _)| (*name).to_owned()).collect();
    entries.iter().map(|(name, inner)| collection(compiler, name, inner)).collect()
}

fn collection(compiler: &mut Compiler, name: &str, item: &Item<'_>) -> Result<Collection, Error> {
    if name.is_empty() || name.contains('$') || name.len() > 200 {
        return Err(item.refuse("a collection's name has 1 to 200 bytes and no '$'"));
    }
    let fields = item.fields(&["documents", "drop", "indexes", "options", "document"])?;
    let document = match fields.get("document") {
        None => None,
        Some(inner) => Some(record(compiler, inner)?),
    };
    let documents = fields.count("documents", 0, MOST_DOCUMENTS)?.unwrap_or(0);
    if documents > 0 && document.is_none() {
        return Err(item.refuse("it has documents to load, but 'document' does not say what they are"));
    }
    let drop = fields.truth("drop", false)?;
    let indexes = indexes(compiler, &fields)?;
    let options = fields.get("options").map(|options| compiler.plain_document(options)).transpose()?;
    Ok(Collection { name: name.to_owned(), documents, drop, indexes, options, document })
}

/// Reads the template of a record, which has a number.
pub(super) fn record(compiler: &mut Compiler, item: &Item<'_>) -> Result<Template, Error> {
    compiler.is_record = true;
    let template = compiler.document(item);
    compiler.is_record = false;
    let template = template?;
    let largest = template.largest_bytes();
    if largest > LARGEST_BYTES {
        return Err(item.refuse(format!(
            "a document may become {largest} bytes large, and a server takes {LARGEST_BYTES}"
        )));
    }
    Ok(template)
}

fn indexes(compiler: &mut Compiler, fields: &Fields<'_>) -> Result<Vec<Document>, Error> {
    let Some(item) = fields.get("indexes") else { return Ok(Vec::new()) };
    let list = item.list()?;
    if list.len() > MOST_INDEXES {
        return Err(
            item.refuse(format!("a collection has {MOST_INDEXES} indexes at most besides that of _id"))
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

/// A direction as drivers put it into an index's name.
fn name_of(value: &Bson) -> String {
    match value {
        Bson::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How the number of the next record is found in a collection that holds some already.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resumption {
    /// The largest value of this field says it: the field, its start and step.
    Largest { field: String, start: i64, step: i64 },
    /// It is looked for which values of this field are there.
    Probe(String),
    /// There is nothing to tell it by, and nothing to collide with: as many as there are.
    Count,
}

impl Collection {
    /// How the number of the next record is found: by `_id`, else by an indexed field, the unique ones first.
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
