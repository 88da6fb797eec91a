//! Table: the documents that filters match, case by case, from MongoDB's documentation and its own unit tests.

use bson::{Binary, Bson, Document, RawDocumentBuf, Regex, bson, doc, spec::BinarySubtype};
use fathom_query::{Filter, Variables};

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn parse(filter: &Document) -> Filter {
    let variables = Variables::at(bson::DateTime::from_millis(0));
    Filter::parse(&raw(filter), &variables).unwrap_or_else(|failure| panic!("{filter}: {failure:?}"))
}

/// For each filter, documents that it matches and documents that it does not.
fn check(cases: Vec<(Document, Vec<Document>, Vec<Document>)>) {
    for (filter, matching, others) in cases {
        let parsed = parse(&filter);
        // What explain shows is a filter again, with the same meaning.
        let again = parse(&parsed.to_document());
        for (documents, expected) in [(matching, true), (others, false)] {
            for document in documents {
                let found = parsed.matches(&raw(&document)).unwrap().is_some();
                assert_eq!(found, expected, "{filter} of {document}");
                let found = again.matches(&raw(&document)).unwrap().is_some();
                assert_eq!(found, expected, "{} for {filter} of {document}", parsed.to_document());
            }
        }
    }
}

fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(Regex {
        pattern: pattern.to_owned().try_into().unwrap(),
        options: options.to_owned().try_into().unwrap(),
    })
}

fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

#[test]
fn equality_means_the_value_or_an_element() {
    check(vec![
        (doc! {}, vec![doc! {}, doc! { "a": 1 }], vec![]),
        (
            doc! { "a": 1 },
            vec![doc! { "a": 1_i64 }, doc! { "a": 1.0 }, doc! { "a": decimal("1.0") }, doc! { "a": [0, 1] }],
            vec![
                doc! {},
                doc! { "a": "1" },
                doc! { "a": true },
                doc! { "a": [[1]] },
                doc! { "a": { "b": 1 } },
            ],
        ),
        (doc! { "a": 1, "b": 2 }, vec![doc! { "b": 2, "a": 1 }], vec![doc! { "a": 1 }, doc! { "b": 2 }]),
        (
            doc! { "a": Bson::Null },
            vec![
                doc! {},
                doc! { "a": Bson::Null },
                doc! { "a": [1, Bson::Null] },
                doc! { "a": Bson::Undefined },
            ],
            vec![doc! { "a": 0 }, doc! { "a": [] }, doc! { "a": false }],
        ),
        (
            doc! { "a.b": Bson::Null },
            vec![
                doc! {},
                doc! { "a": 5 },
                doc! { "a": {} },
                doc! { "a": [{ "c": 1 }] },
                doc! { "a": [{ "b": 1 }, {}] },
            ],
            vec![
                doc! { "a": [] },
                doc! { "a": [1, 2] },
                doc! { "a": { "b": 1 } },
                doc! { "a": [{ "b": 1 }] },
            ],
        ),
        (
            doc! { "a": f64::NAN },
            vec![doc! { "a": f64::NAN }, doc! { "a": decimal("NaN") }],
            vec![doc! { "a": 0 }],
        ),
        (
            doc! { "a": "x" },
            vec![doc! { "a": "x" }, doc! { "a": Bson::Symbol("x".into()) }],
            vec![doc! { "a": "xy" }],
        ),
    ]);
}

