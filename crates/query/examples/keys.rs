//! Measures the nanoseconds for one key and one comparison: `cargo run --release -p fathom-query --example keys`.
use bson::raw::RawBson;
use bson::{Bson, RawBsonRef, RawDocumentBuf, doc, oid::ObjectId};
use fathom_query::{
    Bound, IndexKeys, KeyBuilder, KeyExtractor, KeyPattern, KeyString, compare, decode, hash64,
};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 200;
const RUNS: u32 = 2_000;

fn main() {
    let values = [
        ("int32", Bson::Int32(123_456)),
        ("double", Bson::Double(1234.5)),
        ("string of 23", Bson::String("user6284781860667377211".into())),
        ("ObjectId", Bson::ObjectId(ObjectId::from_bytes([7; 12]))),
        ("decimal", Bson::Decimal128("12.34".parse().unwrap_or_else(|_| unreachable!()))),
    ];
    for (name, value) in &values {
        let raw = RawBson::try_from(value.clone()).unwrap_or(RawBson::Null);
        let raw = raw.as_raw_bson_ref();
        let mut key = KeyString::default();
        report(name, "build, memory reused", || {
            let mut builder = KeyBuilder::reuse(std::mem::take(&mut key));
            builder.append(black_box(raw), false);
            key = builder.finish(Bound::Exact);
        });
        report(name, "build, new memory", || {
            let mut builder = KeyBuilder::new();
            builder.append(black_box(raw), false);
            black_box(builder.finish(Bound::Exact));
        });
        report(name, "compare", || {
            black_box(compare(black_box(raw), black_box(raw)));
        });
        report(name, "decode", || {
            black_box(decode(black_box(&key.bytes), &key.type_bits, &[false]).ok());
        });
        report(name, "hash64", || {
            black_box(hash64(black_box(raw)));
        });
    }
    extraction();
    report("int and double", "compare", || {
        black_box(compare(black_box(RawBsonRef::Int64(5)), black_box(RawBsonRef::Double(5.5))));
    });
}

fn extraction() {
    let mut document = doc! { "_id": "user6284781860667377211" };
    for field in 0..10 {
        document.insert(format!("field{field}"), "x".repeat(100));
    }
    document.insert("tags", vec!["a", "b", "c"]);
    let Ok(document) = RawDocumentBuf::try_from(document) else { return };
    for pattern in
        [doc! { "_id": 1 }, doc! { "field9": 1 }, doc! { "_id": 1, "field5": -1 }, doc! { "tags": 1 }]
    {
        let name = pattern.to_string();
        let Ok(raw) = RawDocumentBuf::try_from(pattern) else { return };
        let Ok(pattern) = KeyPattern::parse(&raw) else { return };
        let extractor = KeyExtractor::new(pattern, false);
        let mut keys = IndexKeys::default();
        report(&name, "extract", || {
            black_box(extractor.extract(black_box(&document), &mut keys).is_ok());
        });
    }
}

/// Prints the fastest of many short rounds, which other load on the machine disturbs least.
#[expect(clippy::print_stdout, reason = "a bench reports to whoever runs it")]
fn report(name: &str, what: &str, mut run: impl FnMut()) {
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        (0..RUNS).for_each(|_| run());
        best_ns = best_ns.min(begin.elapsed().as_nanos() as f64 / f64::from(RUNS));
    }
    println!("{name:32} {what:22} {best_ns:8.1} ns");
}
