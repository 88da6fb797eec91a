//! Documents of every type and shape, made by proptest.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

fn scalar() -> impl Strategy<Value = Bson> {
    let text = "[a-zé\u{0}日]{0,12}";
    let name = "[a-zé日]{0,8}";
    prop_oneof![
        any::<i64>().prop_map(|bits| Bson::Double(f64::from_bits(bits as u64 & 0x7fef_ffff_ffff_ffff))),
        text.prop_map(Bson::String),
        text.prop_map(Bson::Symbol),
        text.prop_map(Bson::JavaScriptCode),
        (any::<u8>(), vec(any::<u8>(), 0..40)).prop_map(|(subtype, bytes)| {
            Bson::Binary(Binary { subtype: BinarySubtype::from(subtype), bytes })
        }),
        Just(Bson::Undefined),
        Just(Bson::Null),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        any::<bool>().prop_map(Bson::Boolean),
        any::<i64>().prop_map(|ms| Bson::DateTime(DateTime::from_millis(ms))),
        (name, "[imsx]{0,2}").prop_map(|(pattern, options)| {
            Bson::RegularExpression(Regex {
                pattern: pattern.try_into().unwrap(),
                options: options.try_into().unwrap(),
            })
        }),
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<(u32, u32)>().prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
        (text, any::<i32>()).prop_map(|(code, value)| {
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope: bson::doc! { "v": value } })
        }),
    ]
}

/// A document with up to a few levels of documents and arrays.
pub(crate) fn document() -> impl Strategy<Value = Document> {
    let value = scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..14).prop_map(Bson::Array),
            vec(("[a-z$.é]{0,6}", inner), 0..6)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    });
    vec(("[a-z_]{1,8}", value), 0..8).prop_map(|fields| fields.into_iter().collect())
}
