//! Tests of workload files: the examples are read, and each mistake is reported in one sentence with its path.

use std::time::Duration;

use fathom_load::document_workload::DocumentWorkload;
use fathom_load::driving::{Arrivals, DrivingPlan};

const EXAMPLES: [(&str, &str); 3] = [
    ("nested-orders", include_str!("../../../workloads/nested-orders.yaml")),
    ("insert-index-growth", include_str!("../../../workloads/insert-index-growth.yaml")),
    ("bank-transfer", include_str!("../../../workloads/bank-transfer.yaml")),
];

#[test]
fn the_examples_are_read() {
    for (name, text) in EXAMPLES {
        let workload = DocumentWorkload::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.starts_with("# "), "{name} does not say what it is for");
        assert_eq!(workload.phases().len(), 2, "{name}");
        assert_eq!(workload.metrics()[0], "LOAD");
    }
    let bank = DocumentWorkload::parse(EXAMPLES[2].1).unwrap();
    for part in ["transfer", "transfer.update", "transfer.insert", "transfer.commit"] {
        assert!(bank.metrics().contains(&part.to_owned()), "{part}");
    }
}

#[test]
fn the_example_of_the_page_is_read() {
    let page = include_str!("../../../docs/workloads.md");
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        DocumentWorkload::parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}

/// A collection, and what is to be read besides.
fn with(rest: &str) -> String {
    format!(
        "collections: {{c: {{documents: 10, document: {{_id: !sequence , a: 1, e: !string 3}}}}}}\n{rest}"
    )
}

fn operation(text: &str) -> String {
    with(&format!("operations: {{o: {text}}}"))
}

/// The mistake, and words of its message.
type Mistakes = Vec<(String, &'static str)>;

fn mistakes_in_collections() -> Mistakes {
    vec![
        (String::new(), "names with values"),
        ("a: [1".to_owned(), "it is not YAML: did not find expected"),
        ("a: 1\na: 2".to_owned(), "duplicate entry with key \"a\""),
        ("{}".to_owned(), "'collections' is missing"),
        ("colections: {}".to_owned(), "there is no key 'colections'; did you mean 'collections'"),
        ("collections: {}".to_owned(), "collections: 1 to 1000 collections are expected"),
        ("collections: {c: {documents: 5}}".to_owned(), "collections.c: it has documents to load"),
        (
            "collections: {c: {documents: -1, document: {}}}".to_owned(),
            "c.documents: a whole number from 0 to",
        ),
        ("collections: {c: {dokument: {}}}".to_owned(), "no key 'dokument'; did you mean 'document'"),
        (
            "collections: {c: {indexes: [{key: {}}]}}".to_owned(),
            "c.indexes.0.key: an index has at least one field",
        ),
        ("collections: {c: {indexes: [{key: {a: 1}, uniqe: true}]}}".to_owned(), "did you mean 'unique'"),
        ("collections: {c: {indexes: [{key: {a: !int 1}}]}}".to_owned(), "here it must stay the same"),
        ("collections: {c: {document: {1: 2}}}".to_owned(), "1 cannot be a name; put it in quotes"),
        ("collections: {c: {document: [1]}}".to_owned(), "a list is not a document"),
    ]
}

fn mistakes_in_generators() -> Mistakes {
    let document = |text: &str| format!("collections: {{c: {{document: {{a: {text}}}}}}}");
    vec![
        (document("!intt 1"), "no generator 'intt'; did you mean 'int'"),
        (document("!int [5, 1]"), "'to' must not be below 'from'"),
        (document("!int [1, 2, 3]"), "a range has two ends"),
        (document("!int [1, 3000000000]"), "from -2147483648 to 2147483647 is expected"),
        (document("!long {from: 1, to: 9, by: zipf}"), "uniform or zipfian is expected"),
        (document("!long {from: 1, to: 9, skew: 0.5}"), "only zipfian has a skew"),
        (document("!long {from: -9000000000000000000, to: 9000000000000000000}"), "2^62"),
        (document("!string "), "names with values are expected here"),
        (document("!string {length: 3, compressibility: 0.5}"), "compressibility: a number from 1 to"),
        (document("!array {of: !string 1000000, length: 100}"), "and a server takes 16777216"),
        (document("!pick []"), "nothing to pick from"),
        (document("!pick {from: [1, 2], weights: [1]}"), "a weight for each value"),
        (document("!date tomorrow"), "a moment is expected"),
        (document("!date [now, -1d]"), "'to' must not be before 'from'"),
        (document("!bool 2"), "a number from 0 to 1"),
        (document("!join [{a: 1}]"), "only texts, numbers"),
        (document("!existing d"), "a.!existing: there is no collection 'd'"),
        (document("!existing c"), "the field '_id' of 'c' cannot be derived from a record's number"),
        (document("!existing {collection: c, by: zipfain}"), "did you mean 'zipfian'"),
        (document("!var x"), "no value under 'let' 'x'"),
        (document(".nan"), ""),
    ]
}

fn mistakes_in_operations() -> Mistakes {
    vec![
        (with("operations: {LOAD: {count: {collection: c}}}"), "and is not LOAD"),
        (operation("{fnid: {collection: c}}"), "no kind of operation 'fnid'; did you mean 'find'"),
        (operation("{find: {collection: c}, count: {collection: c}}"), "exactly one of find, insert"),
        (
            operation("{find: {colection: c}}"),
            "operations.o.find: there is no key 'colection'; did you mean 'collection'",
        ),
        (operation("{find: {collection: d}}"), "o.find.collection: there is no collection 'd'"),
        (operation("{find: {collection: c, filter: 5}}"), "5 is not a document"),
        (
            operation("{find: {collection: c, filter: {_id: !sequence }}}"),
            "to name one that is there use !existing",
        ),
        (
            operation("{find: {collection: c, filter: {a: !existing {collection: c, field: e}}}}"),
            "'e' of 'c' cannot be derived",
        ),
        (operation("{find: {collection: c, limit: 0}}"), "limit: a whole number from 1"),
        (operation("{update: {collection: c}}"), "'update' is missing"),
        (operation("{update: {collection: c, update: 3}}"), "3 is not an update"),
        (operation("{findAndModify: {collection: c}}"), "either an 'update' or 'remove: true'"),
        (operation("{aggregate: {collection: c, pipeline: {}}}"), "is not a list"),
        (
            operation("{transaction: {steps: [{count: {collection: c}}]}}"),
            "count is not allowed in a transaction",
        ),
        (operation("{transaction: {steps: []}}"), "1 to 100 steps"),
        (
            operation("{let: {s: a}, find: {collection: c, filter: {a: !var {name: s, times: 2}}}}"),
            "not always a number",
        ),
        (operation("{insert: {collection: c, documents: 0}}"), "from 1 to 100000"),
    ]
}

fn mistakes_in_phases() -> Mistakes {
    vec![
        (with("load: {batch: 1000000}"), "load.batch"),
        (with("phases: [{name: p, mix: {x: 1}}]"), "there is no operation 'x'"),
        (
            with("operations: {o: {count: {collection: c}}}\nphases: [{name: p, mix: {o: 0}}]"),
            "no operation has a weight",
        ),
        (
            with("operations: {o: {count: {collection: c}}}\nphases: [{name: p, mix: {o: 1}, time: soon}]"),
            "'soon' is not a duration",
        ),
        (
            with(
                "operations: {o: {count: {collection: c}}}\nphases: [{name: p, mix: {o: 1}, arrivals: poisson}]",
            ),
            "it needs a 'rate'",
        ),
        (
            with(
                "operations: {o: {count: {collection: c}}}\nphases: [{name: p, mix: {o: 1}}, {name: p, mix: {o: 1}}]",
            ),
            "two phases 'p'",
        ),
    ]
}

#[test]
fn mistakes_are_told_with_their_place() {
    let all =
        [mistakes_in_collections(), mistakes_in_generators(), mistakes_in_operations(), mistakes_in_phases()];
    for (text, words) in all.into_iter().flatten() {
        match DocumentWorkload::parse(&text) {
            Ok(_) if words.is_empty() => {}
            Ok(_) => panic!("taken: {text}"),
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.contains(words) && !said.contains('\n'),
                    "{text}\n  said: {said}\n  wanted: {words}"
                );
                assert_eq!(error.kind(), fathom_errors::Kind::Usage, "{text}");
            }
        }
    }
}