#[test]
fn arrays_and_documents_are_equal_as_a_whole() {
    check(vec![
        (
            doc! { "a": [1, 2] },
            vec![doc! { "a": [1, 2] }, doc! { "a": [[1, 2], 3] }, doc! { "a": [1.0, 2_i64] }],
            vec![doc! { "a": [2, 1] }, doc! { "a": [1, 2, 3] }, doc! { "a": 1 }],
        ),
        (doc! { "a": [] }, vec![doc! { "a": [] }, doc! { "a": [[]] }], vec![doc! {}, doc! { "a": [1] }]),
        (
            doc! { "a": { "b": 1, "c": 2 } },
            vec![doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": [{ "b": 1, "c": 2 }] }],
            vec![doc! { "a": { "c": 2, "b": 1 } }, doc! { "a": { "b": 1, "c": 2, "d": 3 } }],
        ),
        (doc! { "a": {} }, vec![doc! { "a": {} }], vec![doc! {}, doc! { "a": { "b": 1 } }]),
        (
            doc! { "a": { "$ref": "c", "$id": 5 } },
            vec![doc! { "a": { "$ref": "c", "$id": 5 } }],
            vec![doc! { "a": { "$ref": "c", "$id": 6 } }],
        ),
    ]);
}

#[test]
fn comparisons_stay_within_a_class() {
    let date = Bson::DateTime(bson::DateTime::from_millis(5));
    check(vec![
        (
            doc! { "a": { "$gt": 5 } },
            vec![doc! { "a": 6 }, doc! { "a": 5.5 }, doc! { "a": [1, 6] }, doc! { "a": f64::INFINITY }],
            vec![doc! { "a": 5 }, doc! { "a": "6" }, doc! {}, doc! { "a": f64::NAN }, doc! { "a": date }],
        ),
        (
            doc! { "a": { "$lt": 5 } },
            vec![doc! { "a": 4 }, doc! { "a": f64::NEG_INFINITY }],
            vec![doc! { "a": f64::NAN }, doc! { "a": Bson::Null }, doc! {}, doc! { "a": Bson::MinKey }],
        ),
        (doc! { "a": { "$gte": f64::NAN } }, vec![doc! { "a": f64::NAN }], vec![doc! { "a": 1 }]),
        (doc! { "a": { "$lt": f64::NAN } }, vec![], vec![doc! { "a": f64::NAN }, doc! { "a": 1 }]),
        (
            doc! { "a": { "$gt": 1, "$lt": 3 } },
            // Each bound may be met by a different element.
            vec![doc! { "a": 2 }, doc! { "a": [0, 5] }],
            vec![doc! { "a": 3 }, doc! { "a": [0, 1] }],
        ),
        (
            doc! { "a": { "$gte": "b" } },
            vec![doc! { "a": "b" }, doc! { "a": "c" }],
            vec![doc! { "a": "a" }, doc! { "a": 9 }],
        ),
        (
            doc! { "a": { "$lte": Bson::Null } },
            vec![doc! {}, doc! { "a": Bson::Null }],
            vec![doc! { "a": 0 }, doc! { "a": Bson::MinKey }],
        ),
        (
            doc! { "a": { "$gt": Bson::Null } },
            vec![],
            vec![doc! {}, doc! { "a": Bson::Null }, doc! { "a": 1 }],
        ),
        (
            doc! { "a": { "$gt": Bson::MinKey } },
            vec![doc! { "a": 1 }, doc! { "a": "x" }],
            vec![doc! { "a": Bson::MinKey }, doc! {}],
        ),
        (
            doc! { "a": { "$lt": Bson::MaxKey } },
            vec![doc! { "a": 1 }, doc! { "a": [] }],
            vec![doc! { "a": Bson::MaxKey }, doc! {}],
        ),
        (doc! { "a": { "$lt": Bson::MinKey } }, vec![], vec![doc! { "a": 1 }, doc! { "a": Bson::MinKey }]),
        (
            doc! { "a": { "$gt": [1, 2] } },
            vec![doc! { "a": [1, 3] }, doc! { "a": [[2]] }],
            vec![doc! { "a": 3 }, doc! { "a": [1] }],
        ),
        (
            doc! { "a": { "$gt": { "b": 1 } } },
            vec![doc! { "a": { "b": 2 } }],
            vec![doc! { "a": { "b": 0 } }, doc! { "a": 5 }],
        ),
        (
            doc! { "a": { "$gte": false } },
            vec![doc! { "a": true }, doc! { "a": false }],
            vec![doc! { "a": 1 }],
        ),
    ]);
}

#[test]
fn denials_match_what_their_tests_do_not() {
    check(vec![
        (
            doc! { "a": { "$ne": 1 } },
            vec![doc! {}, doc! { "a": 2 }, doc! { "a": [2] }],
            vec![doc! { "a": 1 }, doc! { "a": [2, 1] }],
        ),
        (
            doc! { "a": { "$ne": Bson::Null } },
            vec![doc! { "a": 1 }, doc! { "a": [] }],
            vec![doc! {}, doc! { "a": Bson::Null }],
        ),
        (
            doc! { "a": { "$nin": [1, "x"] } },
            vec![doc! {}, doc! { "a": 2 }],
            vec![doc! { "a": 1 }, doc! { "a": ["x"] }],
        ),
        (doc! { "a": { "$nin": [] } }, vec![doc! {}, doc! { "a": 2 }], vec![]),
        (
            doc! { "a": { "$not": { "$gt": 5 } } },
            vec![doc! {}, doc! { "a": 5 }, doc! { "a": "x" }],
            vec![doc! { "a": 6 }],
        ),
        (
            doc! { "a": { "$not": { "$gt": 1, "$lt": 3 } } },
            vec![doc! { "a": 3 }, doc! {}],
            vec![doc! { "a": 2 }],
        ),
        (
            doc! { "a": { "$not": regex("^x", "") } },
            vec![doc! { "a": "y" }, doc! {}],
            vec![doc! { "a": "xy" }],
        ),
        (doc! { "a": { "$not": { "$not": { "$eq": 1 } } } }, vec![doc! { "a": 1 }], vec![doc! {}]),
        (
            doc! { "$nor": [{ "a": 1 }, { "b": 1 }] },
            vec![doc! {}, doc! { "a": 2 }],
            vec![doc! { "a": 1 }, doc! { "b": 1 }],
        ),
    ]);
}

#[test]
fn lists_of_values_and_logic() {
    check(vec![
        (
            doc! { "a": { "$in": [1, "x", regex("^y", "i")] } },
            vec![doc! { "a": 1.0 }, doc! { "a": "x" }, doc! { "a": "Yes" }, doc! { "a": [7, "yo"] }],
            vec![doc! {}, doc! { "a": 2 }, doc! { "a": "ay" }],
        ),
        (doc! { "a": { "$in": [] } }, vec![], vec![doc! {}, doc! { "a": [] }]),
        (doc! { "a": { "$in": [Bson::Null, 1] } }, vec![doc! {}, doc! { "a": 1 }], vec![doc! { "a": 2 }]),
        (
            doc! { "a": { "$in": [[1, 2]] } },
            vec![doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }],
            vec![doc! { "a": 1 }],
        ),
        (
            doc! { "$or": [{ "a": 1 }, { "b": 2 }] },
            vec![doc! { "a": 1 }, doc! { "b": 2 }],
            vec![doc! { "a": 2 }],
        ),
        (
            doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": 2 }, { "c": 3 }] }] },
            vec![doc! { "a": 1, "b": 2 }, doc! { "a": 1, "c": 3 }],
            vec![doc! { "a": 1 }, doc! { "b": 2 }],
        ),
        (
            doc! { "$comment": "why", "a": { "$eq": 1, "$comment": "x" } },
            vec![doc! { "a": 1 }],
            vec![doc! {}],
        ),
        (doc! { "$alwaysTrue": 1 }, vec![doc! {}], vec![]),
        (doc! { "$alwaysFalse": 1 }, vec![], vec![doc! {}]),
    ]);
}

