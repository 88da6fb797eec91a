//! Workloads that a YAML file describes: documents of any shape, any of MongoDB's commands, mixes by weight, phases by time.
//!
//! docs/workloads.md describes the format. The random values depend on the seed alone, except for object ids and the time. The
//! whole file is checked before anything is sent: unknown keys are refused by name, as are inserts that cannot fit a message.

mod collection_state;
mod collections;
mod item;
mod operations;
mod phases;
mod prepare;
mod requests;
mod shared;
mod source;
mod template;

use fathom_errors::{Error, Kind};
use serde_yaml_ng::Value;

pub use collections::WorkloadCollection;
pub use phases::{BulkLoad, Phase};
pub use shared::{DocumentShared, Part};
pub use source::{DocumentSource, DocumentState};

use self::item::Item;
use self::operations::{LOAD, Operation};
use self::template::{ChooserSettings, Compiler, ExistingValue, Template};

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;
/// The most bytes of documents in a message; a little below the 48,000,000 that a message may have.
const MAX_MESSAGE_BYTES: u64 = 44 << 20;

#[derive(Clone, Debug)]
pub struct DocumentWorkload {
    collections: Vec<WorkloadCollection>,
    load: BulkLoad,
    operations: Vec<Operation>,
    phases: Vec<Phase>,
    /// The settings of the record choosers.
    choosers: Vec<ChooserSettings>,
    /// The fields that are looked up in existing records.
    existing: Vec<ExistingValue>,
}

impl DocumentWorkload {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// `Kind::Usage`, with the place in the file and the error there.
    pub fn parse(text: &str) -> Result<DocumentWorkload, Error> {
        if text.len() > MAX_FILE_BYTES {
            return Err(Error::usage(format!("a workload file can have at most {MAX_FILE_BYTES} bytes")));
        }
        let malformed =
            |error: serde_yaml_ng::Error| Error::new(Kind::Usage, "it is not YAML").because(error);
        let mut value: Value = serde_yaml_ng::from_str(text).map_err(malformed)?;
        value.apply_merge().map_err(malformed)?;
        let root = Item::root(&value);
        let fields = root.fields(&["collections", "load", "operations", "phases"])?;
        let mut compiler = Compiler::default();
        let collections = collections::read(&mut compiler, fields.need("collections")?)?;
        let operations = match fields.get("operations") {
            Some(item) => operations::read(&mut compiler, item, &collections)?,
            None => Vec::new(),
        };
        compiler.resolve(|place| collections.get(place)?.document.as_ref())?;
        let documents = collections.iter().filter_map(|collection| collection.document.as_ref());
        let most = documents.map(most_in_a_message).min().unwrap_or(1);
        let load = phases::read_load(fields.get("load"), most)?;
        let phases = phases::read(fields.get("phases"), &operations)?;
        let Compiler { choosers, existing, .. } = compiler;
        Ok(DocumentWorkload { collections, load, operations, phases, choosers, existing })
    }

    /// Its collections, in the order in which they are loaded.
    pub fn collections(&self) -> &[WorkloadCollection] {
        &self.collections
    }

    /// The settings of its load.
    pub fn load(&self) -> &BulkLoad {
        &self.load
    }

    /// The phases of the run, in their order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The metric names of operations and their parts.
    pub fn metrics(&self) -> Vec<String> {
        let mut names = vec![LOAD.to_owned()];
        names.extend(self.operations.iter().map(|operation| operation.name.clone()));
        names.extend(self.operations.iter().flat_map(Operation::parts));
        names
    }
}

/// The number of documents of a template that always fit a message.
fn most_in_a_message(document: &Template) -> u64 {
    (MAX_MESSAGE_BYTES / document.largest_bytes().max(1)).clamp(1, 100_000)
}
