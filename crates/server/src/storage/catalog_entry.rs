//! The catalog entry of a collection and its indexes, as documents of mongod's `_mdb_catalog`.

use bson::{Document, RawDocumentBuf, doc};
use fathom_query::{Code, Failure};

use crate::Result;

/// The options that a collection was created with. Unknown options were refused earlier.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CollectionOptions {
    /// The options document, as `listCollections` shows it: `capped`, `size`, `max`, `validator`, `viewOn`...
    pub(crate) document: Document,
}

impl CollectionOptions {
    /// Whether it is a view.
    pub(crate) fn is_view(&self) -> bool {
        self.document.contains_key("viewOn")
    }

    /// Whether it has no index on `_id`, like the oplog.
    pub(crate) fn has_no_id_index(&self) -> bool {
        self.document.get_bool("autoIndexId").is_ok_and(|made| !made)
    }

    /// Whether it is capped.
    pub(crate) fn is_capped(&self) -> bool {
        self.document.get_bool("capped").unwrap_or(false)
    }

    /// Whether it is dropped at the next start of a standalone server, and by the next primary of a set.
    pub(crate) fn is_temporary(&self) -> bool {
        self.document.get_bool("temp").unwrap_or(false)
    }

    /// Makes it temporary, or permanent.
    pub(crate) fn set_temporary(&mut self, temporary: bool) {
        self.document.remove("temp");
        if temporary {
            self.document.insert("temp", true);
        }
    }

    /// The maximum bytes of a capped collection.
    pub(crate) fn capped_bytes(&self) -> Option<i64> {
        self.is_capped().then(|| integer(&self.document, "size")).flatten()
    }

    /// The maximum documents of a capped collection.
    pub(crate) fn capped_documents(&self) -> Option<i64> {
        self.is_capped().then(|| integer(&self.document, "max")).flatten().filter(|max| *max > 0)
    }

    /// The engine's own settings for the table (`storageEngine.<engine>.configString`).
    pub(crate) fn engine_config(&self, engine: &str) -> String {
        engine_config(&self.document, engine)
    }

    /// The defaults for indexes without their own settings (`indexOptionDefaults`).
    pub(crate) fn index_defaults(&self) -> Document {
        self.document.get_document("indexOptionDefaults").cloned().unwrap_or_default()
    }
}

/// The options that an index was created with: the document that `listIndexes` shows, without `ns`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexSpec {
    document: Document,
}

impl IndexSpec {
    /// Makes a specification from a checked document with at least `key` and `name`.
    pub(crate) fn new(document: Document) -> IndexSpec {
        IndexSpec { document }
    }