#[test]
fn presence_and_types() {
    check(vec![
        (doc! { "a": { "$exists": true } }, vec![doc! { "a": Bson::Null }, doc! { "a": [] }], vec![doc! {}]),
        (doc! { "a": { "$exists": 0 } }, vec![doc! {}], vec![doc! { "a": Bson::Null }]),
        (
            doc! { "a.b": { "$exists": true } },
            vec![doc! { "a": [{}, { "b": 1 }] }],
            vec![doc! { "a": [1] }, doc! { "a": [] }],
        ),
        (
            doc! { "a.0": { "$exists": true } },
            vec![doc! { "a": [5] }, doc! { "a": { "0": 1 } }],
            vec![doc! { "a": [] }, doc! { "a": 5 }],
        ),
        (
            doc! { "a": { "$type": "number" } },
            vec![
                doc! { "a": 1 },
                doc! { "a": 1_i64 },
                doc! { "a": 1.0 },
                doc! { "a": decimal("1") },
                doc! { "a": ["x", 1] },
            ],
            vec![doc! {}, doc! { "a": "1" }],
        ),
        (doc! { "a": { "$type": 2 } }, vec![doc! { "a": "x" }, doc! { "a": ["x"] }], vec![doc! { "a": 2 }]),
        (
            doc! { "a": { "$type": "array" } },
            vec![doc! { "a": [] }, doc! { "a": [[]] }],
            vec![doc! { "a": 1 }],
        ),
        (
            doc! { "a": { "$type": ["string", 10] } },
            vec![doc! { "a": "x" }, doc! { "a": Bson::Null }],
            vec![doc! {}, doc! { "a": 1 }],
        ),
        (doc! { "a": { "$type": -1 } }, vec![doc! { "a": Bson::MinKey }], vec![doc! { "a": Bson::MaxKey }]),
        (
            doc! { "a": { "$type": "objectId" } },
            vec![doc! { "a": bson::oid::ObjectId::new() }],
            vec![doc! { "a": "x" }],
        ),
    ]);
}