#[test]
fn what_is_nested_too_deep_or_too_long_is_refused() {
    let deep = format!("collections: {{c: {{document: {{a: {}1{}}}}}}}", "[".repeat(70), "]".repeat(70));
    assert!(DocumentWorkload::parse(&deep).unwrap_err().to_string().contains("nested deeper than 60"));
    let deeper = format!("a: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(DocumentWorkload::parse(&deeper).is_err());
    assert!(DocumentWorkload::parse(&" ".repeat(2 << 20)).is_err());
}

/// Two readings of the clock refused a `!date now` that was read while a millisecond ended; 100,000 of them take some.
#[test]
fn now_is_not_before_itself() {
    let dates = vec!["!date now"; 1000].join(", ");
    let text = with(&format!("operations: {{o: {{insert: {{collection: c, document: {{a: [{dates}]}}}}}}}}"));
    for _ in 0..100 {
        let read = DocumentWorkload::parse(&text);
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
}

#[test]
fn phases_change_the_plan_where_they_say_so() {
    let text = with(
        "operations: {o: {count: {collection: c}}, i: {insert: {collection: c, documents: 50}}}\n\
         phases: [{name: a, mix: {o: 1}, time: 90, threads: 7, rate: 100, arrivals: poisson, warmup: 5s}, {name: b, mix: {i: 1}}]",
    );
    let workload = DocumentWorkload::parse(&text).unwrap();
    let base = DrivingPlan {
        connections: 3,
        loops: 1,
        depth: 1,
        operations: Some(10),
        time: None,
        warmup: Duration::ZERO,
        arrivals: Arrivals::Closed,
        deadline: None,
        no_progress: None,
        batch: 1,
        seed: 1,
        points: false,
    };
    let plan = workload.phases()[0].plan(&base);
    assert_eq!((plan.connections, plan.operations, plan.time), (7, None, Some(Duration::from_secs(90))));
    assert_eq!((plan.arrivals, plan.warmup), (Arrivals::Poisson(100.0), Duration::from_secs(5)));
    let plan = workload.phases()[1].plan(&base);
    assert_eq!((plan.connections, plan.operations, plan.batch), (3, Some(10), 50));
    let plan = workload.load().plan(10, &base);
    assert_eq!((plan.operations, plan.batch), (Some(10), 1000));
}
