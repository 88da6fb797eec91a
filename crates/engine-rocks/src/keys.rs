//! The encoding of the keys of all tables in one key space: four bytes of the table's prefix, then the key.
//!
//! A record number is written with its sign bit inverted and its high byte first, so that bytes order as numbers do.
//! Prefix 0 holds the engine's own records (`catalog`).

use fathom_engine::{Error, Key, KeyKind, Kind, Result, Table};

/// A table's prefix, with which each of its keys begins.
pub(crate) type Prefix = [u8; 4];

/// The prefix of the engine's own records.
pub(crate) const OWN: u32 = 0;
/// The largest prefix that a table may get: its end must be a prefix too.
pub(crate) const MAX_PREFIX: u32 = u32::MAX - 1;

const SIGN: u64 = 1 << 63;

/// The first possible key of a prefix, and the first one beyond it.
pub(crate) fn bounds(prefix: u32) -> [Prefix; 2] {
    [prefix.to_be_bytes(), prefix.saturating_add(1).to_be_bytes()]
}

/// The prefix of a table that this engine made.
///
/// # Errors
/// [`Kind::Usage`] for a table of another engine.
pub(crate) fn prefix_of(table: &Table) -> Result<u32> {
    u32::try_from(table.slot())
        .ok()
        .filter(|prefix| (OWN + 1..=MAX_PREFIX).contains(prefix))
        .ok_or_else(|| Error::new(Kind::Usage, format!("table {} is not one of this engine", table.ident())))
}

/// Writes the whole key to `out`, replacing its content.
///
/// # Errors
/// [`Kind::Usage`] if the key is not of the table's kind.
pub(crate) fn encode(out: &mut Vec<u8>, table: &Table, key: Key<'_>) -> Result<()> {
    let prefix = prefix_of(table)?;
    out.clear();
    out.extend_from_slice(&prefix.to_be_bytes());
    match (table.keys(), key) {
        (KeyKind::Number, Key::Number(number)) => {
            out.extend_from_slice(&(number.cast_unsigned() ^ SIGN).to_be_bytes());
        }
        (KeyKind::Bytes, Key::Bytes(bytes)) => out.extend_from_slice(bytes),
        (kind, _) => {
            let what = format!("a key of another kind than {kind:?} was given for table {}", table.ident());
            return Err(Error::new(Kind::Usage, what));
        }
    }
    Ok(())
}

/// The key within a whole key; `None` if it is too short or long for its kind.
pub(crate) fn decode(kind: KeyKind, whole: &[u8]) -> Option<Key<'_>> {
    let (_, rest) = whole.split_first_chunk::<4>()?;
    match kind {
        KeyKind::Bytes => Some(Key::Bytes(rest)),
        KeyKind::Number => {
            let bytes = <[u8; 8]>::try_from(rest).ok()?;
            Some(Key::Number((u64::from_be_bytes(bytes) ^ SIGN).cast_signed()))
        }
    }
}

/// The prefix of a whole key.
pub(crate) fn prefix_in(whole: &[u8]) -> Option<u32> {
    whole.first_chunk::<4>().map(|prefix| u32::from_be_bytes(*prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(number: i64) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, &Table::new("t", KeyKind::Number, 7), Key::Number(number)).unwrap();
        out
    }

    proptest! {
        #[test]
        fn numbers_keep_their_order_and_come_back(a: i64, b: i64) {
            let encoded = whole(a);
            prop_assert_eq!(a.cmp(&b), encoded.cmp(&whole(b)));
            prop_assert_eq!(decode(KeyKind::Number, &encoded), Some(Key::Number(a)));
        }
    }

    #[test]
    fn a_key_of_the_wrong_kind_and_a_foreign_table_are_refused() {
        let mut out = Vec::new();
        let records = Table::new("t", KeyKind::Number, 7);
        assert_eq!(encode(&mut out, &records, Key::Bytes(b"x")).unwrap_err().kind(), Kind::Usage);
        for slot in [0, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(prefix_of(&Table::new("t", KeyKind::Bytes, slot)).unwrap_err().kind(), Kind::Usage);
        }
        assert_eq!(decode(KeyKind::Number, b"\0\0\0\x07short"), None);
    }
}
