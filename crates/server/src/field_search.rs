//! Whether a document has a field, by its bytes alone.
//!
//! A command is asked for a dozen optional fields that it mostly has not; reading every value on the way to learn that costs
//! as much as the rest of the parsing. This looks at names and lengths only.

/// False if the document surely has no field of that name at its top; true if it has one or cannot be walked.
pub(crate) fn may_have(document: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    let mut rest = document.get(4..).unwrap_or_default();
    loop {
        let Some((kind, after)) = rest.split_first() else { return true };
        if *kind == 0 {
            return false;
        }
        let Some(length) = after.iter().position(|byte| *byte == 0) else { return true };
        if after.get(..length) == Some(name) {
            return true;
        }
        let Some(value) = after.get(length + 1..) else { return true };
        let Some(next) = value_bytes(*kind, value).and_then(|bytes| value.get(bytes..)) else { return true };
        rest = next;
    }
}

/// How long a value is; none if that is not plain.
fn value_bytes(kind: u8, value: &[u8]) -> Option<usize> {
    let counted = |more: usize| {
        let length = u32::from_le_bytes(value.get(..4)?.try_into().ok()?);
        usize::try_from(length).ok()?.checked_add(more)
    };
    match kind {
        // Double, date, timestamp, long.
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        // String, code, symbol.
        0x02 | 0x0d | 0x0e => counted(4),
        // Document, array, code with scope.
        0x03 | 0x04 | 0x0f => counted(0),
        // Binary.
        0x05 => counted(5),
        // Undefined, null, least and greatest key.
        0x06 | 0x0a | 0x7f | 0xff => Some(0),
        // ObjectId, boolean, int, decimal.
        0x07 => Some(12),
        0x08 => Some(1),
        0x10 => Some(4),
        0x13 => Some(16),
        // Pointer.
        0x0c => counted(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;

    #[test]
    fn it_agrees_with_the_reader_for_every_type() {
        let document = doc! {
            "double": 1.0, "string": "s", "document": { "inner": 1 }, "array": [1, "two"], "null": Bson::Null,
            "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "undefined": Bson::Undefined, "id": bson::oid::ObjectId::new(), "bool": true, "int": 1, "long": 1_i64,
            "date": bson::DateTime::now(), "time": bson::Timestamp { time: 1, increment: 2 },
            "least": Bson::MinKey, "greatest": Bson::MaxKey, "code": Bson::JavaScriptCode("f".to_owned()),
            "decimal": "1.5".parse::<bson::Decimal128>().unwrap(), "symbol": Bson::Symbol("s".to_owned()), "last": 1,
        };
        let bytes = document.to_vec().unwrap();
        for name in document.keys() {
            assert!(may_have(&bytes, name), "{name}");
        }
        for name in ["", "inner", "doubl", "doubles", "none"] {
            assert!(!may_have(&bytes, name), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_walked_is_left_to_the_reader() {
        for bytes in [
            &[][..],
            &[5, 0, 0, 0],
            &[9, 0, 0, 0, 0x77, b'a', 0, 1, 0],
            &[9, 0, 0, 0, 2, b'a', 0, 0xff, 0xff],
        ] {
            assert!(may_have(bytes, "b"), "{bytes:?}");
        }
    }
}
