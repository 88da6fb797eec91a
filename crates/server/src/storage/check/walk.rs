//! A walk over a whole table that nobody writes, in snapshots that are not held for long.

use std::time::{Duration, Instant};

use fathom_engine::{Key, KeyKind, Table};

use crate::Result;
use crate::operation::Operation;

/// How long one snapshot is read; longer ones keep old versions of other tables in the engine's cache.
const SNAPSHOT: Duration = Duration::from_millis(100);
/// Keys between two looks at the clock and the kill switch.
const KEYS_AT_ONCE: u32 = 128;

/// What looks at each key and value.
pub(super) type Visit<'v> = dyn FnMut(Key<'_>, &[u8]) -> Result<()> + 'v;

/// Where a walk stopped.
enum Place {
    Number(i64),
    Bytes(Vec<u8>),
}

/// Shows every key and value to `visit`, in order.
pub(super) fn walk(op: &Operation<'_>, table: &Table, visit: &mut Visit<'_>) -> Result<()> {
    let mut place = None;
    loop {
        op.check_interrupt()?;
        op.session().begin()?;
        let stopped = slice(op, table, place.as_ref(), visit);
        op.session().rollback();
        place = stopped?;
        if place.is_none() {
            return Ok(());
        }
    }
}

fn slice(
    op: &Operation<'_>,
    table: &Table,
    from: Option<&Place>,
    visit: &mut Visit<'_>,
) -> Result<Option<Place>> {
    let until = Instant::now() + SNAPSHOT;
    let mut cursor = op.session().cursor(table)?;
    let mut more = match from {
        None => cursor.first()?,
        Some(place) => {
            let key = match place {
                Place::Number(number) => Key::Number(*number),
                Place::Bytes(bytes) => Key::Bytes(bytes),
            };
            let found = cursor.seek(key)?;
            if found && cursor.key() == key { cursor.next()? } else { found }
        }
    };
    let mut keys: u32 = 0;
    while more {
        visit(cursor.key(), cursor.value())?;
        keys = keys.wrapping_add(1);
        if keys.is_multiple_of(KEYS_AT_ONCE) {
            op.check_interrupt()?;
            if Instant::now() >= until {
                return Ok(Some(match (table.keys(), cursor.key()) {
                    (KeyKind::Bytes, key) => Place::Bytes(key.bytes().unwrap_or_default().to_vec()),
                    (KeyKind::Number, key) => Place::Number(key.number().unwrap_or_default()),
                }));
            }
        }
        more = cursor.next()?;
    }
    Ok(None)
}