#[test]
fn regular_expressions() {
    check(vec![
        (
            doc! { "a": regex("^ab", "") },
            vec![doc! { "a": "abc" }, doc! { "a": ["x", "ab"] }, doc! { "a": regex("^ab", "") }],
            vec![doc! { "a": "xab" }, doc! { "a": 5 }, doc! {}, doc! { "a": regex("^ab", "i") }],
        ),
        (
            doc! { "a": { "$regex": "AB", "$options": "i" } },
            vec![doc! { "a": "xabx" }],
            vec![doc! { "a": "a" }],
        ),
        (doc! { "a": { "$options": "i", "$regex": regex("AB", "") } }, vec![doc! { "a": "xabx" }], vec![]),
        (doc! { "a": { "$regex": regex("AB", "i") } }, vec![doc! { "a": "xabx" }], vec![]),
        (
            doc! { "a": { "$eq": regex("ab", "") } },
            vec![doc! { "a": regex("ab", "") }],
            vec![doc! { "a": "ab" }],
        ),
        (doc! { "a": { "$regex": "^x.*y$", "$options": "s" } }, vec![doc! { "a": "x\ny" }], vec![]),
    ]);
}

#[test]
fn arrays_by_size_and_all() {
    check(vec![
        (
            doc! { "a": { "$size": 2 } },
            vec![doc! { "a": [1, 2] }],
            vec![doc! { "a": [1] }, doc! { "a": 2 }, doc! { "a": [[1, 2]] }, doc! {}],
        ),
        (doc! { "a": { "$size": 0 } }, vec![doc! { "a": [] }], vec![doc! {}]),
        (
            doc! { "a": { "$all": [1, 2] } },
            vec![doc! { "a": [2, 3, 1] }],
            vec![doc! { "a": [1] }, doc! { "a": 1 }, doc! {}],
        ),
        (doc! { "a": { "$all": [1] } }, vec![doc! { "a": 1 }, doc! { "a": [1] }], vec![doc! { "a": 2 }]),
        (doc! { "a": { "$all": [] } }, vec![], vec![doc! { "a": [] }, doc! {}]),
        (
            doc! { "a": { "$all": [[1, 2]] } },
            vec![doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }],
            vec![doc! { "a": [1, 3] }],
        ),
        (
            doc! { "a": { "$all": [regex("^x", ""), "y"] } },
            vec![doc! { "a": ["y", "xx"] }],
            vec![doc! { "a": ["y"] }],
        ),
        (
            doc! { "a": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }] } },
            vec![doc! { "a": [{ "b": 2 }, { "b": 1 }] }],
            vec![doc! { "a": [{ "b": 1 }] }],
        ),
    ]);
}

