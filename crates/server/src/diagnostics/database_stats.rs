//! Statistics of one database: `dbStats`.

use fathom_wire::DocumentWriter;

use crate::Result;
use crate::instance::Instance;
use crate::stats::output::{length, number, signed};

/// The sums over a database's collections, in bytes.
#[derive(Debug, Default)]
struct DatabaseSums {
    collections: usize,
    views: usize,
    indexes: usize,
    objects: i64,
    data: i64,
    storage: u64,
    index: u64,
    free: u64,
    index_free: u64,
}

/// Writes the whole reply. Sizes are divided by `scale`; `free` adds the bytes that the tables could reuse.
pub(crate) fn write(
    instance: &Instance,
    database: &str,
    scale: i64,
    free: bool,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let sums = sum(instance, database)?;
    let scaled = |bytes: u64| as_double(signed(bytes)) / as_double(scale);
    writer.string("db", database);
    number(writer, "collections", length(sums.collections));
    number(writer, "views", length(sums.views));
    number(writer, "objects", sums.objects);
    let average = if sums.objects == 0 { 0.0 } else { as_double(sums.data) / as_double(sums.objects) };
    writer.f64("avgObjSize", average);
    writer.f64("dataSize", as_double(sums.data) / as_double(scale));
    writer.f64("storageSize", scaled(sums.storage));
    if free {
        writer.f64("freeStorageSize", scaled(sums.free));
    }
    // Extents belong to an engine that was removed long ago, but old tools still read the field.
    number(writer, "numExtents", 0);
    number(writer, "indexes", length(sums.indexes));
    writer.f64("indexSize", scaled(sums.index));
    if free {
        writer.f64("indexFreeStorageSize", scaled(sums.index_free));
    }
    writer.f64("totalSize", scaled(sums.storage + sums.index));
    if free {
        writer.f64("totalFreeStorageSize", scaled(sums.free + sums.index_free));
    }
    writer.f64("scaleFactor", as_double(scale));
    // An in-memory engine is on no file system.
    if instance.directory.is_some()
        && let Ok(system) = rustix::fs::statvfs(&instance.config.storage.db_path)
    {
        let used = system.f_blocks.saturating_sub(system.f_bfree);
        writer.f64("fsUsedSize", scaled(used.saturating_mul(system.f_frsize)));
        writer.f64("fsTotalSize", scaled(system.f_blocks.saturating_mul(system.f_frsize)));
    }
    Ok(())
}

fn sum(instance: &Instance, database: &str) -> Result<DatabaseSums> {
    let mut sums = DatabaseSums::default();
    for collection in instance.catalog.of_database(database) {
        let Some(table) = collection.table() else {
            sums.views += 1;
            continue;
        };
        let engine = &instance.engine;
        sums.collections += 1;
        sums.objects += collection.records();
        sums.data += collection.bytes();
        sums.storage += engine.size_on_disk(table)?;
        sums.free += engine.free_bytes(table)?;
        for index in &collection.lock().indexes {
            sums.indexes += 1;
            sums.index += engine.size_on_disk(index.table())?;
            sums.index_free += engine.free_bytes(index.table())?;
        }
    }
    Ok(sums)
}

#[expect(clippy::cast_precision_loss, reason = "mongod gives sizes as doubles")]
fn as_double(value: i64) -> f64 {
    value as f64
}