    /// The `_id` index, which every collection has.
    pub(crate) fn id() -> IndexSpec {
        IndexSpec { document: doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" } }
    }

    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    pub(crate) fn name(&self) -> &str {
        self.document.get_str("name").unwrap_or_default()
    }

    pub(crate) fn key(&self) -> &Document {
        static EMPTY: std::sync::LazyLock<Document> = std::sync::LazyLock::new(Document::new);
        self.document.get_document("key").unwrap_or(&EMPTY)
    }

    /// Its key pattern as bytes.
    pub(crate) fn key_raw(&self) -> Result<RawDocumentBuf> {
        RawDocumentBuf::try_from(self.key()).map_err(|error| {
            Failure::new(Code::CannotCreateIndex, format!("the key pattern is not BSON: {error}"))
        })
    }

    /// Whether it is the `_id` index.
    pub(crate) fn is_id(&self) -> bool {
        self.name() == "_id_"
    }

    /// Whether keys are unique; `_id` always is.
    pub(crate) fn unique(&self) -> bool {
        self.is_id() || truthy(&self.document, "unique")
    }

    /// Whether documents without the fields are left out.
    pub(crate) fn sparse(&self) -> bool {
        truthy(&self.document, "sparse")
    }

    /// The filter of a partial index.
    pub(crate) fn partial(&self) -> Option<&Document> {
        self.document.get_document("partialFilterExpression").ok()
    }

    /// The seconds after which a document expires, for a TTL index.
    pub(crate) fn expire_after_seconds(&self) -> Option<i64> {
        integer(&self.document, "expireAfterSeconds")
    }

    /// The engine's own settings for the table, which override the collection's `defaults`.
    pub(crate) fn engine_config(&self, engine: &str, defaults: &Document) -> String {
        let own = engine_config(&self.document, engine);
        if own.is_empty() { engine_config(defaults, engine) } else { own }
    }
}

/// A number of any type as an integer.
pub(crate) fn integer(document: &Document, name: &str) -> Option<i64> {
    match document.get(name)? {
        bson::Bson::Int32(value) => Some(i64::from(*value)),
        bson::Bson::Int64(value) => Some(*value),
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast is what mongod does here")]
        bson::Bson::Double(value) => Some(*value as i64),
        _ => None,
    }
}

/// Whether a field exists and is true, as mongod reads booleans that may be numbers.
pub(crate) fn truthy(document: &Document, name: &str) -> bool {
    match document.get(name) {
        None | Some(bson::Bson::Null | bson::Bson::Undefined) => false,
        Some(bson::Bson::Boolean(value)) => *value,
        Some(bson::Bson::Double(value)) => *value != 0.0,
        Some(_) => integer(document, name) != Some(0),
    }
}

fn engine_config(document: &Document, engine: &str) -> String {
    document
        .get_document("storageEngine")
        .and_then(|engines| engines.get_document(engine))
        .and_then(|settings| settings.get_str("configString"))
        .unwrap_or_default()
        .to_owned()
}

/// A collection's entry in the catalog table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CatalogEntry {
    /// The namespace, as `database.collection`.
    pub(crate) namespace: String,
    /// The table of its records; empty for a view.
    pub(crate) ident: String,
    pub(crate) uuid: bson::Uuid,
    /// The options that it was created with.
    pub(crate) options: CollectionOptions,
    /// Its indexes: the options, the table, and whether each is multikey.
    pub(crate) indexes: Vec<(IndexSpec, String, bool)>,
}

impl CatalogEntry {
    /// The entry as a document of `_mdb_catalog`.
    pub(crate) fn to_document(&self) -> Document {
        let indexes: Vec<Document> = self
            .indexes
            .iter()
            .map(|(spec, _, multikey)| doc! { "spec": spec.document().clone(), "ready": true, "multikey": multikey })
            .collect();
        let idents: Document = self
            .indexes
            .iter()
            .map(|(spec, ident, _)| (spec.name().to_owned(), ident.clone().into()))
            .collect();
        let mut options = doc! { "uuid": self.uuid };
        options.extend(self.options.document.clone());
        doc! {
            "md": { "ns": &self.namespace, "options": options, "indexes": indexes },
            "idxIdent": idents,
            "ns": &self.namespace,
            "ident": &self.ident,
        }
    }

    /// The entry in a document of `_mdb_catalog`.
    pub(crate) fn from_document(document: &Document) -> Option<CatalogEntry> {
        let metadata = document.get_document("md").ok()?;
        let mut options = metadata.get_document("options").ok()?.clone();
        let uuid = match options.remove("uuid")? {
            bson::Bson::Binary(binary) => bson::Uuid::from_bytes(binary.bytes.try_into().ok()?),
            _ => return None,
        };
        let idents = document.get_document("idxIdent").ok()?;
        let mut indexes = Vec::new();
        for index in metadata.get_array("indexes").ok()? {
            let index = index.as_document()?;
            let spec = IndexSpec::new(index.get_document("spec").ok()?.clone());
            let ident = idents.get_str(spec.name()).ok()?.to_owned();
            indexes.push((spec, ident, index.get_bool("multikey").unwrap_or(false)));
        }
        Some(CatalogEntry {
            namespace: document.get_str("ns").ok()?.to_owned(),
            ident: document.get_str("ident").ok()?.to_owned(),
            uuid,
            options: CollectionOptions { document: options },
            indexes,
        })
    }
}