#[test]
fn elements_that_match_as_a_whole() {
    check(vec![
        (
            doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } },
            vec![doc! { "a": [{ "b": 1, "c": 2 }] }],
            vec![doc! { "a": [{ "b": 1 }, { "c": 2 }] }, doc! { "a": { "b": 1, "c": 2 } }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 3 } } },
            vec![doc! { "a": [0, 2] }],
            vec![doc! { "a": [0, 5] }, doc! { "a": 2 }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$not": { "$gte": 3 } } } },
            vec![doc! { "a": [5, 1] }],
            vec![doc! { "a": [5] }, doc! { "a": [] }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$in": [1, 2] } } },
            vec![doc! { "a": [2] }],
            vec![doc! { "a": [[2]] }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$elemMatch": { "$eq": 1 } } } },
            vec![doc! { "a": [[1]] }],
            vec![doc! { "a": [1] }],
        ),
        (
            doc! { "a": { "$elemMatch": { "0": 1 } } },
            vec![doc! { "a": [[1]] }, doc! { "a": [{ "0": 1 }] }],
            vec![doc! { "a": [1] }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$or": [{ "b": 1 }, { "b": 2 }] } } },
            vec![doc! { "a": [{ "b": 2 }] }],
            vec![doc! { "a": [{ "b": 3 }] }],
        ),
        (
            doc! { "a": { "$elemMatch": {} } },
            vec![doc! { "a": [{}] }],
            vec![doc! { "a": [1] }, doc! { "a": [] }],
        ),
        (
            doc! { "a.b": { "$elemMatch": { "$gt": 5 } } },
            vec![doc! { "a": [{ "b": [6] }] }],
            vec![doc! { "a": [{ "b": 6 }] }],
        ),
    ]);
}

#[test]
fn remainders_and_bits() {
    check(vec![
        (
            doc! { "a": { "$mod": [4, 1] } },
            vec![doc! { "a": 5 }, doc! { "a": 5.9 }, doc! { "a": decimal("9") }, doc! { "a": [2, 1] }],
            vec![doc! { "a": 4 }, doc! { "a": -3 }, doc! { "a": f64::NAN }, doc! { "a": "5" }, doc! {}],
        ),
        (doc! { "a": { "$mod": [4, -1] } }, vec![doc! { "a": -5 }], vec![doc! { "a": 3 }]),
        (doc! { "a": { "$mod": [-1, 0] } }, vec![doc! { "a": i64::MIN }], vec![]),
        (
            doc! { "a": { "$bitsAllSet": 6 } },
            vec![doc! { "a": 7 }, doc! { "a": 6.0 }, doc! { "a": -1 }],
            vec![doc! { "a": 4 }, doc! { "a": 6.5 }],
        ),
        (
            doc! { "a": { "$bitsAllSet": [1, 2] } },
            vec![doc! { "a": 6_i64 }, doc! { "a": binary(&[6]) }],
            vec![doc! { "a": 2 }],
        ),
        (
            doc! { "a": { "$bitsAnySet": [0, 100] } },
            vec![doc! { "a": 1 }, doc! { "a": -2 }],
            vec![doc! { "a": 2 }],
        ),
        (
            doc! { "a": { "$bitsAllClear": binary(&[3]) } },
            vec![doc! { "a": 4 }, doc! { "a": binary(&[]) }],
            vec![doc! { "a": 1 }, doc! {}],
        ),
        (doc! { "a": { "$bitsAnyClear": 3 } }, vec![doc! { "a": 1 }], vec![doc! { "a": 3 }]),
        (
            doc! { "a": { "$bitsAllSet": [9] } },
            vec![doc! { "a": binary(&[0, 2]) }],
            vec![doc! { "a": binary(&[2]) }],
        ),
    ]);
}

