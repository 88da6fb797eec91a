//! The hash of a value, as in hashed indexes and hashed sharding (mongodb/mongo:src/mongo/db/hasher.cpp).
//!
//! The hash is MD5 over a seed and the value: its class, its name if it is within another value, and its bytes, with all numbers
//! as 64-bit integers. Values below the depth that documents may have are left out, so that no input exhausts the stack.
use crate::decimal::{DIGITS, Decimal};
use crate::expression::value::scalar;
use crate::order::{MAX_DEPTH, canonical_type, db_pointer_bytes};
use bson::{Bson, RawBson, RawBsonRef, spec::BinarySubtype};
use md5::{Digest, Md5};

/// The end of an object or array: the class of an end element, without name and bytes.
const END: [u8; 4] = 0i32.to_le_bytes();
/// The double 2^63, the first one above all 64-bit integers.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The 64-bit hash with seed 0.
pub fn hash64(value: RawBsonRef<'_>) -> i64 {
    let mut digest = Md5::new();
    digest.update(0i32.to_le_bytes());
    add(&mut digest, None, value, 0);
    let digest: [u8; 16] = digest.finalize().into();
    let (first, _) = digest.split_first_chunk().unwrap_or((&[0; 8], &[]));
    i64::from_le_bytes(*first)
}

/// The same for an owned value; `None` if it has no raw form, for example because of a NUL in a name.
pub fn hash64_owned(value: &Bson) -> Option<i64> {
    match scalar(value) {
        Some(raw) => Some(hash64(raw)),
        None => RawBson::try_from(value.clone()).ok().map(|raw| hash64(raw.as_raw_bson_ref())),
    }
}

fn add(digest: &mut Md5, name: Option<&str>, value: RawBsonRef<'_>, depth: u32) {
    digest.update(i32::from(canonical_type(value)).to_le_bytes());
    if let Some(name) = name {
        digest.update(name);
        digest.update([0]);
    }
    match value {
        RawBsonRef::Int32(value) => digest.update(i64::from(value).to_le_bytes()),
        RawBsonRef::Int64(value) => digest.update(value.to_le_bytes()),
        RawBsonRef::Double(value) => digest.update(of_double(value).to_le_bytes()),
        RawBsonRef::Decimal128(value) => digest.update(of_decimal(Decimal::from_value(value)).to_le_bytes()),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            add_text(digest, text);
        }
        RawBsonRef::Document(document) => add_elements(digest, document.iter_elements(), depth + 1),
        RawBsonRef::Array(array) => add_elements(digest, array.iter_elements(), depth + 1),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            digest.update(code.code);
            digest.update([0]);
            add_elements(digest, code.scope.iter_elements(), depth + 1);
        }
        RawBsonRef::Binary(value) => {
            let old = value.subtype == BinarySubtype::BinaryOld;
            let length = value.bytes.len() as i32;
            digest.update((length + if old { 4 } else { 0 }).to_le_bytes());
            digest.update([u8::from(value.subtype)]);
            if old {
                digest.update(length.to_le_bytes());
            }
            digest.update(value.bytes);
        }
        RawBsonRef::ObjectId(id) => digest.update(id.bytes()),
        RawBsonRef::Boolean(value) => digest.update([u8::from(value)]),
        RawBsonRef::DateTime(value) => digest.update(value.timestamp_millis().to_le_bytes()),
        RawBsonRef::Timestamp(value) => {
            digest.update(value.increment.to_le_bytes());
            digest.update(value.time.to_le_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            for text in [regex.pattern, regex.options] {
                digest.update(text.as_str());
                digest.update([0]);
            }
        }
        RawBsonRef::DbPointer(_) => {
            let bytes = db_pointer_bytes(value);
            if let Some((namespace, id)) = bytes.split_last_chunk::<12>() {
                digest.update((namespace.len() as i32 + 1).to_le_bytes());
                digest.update(namespace);
                digest.update([0]);
                digest.update(id);
            }
        }
        RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
    }
}

fn add_text(digest: &mut Md5, text: &str) {
    digest.update((text.len() as i32 + 1).to_le_bytes());
    digest.update(text);
    digest.update([0]);
}

fn add_elements(digest: &mut Md5, elements: bson::raw::RawIter<'_>, depth: u32) {
    if depth <= MAX_DEPTH {
        for element in elements.map_while(Result::ok) {
            if let Ok(value) = element.value() {
                add(digest, Some(element.key().as_str()), value, depth);
            }
        }
    }
    digest.update(END);
}

/// Rounds towards zero; NaN becomes 0, values out of range the nearest integer. But 2^63 itself becomes -2^63, which once
/// resulted from an unchecked cast and must stay for the sake of existing hashes.
fn of_double(value: f64) -> i64 {
    if value == TWO_TO_63 { i64::MIN } else { value as i64 }
}

