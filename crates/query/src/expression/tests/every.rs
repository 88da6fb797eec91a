//! Tests every operator of the table with every kind of argument: it returns a value or a failure and never panics.

use bson::{Bson, Document, bson, doc};
use proptest::prelude::*;

use super::super::operators;
use super::value;

fn leaf() -> impl Strategy<Value = Bson> {
    prop_oneof![
        Just(bson!("$numbers")),
        Just(bson!("$deep.list.x")),
        Just(bson!("$date")),
        Just(bson!("$nothing")),
        Just(bson!("$decimal")),
        Just(bson!("$$ROOT")),
        Just(Bson::Null),
        Just(Bson::MaxKey),
        Just(bson!(f64::NAN)),
        Just(bson!(i64::MIN)),
        Just(bson!(i64::MAX)),
        any::<bool>().prop_map(Bson::Boolean),
        (-3..4_i32).prop_map(Bson::Int32),
        any::<f64>().prop_map(Bson::Double),
        "[a-zé%Y:+0-9$.-]{0,6}".prop_map(Bson::String),
    ]
}

fn expression() -> impl Strategy<Value = Bson> {
    let names = operators::names();
    let members = [
        "input",
        "in",
        "as",
        "cond",
        "if",
        "then",
        "else",
        "vars",
        "date",
        "format",
        "timezone",
        "to",
        "find",
        "replacement",
        "regex",
        "options",
        "chars",
        "inputs",
        "branches",
        "default",
        "year",
        "initialValue",
    ];
    leaf().prop_recursive(4, 24, 4, move |inner| {
        let name = prop::sample::select(names.clone());
        let member = prop::sample::select(members.to_vec());
        let object = prop::collection::vec((member, inner.clone()), 0..4).prop_map(|pairs| {
            Bson::Document(
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Document>(),
            )
        });
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array);
        let argument = prop_oneof![inner, object, list.clone(), list];
        (name, argument).prop_map(|(name, argument)| Bson::Document(doc! { name: argument }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(expression in expression()) {
        let _ = value(&expression);
    }
}