#[test]
fn dotted_paths_and_indexes() {
    check(vec![
        (
            doc! { "a.b": 1 },
            vec![doc! { "a": { "b": 1 } }, doc! { "a": [{ "b": 1 }] }, doc! { "a": [3, { "b": [1] }] }],
            vec![doc! { "a.b": 1 }, doc! { "a": [[{ "b": 1 }]] }],
        ),
        (
            doc! { "a.0": 1 },
            vec![doc! { "a": [1, 2] }, doc! { "a": { "0": 1 } }, doc! { "a": [{ "0": 1 }] }],
            vec![doc! { "a": [2, 1] }, doc! { "a": [[1]] }],
        ),
        (
            doc! { "a.0.b": 1 },
            vec![doc! { "a": [{ "b": 1 }] }, doc! { "a": [[{ "b": 1 }]] }],
            vec![doc! { "a": [{}, { "b": 1 }] }],
        ),
        (doc! { "a.1.0": 5 }, vec![doc! { "a": [0, [5]] }], vec![doc! { "a": [[5], 0] }]),
        (
            doc! { "a.b.c": { "$gt": 1, "$lt": 5 } },
            vec![doc! { "a": [{ "b": [{ "c": 0 }, { "c": 9 }] }] }],
            vec![doc! { "a": [{ "b": [{ "c": 0 }] }] }],
        ),
        (
            doc! { "a.b": [1, 2] },
            vec![doc! { "a": [{ "b": [1, 2] }] }],
            vec![doc! { "a": [{ "b": 1 }, { "b": 2 }] }],
        ),
        (doc! { "": 1 }, vec![doc! { "": 1 }], vec![doc! {}]),
    ]);
}

#[test]
fn schemas() {
    let schema = |schema: Document| doc! { "$jsonSchema": schema };
    let of_a = |inner: Document| doc! { "$jsonSchema": { "properties": { "a": inner } } };
    check(vec![
        (schema(doc! {}), vec![doc! {}, doc! { "a": 1 }], vec![]),
        (schema(doc! { "required": ["a"] }), vec![doc! { "a": Bson::Null }], vec![doc! {}]),
        (
            of_a(doc! { "bsonType": "int" }),
            vec![doc! {}, doc! { "a": 1 }],
            vec![doc! { "a": 1.0 }, doc! { "a": [1] }],
        ),
        (
            of_a(doc! { "type": ["number", "null"] }),
            vec![doc! { "a": 1.5 }, doc! { "a": Bson::Null }],
            vec![doc! { "a": "x" }],
        ),
        (
            of_a(doc! { "minimum": 1, "maximum": 3, "exclusiveMaximum": true }),
            vec![doc! { "a": 1 }, doc! { "a": "x" }],
            vec![doc! { "a": 3 }, doc! { "a": 0.5 }, doc! { "a": f64::NAN }],
        ),
        (of_a(doc! { "multipleOf": 2.5 }), vec![doc! { "a": 5 }, doc! { "a": 7.5 }], vec![doc! { "a": 6 }]),
        (
            of_a(doc! { "minLength": 2, "maxLength": 3, "pattern": "^é" }),
            vec![doc! { "a": "éa" }, doc! { "a": 1 }],
            vec![doc! { "a": "é" }, doc! { "a": "éaaa" }, doc! { "a": "ab" }],
        ),
        (
            of_a(doc! { "items": { "bsonType": "int" }, "minItems": 1, "maxItems": 2 }),
            vec![doc! { "a": [1] }, doc! { "a": 5 }],
            vec![doc! { "a": [] }, doc! { "a": ["x"] }, doc! { "a": [1, 2, 3] }],
        ),
        (
            of_a(doc! { "items": [{ "bsonType": "int" }], "additionalItems": false }),
            vec![doc! { "a": [1] }, doc! { "a": [] }],
            vec![doc! { "a": [1, 2] }, doc! { "a": ["x"] }],
        ),
        (of_a(doc! { "additionalItems": false }), vec![doc! { "a": [1] }], vec![]),
        (
            of_a(doc! { "bsonType": "object", "required": ["b"] }),
            vec![doc! { "a": { "b": 1 } }],
            vec![doc! { "a": {} }, doc! { "a": [] }],
        ),
        (of_a(doc! { "uniqueItems": true }), vec![doc! { "a": [1, 2] }], vec![doc! { "a": [1, 2, 1.0] }]),
        (
            of_a(doc! { "enum": [1, { "b": 2 }] }),
            vec![doc! { "a": 1 }, doc! { "a": { "b": 2 } }],
            vec![doc! { "a": 2 }],
        ),
    ]);
}

