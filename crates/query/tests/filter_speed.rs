//! How long filters and plans take, in nanoseconds: `cargo test --release -p fathom-query --test filter_speed -- --ignored --nocapture`.
//! Not a test of anything; the numbers mean something on an idle machine only.

use std::hint::black_box;
use std::time::Instant;

use bson::{Document, RawDocumentBuf, doc};
use fathom_query::{Filter, IndexInfo, KeyPattern, Variables, choose};

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn measure<T>(name: &str, mut work: impl FnMut() -> T) {
    const ROUNDS: u32 = 200_000;
    let best = (0..5)
        .map(|_| {
            let began = Instant::now();
            (0..ROUNDS).for_each(|_| {
                black_box(work());
            });
            began.elapsed() / ROUNDS
        })
        .min();
    println!("{name:<40} {:>6} ns", best.unwrap().as_nanos());
}

#[test]
#[ignore = "a measurement"]
fn times() {
    let variables = Variables::at(bson::DateTime::from_millis(0));
    let mut fields = doc! { "_id": "user6284781860667377211" };
    (0..10).for_each(|field| {
        fields.insert(format!("field{field}"), "x".repeat(100));
    });
    fields.extend(doc! { "n": 5, "tags": ["a", "b", "c"], "deep": { "er": { "n": 7 } } });
    let document = raw(&fields);
    let id = KeyPattern::parse(&raw(&doc! { "_id": 1 })).unwrap();
    let other = KeyPattern::parse(&raw(&doc! { "n": 1, "tags": 1 })).unwrap();
    let info = |name, pattern| IndexInfo { name, pattern, multikey: false, sparse: false, unique: false, partial: None };
    let indexes = [info("_id_", &id), info("n_1_tags_1", &other)];
    for (name, filter) in [
        ("_id", doc! { "_id": "user6284781860667377211" }),
        ("_id range", doc! { "_id": { "$gte": "user6284781860667377211" } }),
        ("last of 13 fields", doc! { "n": { "$gt": 3, "$lt": 9 } }),
        ("dotted", doc! { "deep.er.n": 7 }),
        ("array", doc! { "tags": "c" }),
        ("regex", doc! { "tags": { "$regex": "^c" } }),
        ("in", doc! { "n": { "$in": [1, 2, 3, 4, 5] } }),
    ] {
        let bytes = raw(&filter);
        measure(&format!("parse {name}"), || Filter::parse(&bytes, &variables).unwrap());
        let parsed = Filter::parse(&bytes, &variables).unwrap();
        measure(&format!("match {name}"), || parsed.matches(&document).unwrap());
        measure(&format!("plan {name}"), || choose(&parsed, None, None, None, &indexes).unwrap());
    }
}