/// Rounds to the nearest, halves to even, unlike doubles; NaN becomes 0, values out of range the nearest integer.
fn of_decimal(value: Decimal) -> i64 {
    let value = match value {
        Decimal::NaN => return 0,
        Decimal::Infinity { negative } => return if negative { i64::MIN } else { i64::MAX },
        Decimal::Finite(value) => value,
    };
    let beyond = if value.negative { i64::MIN } else { i64::MAX };
    if value.coefficient == 0 {
        return 0;
    }
    if value.magnitude() > 19 {
        return beyond;
    }
    let ten = 10u128.pow(value.exponent.unsigned_abs().min(DIGITS + 1));
    let rounded = if value.exponent >= 0 {
        value.coefficient * ten
    } else {
        let (whole, rest) = (value.coefficient / ten, value.coefficient % ten);
        match (rest * 2).cmp(&ten) {
            std::cmp::Ordering::Less => whole,
            std::cmp::Ordering::Equal => whole + whole % 2,
            std::cmp::Ordering::Greater => whole + 1,
        }
    };
    let rounded = i128::try_from(rounded).unwrap_or(i128::MAX);
    i64::try_from(if value.negative { -rounded } else { rounded }).unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::samples::{binary, db_pointer, regex, scoped};
    use bson::{Bson, DateTime, bson, doc, oid::ObjectId, raw::RawBson};

    fn hash(value: &Bson) -> i64 {
        hash64(RawBson::try_from(value.clone()).unwrap().as_raw_bson_ref())
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    /// MongoDB's own constants (mongodb/mongo:src/mongo/db/hasher_test.cpp).
    #[test]
    fn numbers_hash_as_mongodbs() {
        let numbers = [
            (
                -944_302_157_085_130_861,
                vec![bson!(42), bson!(42i64), bson!(42.123), decimal("42"), decimal("42.123")],
            ),
            (
                4_854_801_880_128_277_513,
                vec![bson!(0), bson!(0i64), bson!(0.456), bson!(f64::NAN), decimal("NaN"), decimal("-0E+9")],
            ),
            (
                5_902_408_780_260_971_510,
                vec![bson!(1), bson!(1i64), bson!(1.987), decimal("0.9"), decimal("1E+0")],
            ),
            (1_140_205_862_565_771_219, vec![bson!(-1), bson!(-1i64), bson!(-1.789), decimal("-1.4999")]),
            (6_165_898_260_261_354_870, vec![bson!(i32::MIN), bson!(f64::from(i32::MIN))]),
            (1_143_184_177_162_245_883, vec![bson!(i32::MAX), bson!(f64::from(i32::MAX))]),
            (
                921_523_596_458_303_250,
                vec![bson!(i64::MAX), bson!(f64::MAX), bson!(f64::INFINITY), decimal("1E+6000")],
            ),
            (
                4_532_067_210_535_695_462,
                vec![
                    bson!(i64::MIN),
                    bson!(-f64::MAX),
                    bson!(9_223_372_036_854_775_808.0),
                    decimal("-Infinity"),
                ],
            ),
        ];
        for (expected, values) in numbers {
            for value in values {
                assert_eq!(hash(&value), expected, "{value:?}");
            }
        }
        assert_eq!(hash(&decimal("2.5")), hash(&bson!(2)));
        assert_eq!(hash(&decimal("3.5")), hash(&bson!(4)));
        assert_eq!(hash(&decimal("1E-6000")), hash(&bson!(0)));
    }

    #[test]
    fn other_values_hash_as_mongodbs() {
        let id = |text: &str| Bson::ObjectId(ObjectId::parse_str(text).unwrap());
        let mut pointer_id = [0; 12];
        pointer_id.copy_from_slice(&ObjectId::parse_str("010203040506070809101112").unwrap().bytes());
        let code = "func f() { return 1; }";
        let values = [
            (Bson::MinKey, 7_961_148_599_568_647_290),
            (Bson::MaxKey, 5_504_842_513_779_440_750),
            (Bson::Undefined, 40_158_834_000_849_533),
            (Bson::Null, 2_338_878_944_348_059_895),
            (bson!("abc"), 8_478_485_326_885_698_097),
            (Bson::Symbol("abc".into()), 8_478_485_326_885_698_097),
            (bson!(""), 2_049_396_243_249_673_340),
            (bson!({ "a": "abc", "b": 123i64 }), 4_771_603_801_758_380_216),
            (bson!({}), 7_980_500_913_326_740_417),
            (bson!(["bar", "baz", "qux"]), -2_938_911_267_422_831_539),
            (bson!([]), 8_849_948_234_993_459_283),
            (binary(BinarySubtype::Generic, &[0, 1, 2, 3, 4, 6]), 7_252_465_090_394_235_301),
            (binary(0x80.into(), &[0, 1, 2, 3, 4, 6]), 5_736_670_452_907_618_262),
            (
                binary(BinarySubtype::Uuid, &std::array::from_fn::<u8, 16, _>(|i| i as u8)),
                6_084_661_258_071_355_978,
            ),
            (id("010203040506070809101112"), -5_588_663_249_627_035_708),
            (id("000000000000000000000000"), -4_293_118_519_463_489_418),
            (bson!(true), 6_405_873_908_747_105_701),
            (bson!(false), 6_289_544_573_401_934_092),
            (Bson::DateTime(DateTime::from_millis(0x5566_7788_1122_3344)), 4_476_222_765_095_560_467),
            (Bson::DateTime(DateTime::from_millis(0)), -1_178_696_894_582_842_035),
            (regex("mongodb", ""), -7_275_792_090_268_217_043),
            (regex(".*", "i"), 7_095_855_029_187_981_886),
            (db_pointer("c", pointer_id), 940_175_826_736_461_384),
            (db_pointer("db.c", pointer_id), 2_426_768_198_104_018_194),
            (Bson::JavaScriptCode(code.into()), 6_861_638_109_178_014_270),
            (scoped(code, doc! { "c": true }), 501_342_939_894_575_968),
        ];
        for (value, expected) in values {
            assert_eq!(hash(&value), expected, "{value:?}");
        }
    }
}