#[test]
fn schemas_of_whole_documents() {
    let schema = |schema: Document| doc! { "$jsonSchema": schema };
    check(vec![
        (
            schema(
                doc! { "properties": { "a": {} }, "patternProperties": { "^x": { "bsonType": "int" } }, "additionalProperties": false },
            ),
            vec![doc! { "a": "y", "x1": 1 }],
            vec![doc! { "b": 1 }, doc! { "x1": "s" }],
        ),
        (
            schema(doc! { "additionalProperties": { "bsonType": "int" } }),
            vec![doc! { "b": 1 }],
            vec![doc! { "b": "x" }],
        ),
        (
            schema(doc! { "minProperties": 1, "maxProperties": 1 }),
            vec![doc! { "a": 1 }],
            vec![doc! {}, doc! { "a": 1, "b": 2 }],
        ),
        (
            schema(doc! { "dependencies": { "a": ["b"], "c": { "required": ["d"] } } }),
            vec![doc! {}, doc! { "a": 1, "b": 1 }, doc! { "c": 1, "d": 1 }],
            vec![doc! { "a": 1 }, doc! { "c": 1 }],
        ),
        (
            schema(
                doc! { "anyOf": [{ "required": ["a"] }, { "required": ["b"] }], "not": { "required": ["c"] } },
            ),
            vec![doc! { "b": 1 }],
            vec![doc! {}, doc! { "a": 1, "c": 1 }],
        ),
        (
            schema(doc! { "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
            vec![doc! { "b": 1 }],
            vec![doc! {}, doc! { "a": 1, "b": 1 }],
        ),
        (
            schema(doc! { "allOf": [{ "required": ["a"] }, { "title": "x" }] }),
            vec![doc! { "a": 1 }],
            vec![doc! {}],
        ),
    ]);
}

#[test]
fn the_position_is_that_of_the_outermost_array() {
    for (filter, document, expected) in [
        (doc! { "a": 1 }, doc! { "a": 1 }, None),
        (doc! { "a": 1 }, doc! { "a": [0, 1, 1] }, Some(1)),
        (doc! { "a": [0, 1] }, doc! { "a": [0, 1] }, None),
        (doc! { "a.b": 1 }, doc! { "a": [{ "b": 0 }, { "b": [5, 5, 1] }] }, Some(1)),
        (doc! { "a.1.b": 1 }, doc! { "a": [{ "b": 0 }, { "b": 1 }] }, None),
        (doc! { "a": { "$elemMatch": { "b": 2 } } }, doc! { "a": [{ "b": 1 }, { "b": 2 }] }, Some(1)),
        (doc! { "a": { "$elemMatch": { "$gt": 5 } } }, doc! { "a": [1, 2, 9] }, Some(2)),
        (doc! { "a": { "$gte": 2 }, "b": 7 }, doc! { "a": [1, 2], "b": [5, 6, 7] }, Some(2)),
        (doc! { "a": { "$gte": 2 }, "c": 3 }, doc! { "a": [1, 2], "c": 3 }, Some(1)),
        (doc! { "a": { "$ne": 9 } }, doc! { "a": [1, 2] }, None),
        (doc! { "$or": [{ "a": 9 }, { "a": 2 }] }, doc! { "a": [1, 2] }, Some(1)),
    ] {
        let matched = parse(&filter).matches(&raw(&document)).unwrap().unwrap();
        assert_eq!(matched.position, expected, "{filter} of {document}");
    }
}

#[test]
fn what_an_upsert_and_the_fast_path_read() {
    for (filter, id, equalities) in [
        (doc! { "_id": "x" }, Some(bson!("x")), vec![("_id", bson!("x"))]),
        (doc! { "_id": { "$eq": 5 } }, Some(bson!(5)), vec![("_id", bson!(5))]),
        (doc! { "_id": { "a": 1 } }, Some(bson!({ "a": 1 })), vec![("_id", bson!({ "a": 1 }))]),
        (doc! { "_id": { "$gt": 5 } }, None, vec![]),
        (doc! { "_id": { "$eq": 5, "$gt": 1 } }, None, vec![("_id", bson!(5))]),
        (doc! { "_id": [1] }, None, vec![("_id", bson!([1]))]),
        (doc! { "_id": regex("x", "") }, None, vec![]),
        (doc! { "_id": Bson::Null }, None, vec![("_id", Bson::Null)]),
        (doc! { "_id": 1, "a": 2 }, None, vec![("_id", bson!(1)), ("a", bson!(2))]),
        (
            doc! { "a.b": 1, "$and": [{ "c": { "$in": [3] } }, { "d": { "$all": [4] } }] },
            None,
            vec![("a.b", bson!(1)), ("c", bson!(3)), ("d", bson!(4))],
        ),
        (doc! { "$or": [{ "a": 1 }] }, None, vec![("a", bson!(1))]),
        (doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, None, vec![]),
    ] {
        let parsed = parse(&filter);
        assert_eq!(parsed.only_id(), id.as_ref(), "{filter}");
        let expected: Vec<_> = equalities.into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
        assert_eq!(parsed.equalities(), expected, "{filter}");
    }
}

#[test]
fn parsed_filters_are_shown_as_mongodb_shows_them() {
    for (filter, expected) in [
        (doc! {}, doc! {}),
        (doc! { "_id": "x" }, doc! { "_id": { "$eq": "x" } }),
        (doc! { "b": 1, "a": 2 }, doc! { "$and": [{ "a": { "$eq": 2 } }, { "b": { "$eq": 1 } }] }),
        (
            doc! { "a": { "$gt": 1, "$lt": 5 } },
            doc! { "$and": [{ "a": { "$lt": 5 } }, { "a": { "$gt": 1 } }] },
        ),
        (doc! { "a": { "$ne": 1 } }, doc! { "a": { "$not": { "$eq": 1 } } }),
        (doc! { "a": { "$exists": false } }, doc! { "a": { "$not": { "$exists": true } } }),
        (doc! { "a": { "$in": [3, 1, 3] } }, doc! { "a": { "$in": [1, 3] } }),
        (doc! { "a": { "$in": [] } }, doc! { "$alwaysFalse": 1 }),
        (doc! { "a": regex("x", "i") }, doc! { "a": { "$regex": "x", "$options": "i" } }),
        (doc! { "a": { "$elemMatch": { "b": 1 } } }, doc! { "a": { "$elemMatch": { "b": { "$eq": 1 } } } }),
        (
            doc! { "$or": [{ "b": 1 }, { "a": 1 }] },
            doc! { "$or": [{ "a": { "$eq": 1 } }, { "b": { "$eq": 1 } }] },
        ),
        (doc! { "a": { "$type": ["number", "string"] } }, doc! { "a": { "$type": ["number", 2] } }),
    ] {
        assert_eq!(parse(&filter).to_document(), expected, "{filter}");
    }
}
