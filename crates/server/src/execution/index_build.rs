//! Builds indexes over the records of a collection that the caller has locked exclusively.
//!
//! Keys are gathered, sorted and written in runs, so that a table grows mostly at its right edge; mongod sorts all of them first
//! and writes in bulk. No collection uses the new table until the catalog names it: a failed build drops it, and after a crash the
//! next start does.

use std::sync::Arc;

use bson::Document;
use fathom_engine::{Durability, Key};
use fathom_query::{IndexKeys, KeyString};

use crate::Result;
use crate::client::{Client, OperationProgress};
use crate::config::version;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, Index, IndexSpec, document_of};

/// The memory for keys waiting to be written, of all indexes of one build.
const RUN_BYTES: usize = 64 << 20;
/// The number of keys in one transaction.
const KEYS_AT_ONCE: usize = 1000;
/// The number of records between two checks of the clock and the kill switch.
const RECORDS_AT_ONCE: u32 = 128;

/// Keys of one index waiting to be written.
struct KeyRun {
    index: Index,
    keys: Vec<(KeyString, i64)>,
}

/// Builds indexes that the catalog does not name yet; `defaults` are the engine settings for those without their own.
/// The caller holds the collection exclusively.
pub(crate) fn build_indexes(
    op: &OperationContext<'_>,
    collection: &Collection,
    specs: Vec<IndexSpec>,
    defaults: &Document,
) -> Result<Vec<Arc<Index>>> {
    let catalog = &op.instance.catalog;
    let mut runs = Vec::with_capacity(specs.len());
    let mut built = Ok(());
    for spec in specs {
        match catalog.new_index(spec, defaults, collection.namespace()) {
            Ok(index) => runs.push(KeyRun { index, keys: Vec::new() }),
            Err(failure) => {
                built = Err(failure);
                break;
            }
        }
    }
    built = built.and_then(|()| fill(op, collection, &mut runs));
    op.client.set_progress(None);
    if let Err(failure) = built {
        op.session().rollback();
        op.session().release(None);
        runs.iter().for_each(|run| catalog.discard(&run.index));
        return Err(failure);
    }
    Ok(runs.into_iter().map(|run| Arc::new(run.index)).collect())
}

/// The records that a build has scanned, for `currentOp`.
struct BuildProgress<'b> {
    client: &'b Client,
    shown: OperationProgress,
}

impl<'b> BuildProgress<'b> {
    fn new(op: &'b OperationContext<'_>, collection: &Collection) -> BuildProgress<'b> {
        let [major, minor, ..] = version::numbers(&op.instance.config.claimed_version);
        let phase = match (major, minor) >= (4, 2) {
            true => "Index Build: scanning collection",
            false => "Index Build",
        };
        let total = collection.records().unsigned_abs();
        let shown = OperationProgress { phase, done: 0, total };
        op.client.set_progress(Some(shown));
        BuildProgress { client: op.client, shown }
    }

    fn scanned(&mut self, records: u32) {
        self.shown.done += u64::from(records);
        self.client.set_progress(Some(self.shown));
    }
}

fn fill(op: &OperationContext<'_>, collection: &Collection, runs: &mut [KeyRun]) -> Result<()> {
    let mut after = i64::MIN;
    let mut progress = BuildProgress::new(op, collection);
    loop {
        // A snapshot for each run, so that none is held while the keys are written.
        op.session().begin()?;
        let gathered = gather(op, collection, runs, &mut after, &mut progress);
        op.session().rollback();
        let more = gathered?;
        for run in &mut *runs {
            write(op, run, collection.namespace())?;
        }
        if !more {
            return op.instance.fail_points.after_scan(|| op.check_interrupt());
        }
    }
}

/// Gathers keys until the memory is full; returns whether records remain.
fn gather(
    op: &OperationContext<'_>,
    collection: &Collection,
    runs: &mut [KeyRun],
    after: &mut i64,
    progress: &mut BuildProgress<'_>,
) -> Result<bool> {
    let mut cursor = op.session().cursor(collection.records_table()?)?;
    let mut bytes = 0;
    let mut records: u32 = 0;
    let mut keys = IndexKeys::default();
    let mut more = cursor.seek(Key::Number(after.saturating_add(1)))?;
    while more {
        let record = cursor.key().number().unwrap_or_default();
        let document = document_of(cursor.value())?;
        for run in &mut *runs {
            run.index.keys(document, &mut keys)?;
            if keys.multikey {
                run.index.become_multikey();
            }
            for key in keys.keys.drain(..) {
                bytes += key.bytes.len() + key.type_bits.len() + size_of::<(KeyString, i64)>();
                run.keys.push((key, record));
            }
        }
        *after = record;
        records = records.wrapping_add(1);
        if records.is_multiple_of(RECORDS_AT_ONCE) {
            op.check_interrupt()?;
            progress.scanned(RECORDS_AT_ONCE);
            if bytes >= RUN_BYTES {
                return Ok(true);
            }
        }
        more = cursor.next()?;
    }
    Ok(false)
}

/// Writes the gathered keys of an index.
fn write(op: &OperationContext<'_>, run: &mut KeyRun, namespace: &str) -> Result<()> {
    let session = op.session();
    run.keys.sort_unstable_by(|left, right| left.0.bytes.cmp(&right.0.bytes).then(left.1.cmp(&right.1)));
    for some in run.keys.chunks(KEYS_AT_ONCE) {
        op.check_interrupt()?;
        session.begin()?;
        for (key, record) in some {
            run.index.add(session, key, *record, namespace)?;
        }
        session.commit(Durability::Buffered)?;
    }
    run.keys.clear();
    Ok(())
}
