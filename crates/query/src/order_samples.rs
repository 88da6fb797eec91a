//! Sample values of every class for tests of orders: an ascending list, and random values.
use bson::oid::ObjectId;
use bson::raw::RawDocument;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, JavaScriptCodeWithScope, Regex, Timestamp, bson, doc};
use proptest::prelude::*;

pub(crate) fn binary(subtype: BinarySubtype, bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype, bytes: bytes.to_vec() })
}

pub(crate) fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(Regex {
        pattern: pattern.try_into().unwrap(),
        options: options.try_into().unwrap(),
    })
}

pub(crate) fn db_pointer(namespace: &str, id: [u8; 12]) -> Bson {
    let text_bytes = namespace.len() as i32 + 1;
    let mut bytes = vec![0, 0, 0, 0, 0x0c, b'p', 0];
    bytes.extend(text_bytes.to_le_bytes());
    bytes.extend(namespace.as_bytes());
    bytes.push(0);
    bytes.extend(id);
    bytes.push(0);
    let length = (bytes.len() as i32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    let document = RawDocument::from_bytes(&bytes).unwrap();
    Bson::try_from(document.get("p").unwrap().unwrap()).unwrap()
}

pub(crate) fn scoped(code: &str, scope: Document) -> Bson {
    Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code: code.into(), scope })
}

/// Values in strictly ascending order.
pub(crate) fn ladder() -> Vec<Bson> {
    vec![
        Bson::MinKey,
        Bson::Undefined,
        Bson::Null,
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Decimal128("-1E+6000".parse().unwrap()),
        Bson::Double(-1e300),
        Bson::Int64(i64::MIN),
        Bson::Int32(-1),
        Bson::Double(-0.5),
        Bson::Int32(0),
        Bson::Decimal128("1E-6000".parse().unwrap()),
        Bson::Decimal128("0.1".parse().unwrap()),
        Bson::Double(0.1),
        Bson::Int32(1),
        Bson::Int64(9_007_199_254_740_992),
        Bson::Int64(9_007_199_254_740_993),
        Bson::Int64(i64::MAX),
        Bson::Double(9_223_372_036_854_775_808.0),
        Bson::Double(f64::INFINITY),
        bson!(""),
        bson!("a"),
        Bson::Symbol("a\0".into()),
        bson!("ab"),
        bson!("é"),
        bson!({}),
        bson!({ "a": 1, "b": 1 }),
        bson!({ "b": 0 }),
        bson!({ "b": 1 }),
        bson!({ "b": 1, "c": Bson::MinKey }),
        bson!({ "a": "x" }),
        bson!([]),
        bson!([1]),
        bson!([1, Bson::MinKey]),
        bson!([2]),
        bson!([[]]),
        binary(BinarySubtype::Generic, b""),
        binary(BinarySubtype::Generic, b"b"),
        binary(BinarySubtype::Uuid, b"a"),
        binary(BinarySubtype::Generic, b"aa"),
        Bson::ObjectId(ObjectId::from_bytes([1; 12])),
        Bson::ObjectId(ObjectId::from_bytes([2; 12])),
        Bson::Boolean(false),
        Bson::Boolean(true),
        Bson::DateTime(DateTime::from_millis(-1)),
        Bson::DateTime(DateTime::from_millis(0)),
        Bson::Timestamp(Timestamp { time: 1, increment: u32::MAX }),
        Bson::Timestamp(Timestamp { time: u32::MAX, increment: 0 }),
        regex("a", ""),
        regex("a", "i"),
        regex("b", ""),
        db_pointer("b", [1; 12]),
        db_pointer("b", [2; 12]),
        db_pointer("aa", [1; 12]),
        Bson::JavaScriptCode("f".into()),
        Bson::JavaScriptCode("g".into()),
        scoped("f", doc! {}),
        scoped("f", doc! { "a": 1 }),
        scoped("g", doc! {}),
        Bson::MaxKey,
    ]
}

/// A value of any type, nested up to three levels, from few elements, so that equal and nearly equal values are common.
pub(crate) fn value() -> impl Strategy<Value = Bson> {
    let text = prop_oneof![
        Just(""),
        Just("a"),
        Just("a\0"),
        Just("a\0b"),
        Just("ab"),
        Just("b"),
        Just("\u{1}"),
        Just("é")
    ];
    let c_text = prop_oneof![Just(""), Just("a"), Just("ab"), Just("b")];
    let leaf = prop_oneof![
        2 => proptest::sample::select(ladder()),
        2 => text.clone().prop_map(|text| Bson::String(text.into())),
        1 => text.clone().prop_map(|text| Bson::Symbol(text.into())),
        1 => text.clone().prop_map(|text| Bson::JavaScriptCode(text.into())),
        2 => (-3..3i32).prop_map(Bson::Int32),
        1 => (-3..3i64).prop_map(Bson::Int64),
        2 => (-6..6i32).prop_map(|half| Bson::Double(f64::from(half) / 2.0)),
        1 => any::<f64>().prop_map(Bson::Double),
        1 => any::<i64>().prop_map(|ms| Bson::DateTime(DateTime::from_millis(ms))),
        1 => any::<(u32, u32)>().prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        1 => any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        1 => (proptest::sample::select(vec![0u8, 2, 4, 0x80]), proptest::collection::vec(any::<u8>(), 0..3))
            .prop_map(|(subtype, bytes)| binary(subtype.into(), &bytes)),
        1 => (250..260usize).prop_map(|length| binary(BinarySubtype::Generic, &vec![7; length])),
        1 => (c_text.clone(), c_text.clone()).prop_map(|(pattern, options)| regex(pattern, options)),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let names = proptest::sample::select(vec!["", "a", "b", "ab"]);
        let document = proptest::collection::vec((names, inner.clone()), 0..3).prop_map(|fields| {
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Document>()
        });
        prop_oneof![
            document.clone().prop_map(Bson::Document),
            proptest::collection::vec(inner, 0..3).prop_map(Bson::Array),
            (text.clone(), document).prop_map(|(code, scope)| scoped(code, scope)),
        ]
    })
}
