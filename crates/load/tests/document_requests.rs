//! Tests of the values that document workloads draw and the messages they send, and of their reactions to replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, RawDocumentBuf, doc};
use fathom_load::binding::Binding;
use fathom_load::document_workload::{DocumentShared, DocumentSource, DocumentState, DocumentWorkload, Part};
use fathom_load::measurements::Status;
use fathom_load::properties::Properties;
use fathom_load::source::{OperationStart, ReplyOutcome, Source};
use fathom_wire::{Message, OpMsgWriter};

fn shared(text: &str, url: &str, next: &[u64]) -> Arc<DocumentShared> {
    let workload = DocumentWorkload::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut properties = Properties::default();
    properties.set("mongodb.url", url, "-p");
    let (binding, _) = Binding::from_properties(&properties).unwrap();
    Arc::new(DocumentShared::new(workload, binding, next))
}

/// A source of the first phase over ten records of `c`.
fn source_of(operation: &str) -> DocumentSource {
    let text = format!(
        "collections: {{c: {{document: {{_id: !sequence , a: 1}}}}}}\noperations: {{o: {operation}}}"
    );
    shared(&text, "mongodb://h/d?w=1", &[10]).source(Part::Phase(0), 7, 0)
}

/// The body of a message with its sequences as arrays, without `$db`.
fn read(frame: &[u8]) -> Document {
    let Message::Msg(message) = Message::parse(frame).unwrap() else { panic!() };
    let mut body = Document::try_from(message.body).unwrap();
    assert!(matches!(body.remove("$db").unwrap().as_str(), Some("d" | "admin")));
    for sequence in message.sequences() {
        let documents: Vec<Bson> =
            sequence.documents().map(|one| Document::try_from(one).unwrap().into()).collect();
        body.insert(sequence.name(), documents);
    }
    body
}

fn begin(source: &mut DocumentSource, most: u64) -> (OperationStart<DocumentState>, Document) {
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
    let begun = source.begin(most, &mut message).unwrap();
    message.finish().unwrap();
    (begun, read(&frame))
}

/// The outcome of a reply, with the next message if there is one.
fn answer(
    source: &mut DocumentSource,
    state: &mut DocumentState,
    reply: &Document,
) -> (ReplyOutcome, Option<Document>) {
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
    let step = source.answer(state, &RawDocumentBuf::try_from(reply).unwrap(), &mut message);
    message.finish().unwrap();
    let next = step.more.then(|| read(&frame));
    (step, next)
}

fn number(value: &Bson) -> i64 {
    value.as_i64().or(value.as_i32().map(i64::from)).unwrap()
}

#[test]
fn commands_are_those_that_drivers_send() {
    let concern = doc! { "w": 1 };
    let cases = [
        (
            "{find: {collection: c, filter: {a: {$gte: 1}}, sort: {a: -1}, projection: {a: 1}, hint: a_1, skip: 2, limit: 20, batchSize: 50}}",
            doc! { "find": "c", "filter": { "a": { "$gte": 1 } }, "sort": { "a": -1 }, "projection": { "a": 1 }, "hint": "a_1", "skip": 2, "limit": 20, "batchSize": 20 },
        ),
        (
            "{find: {collection: c, limit: 1}}",
            doc! { "find": "c", "filter": {}, "limit": 1, "singleBatch": true },
        ),
        (
            "{insert: {collection: c, document: {_id: !sequence , b: [1, {c: 2.5}]}}}",
            doc! { "insert": "c", "ordered": true, "writeConcern": &concern, "documents": [{ "_id": 10_i64, "b": [1, { "c": 2.5 }] }] },
        ),
        (
            "{update: {collection: c, filter: {a: 1}, update: {$set: {b: x}}, multi: true, upsert: true, arrayFilters: [{e: 1}]}}",
            doc! { "update": "c", "ordered": true, "writeConcern": &concern, "updates": [{ "q": { "a": 1 }, "u": { "$set": { "b": "x" } }, "multi": true, "upsert": true, "arrayFilters": [{ "e": 1 }] }] },
        ),
        (
            "{bulkWrite: {collection: c, ordered: false, times: 2, updates: [{filter: {a: 1}, update: [{$unset: b}]}, {update: {c: 1}}]}}",
            doc! { "update": "c", "ordered": false, "writeConcern": &concern, "updates": [
                { "q": { "a": 1 }, "u": [{ "$unset": "b" }] }, { "q": {}, "u": { "c": 1 } },
                { "q": { "a": 1 }, "u": [{ "$unset": "b" }] }, { "q": {}, "u": { "c": 1 } },
            ] },
        ),
        (
            "{delete: {collection: c, filter: {a: 1}, multi: true}}",
            doc! { "delete": "c", "ordered": true, "writeConcern": &concern, "deletes": [{ "q": { "a": 1 }, "limit": 0 }] },
        ),
        (
            "{findAndModify: {collection: c, filter: {a: 1}, sort: {a: 1}, projection: {a: 1}, update: {$inc: {a: 1}}, new: true}}",
            doc! { "findAndModify": "c", "query": { "a": 1 }, "sort": { "a": 1 }, "fields": { "a": 1 }, "update": { "$inc": { "a": 1 } }, "new": true, "writeConcern": &concern },
        ),
        (
            "{findAndModify: {collection: c, remove: true}}",
            doc! { "findAndModify": "c", "query": {}, "remove": true, "writeConcern": &concern },
        ),
        (
            "{aggregate: {collection: c, pipeline: [{$match: {a: 1}}], batchSize: 5, allowDiskUse: true}}",
            doc! { "aggregate": "c", "pipeline": [{ "$match": { "a": 1 } }], "cursor": { "batchSize": 5 }, "allowDiskUse": true },
        ),
        (
            "{count: {collection: c, filter: {a: 1}, limit: 3}}",
            doc! { "count": "c", "query": { "a": 1 }, "limit": 3 },
        ),
        ("{distinct: {collection: c, key: a}}", doc! { "distinct": "c", "key": "a", "query": {} }),
    ];
    for (operation, wanted) in cases {
        let (begun, sent) = begin(&mut source_of(operation), 1);
        assert_eq!(sent, wanted, "{operation}");
        assert_eq!((begun.records, begun.unanswered), (1, None));
    }
}

#[test]
fn a_cursor_is_read_to_its_end_or_its_limit() {
    let batch = |name: &str, count: i32, id: i64| {
        let documents: Vec<Document> = (0..count).map(|n| doc! { "_id": n }).collect();
        doc! { "cursor": { name: documents, "id": id, "ns": "d.c" }, "ok": 1 }
    };
    let mut source = source_of("{find: {collection: c, limit: 250, batchSize: 100}}");
    let (mut begun, _) = begin(&mut source, 1);
    let (_, next) = answer(&mut source, &mut begun.state, &batch("firstBatch", 100, 9));
    assert_eq!(next.unwrap(), doc! { "getMore": 9_i64, "collection": "c", "batchSize": 100 });
    let (_, next) = answer(&mut source, &mut begun.state, &batch("nextBatch", 100, 9));
    assert_eq!(next.unwrap(), doc! { "getMore": 9_i64, "collection": "c", "batchSize": 50 });
    let (step, _) = answer(&mut source, &mut begun.state, &batch("nextBatch", 50, 0));
    assert_eq!((step.whole, step.more), (Some((1, Status::Ok)), false));

    let mut source = source_of("{aggregate: {collection: c, pipeline: [], limit: 150}}");
    let (mut begun, _) = begin(&mut source, 1);
    let (_, next) = answer(&mut source, &mut begun.state, &batch("firstBatch", 101, 9));
    assert_eq!(next.unwrap(), doc! { "getMore": 9_i64, "collection": "c", "batchSize": 49 });
    let (_, next) = answer(&mut source, &mut begun.state, &batch("nextBatch", 49, 9));
    assert_eq!(next.unwrap(), doc! { "killCursors": "c", "cursors": [9_i64] });
    let (step, _) = answer(&mut source, &mut begun.state, &doc! { "ok": 1 });
    assert_eq!(step.whole, Some((1, Status::Ok)));
}

#[test]
fn what_names_a_record_that_is_not_there_has_failed() {
    let empty = doc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": "d.c" }, "ok": 1 };
    for (operation, reply, status) in [
        ("{find: {collection: c, filter: {_id: !existing c}}}", empty.clone(), Status::NotFound),
        ("{find: {collection: c, filter: {_id: !existing c}, mustMatch: false}}", empty.clone(), Status::Ok),
        ("{find: {collection: c, filter: {a: 5}}}", empty.clone(), Status::Ok),
        ("{let: {k: !existing c}, find: {collection: c, filter: {_id: !var k}}}", empty, Status::NotFound),
        ("{delete: {collection: c, filter: {_id: !existing c}}}", doc! { "n": 0, "ok": 1 }, Status::NotFound),
        ("{delete: {collection: c, filter: {_id: !existing c}}}", doc! { "n": 1, "ok": 1 }, Status::Ok),
        (
            "{findAndModify: {collection: c, filter: {_id: !existing c}, remove: true}}",
            doc! { "value": null, "ok": 1 },
            Status::NotFound,
        ),
        (
            "{findAndModify: {collection: c, filter: {a: 1}, remove: true}}",
            doc! { "value": null, "ok": 1 },
            Status::Ok,
        ),
        (
            "{aggregate: {collection: c, pipeline: []}}",
            doc! { "ok": 0, "code": 115, "errmsg": "no" },
            Status::NotImplemented,
        ),
        ("{count: {collection: c}}", doc! { "ok": 0, "code": 13, "errmsg": "no" }, Status::Forbidden),
    ] {
        let mut source = source_of(operation);
        let (mut begun, _) = begin(&mut source, 1);
        let (step, _) = answer(&mut source, &mut begun.state, &reply);
        assert_eq!(step.whole, Some((1, status)), "{operation}");
    }
}

#[test]
fn a_read_with_an_update_behind_it_is_of_one_record() {
    let mut source = source_of(
        "{readModifyWrite: {collection: c, filter: {_id: !existing c}, update: {$inc: {a: !int [1, 9]}}}}",
    );
    assert_eq!(source.metrics(), ["LOAD", "o", "o.find", "o.update"]);
    for _ in 0..20 {
        let (mut begun, find) = begin(&mut source, 1);
        let key = find.get_document("filter").unwrap().clone();
        assert!((0..10).contains(&key.get_i64("_id").unwrap()));
        let found = doc! { "cursor": { "firstBatch": [&key], "id": 0_i64, "ns": "d.c" }, "ok": 1 };
        let (step, update) = answer(&mut source, &mut begun.state, &found);
        assert_eq!((step.part, step.whole), (Some((2, Status::Ok)), None));
        let updates = update.unwrap().get_array("updates").unwrap().clone();
        assert_eq!(updates[0].as_document().unwrap().get_document("q").unwrap(), &key);
        let (step, _) = answer(&mut source, &mut begun.state, &doc! { "n": 1, "ok": 1 });
        assert_eq!((step.part, step.whole), (Some((3, Status::Ok)), Some((1, Status::Ok))));
    }
}

const TRANSFER: &str =
    "{let: {k: !existing c, n: !long [5, 9]}, transaction: {retries: 1, readConcern: snapshot, steps: [
    {update: {collection: c, filter: {_id: !var k}, update: {$inc: {a: !var {name: n, times: -1}}}}},
    {insert: {collection: c, document: {_id: !sequence , n: !var n}}}]}}";

#[test]
fn a_transaction_has_a_session_and_is_committed() {
    let mut source = source_of(TRANSFER);
    let (mut begun, mut first) = begin(&mut source, 1);
    let session = first.remove("lsid").unwrap();
    assert_eq!(first.remove("readConcern").unwrap().as_document().unwrap(), &doc! { "level": "snapshot" });
    let update = first.remove("updates").unwrap().as_array().unwrap()[0].as_document().unwrap().clone();
    let taken = update.get_document("u").unwrap().get_document("$inc").unwrap().get_i64("a").unwrap();
    assert!((-9..=-5).contains(&taken), "{taken}");
    let flags = doc! { "update": "c", "ordered": true, "txnNumber": 1_i64, "startTransaction": true, "autocommit": false };
    assert_eq!(first, flags);
    let (step, second) = answer(&mut source, &mut begun.state, &doc! { "n": 1, "ok": 1 });
    assert_eq!(step.part, Some((2, Status::Ok)));
    let mut second = second.unwrap();
    assert_eq!(second.remove("lsid").unwrap(), session);
    assert_eq!(
        second.remove("documents").unwrap().as_array().unwrap()[0],
        doc! { "_id": 10_i64, "n": -taken }.into()
    );
    assert_eq!(second, doc! { "insert": "c", "ordered": true, "txnNumber": 1_i64, "autocommit": false });

    // The transaction conflicts: it is aborted, and retried with the next number and the same document.
    let conflict = doc! { "ok": 0, "code": 112, "errmsg": "WriteConflict", "errorLabels": ["TransientTransactionError"] };
    let (step, abort) = answer(&mut source, &mut begun.state, &conflict);
    assert_eq!((step.whole, abort.unwrap().get_i32("abortTransaction").unwrap()), (None, 1));
    let (_, again) = answer(&mut source, &mut begun.state, &doc! { "ok": 1 });
    assert_eq!(again.unwrap().get_i64("txnNumber").unwrap(), 2);
    let (_, second) = answer(&mut source, &mut begun.state, &doc! { "n": 1, "ok": 1 });
    assert_eq!(
        second.unwrap().get_array("documents").unwrap()[0].as_document().unwrap().get_i64("_id").unwrap(),
        10
    );
    let (_, commit) = answer(&mut source, &mut begun.state, &doc! { "n": 1, "ok": 1 });
    let commit = commit.unwrap();
    assert_eq!(
        (commit.get_i32("commitTransaction").unwrap(), commit.get_document("writeConcern").unwrap()),
        (1, &doc! { "w": 1 })
    );
    let (step, _) = answer(&mut source, &mut begun.state, &doc! { "ok": 1 });
    assert_eq!((step.part, step.whole), (Some((4, Status::Ok)), Some((1, Status::Ok))));

    // The session serves the next one; a second conflict is one too many.
    let (mut begun, mut first) = begin(&mut source, 1);
    assert_eq!((first.remove("lsid").unwrap(), first.get_i64("txnNumber").unwrap()), (session, 3));
    answer(&mut source, &mut begun.state, &conflict);
    answer(&mut source, &mut begun.state, &doc! { "ok": 1 });
    answer(&mut source, &mut begun.state, &conflict);
    let (step, _) = answer(&mut source, &mut begun.state, &doc! { "ok": 1 });
    assert_eq!(step.whole, Some((1, Status::Error)));
}

#[test]
fn a_server_without_transactions_is_told_of_once() {
    let mut source = source_of(TRANSFER);
    let refusal = doc! { "ok": 0, "code": 20, "errmsg": "Transaction numbers are only allowed on a replica set member or mongos" };
    for told in [true, false, false] {
        let (mut begun, _) = begin(&mut source, 1);
        let (step, next) = answer(&mut source, &mut begun.state, &refusal);
        assert_eq!((step.whole, next), (Some((1, Status::NotImplemented)), None));
        assert_eq!(step.failure.is_some(), told);
    }
}

#[test]
fn a_load_fills_one_collection_after_another_and_goes_on_where_it_was() {
    let text = "collections: {a: {documents: 25, document: {_id: !sequence {start: 100, step: 2}}}, b: {documents: 5, document: {_id: !key {prefix: k, digits: 4, ordered: true}, a: !existing a}}}\nload: {batch: 10}";
    let shared = shared(text, "mongodb://h/d", &[12, 0]);
    assert_eq!(shared.documents_to_load(), 18);
    let mut source = shared.source(Part::Load, 1, 0);
    let mut keys: BTreeMap<String, Vec<Bson>> = BTreeMap::new();
    let mut sizes = Vec::new();
    let mut frame = Vec::new();
    loop {
        frame.clear();
        let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
        let Some(mut begun) = source.begin(10, &mut message) else { break };
        message.finish().unwrap();
        let sent = read(&frame);
        let documents = sent.get_array("documents").unwrap();
        let ids = documents.iter().map(|one| one.as_document().unwrap().get("_id").unwrap().clone());
        keys.entry(sent.get_str("insert").unwrap().to_owned()).or_default().extend(ids);
        sizes.push((begun.records, sent.get_bool("ordered").unwrap()));
        let (step, _) = answer(&mut source, &mut begun.state, &doc! { "n": documents.len() as i32, "ok": 1 });
        assert_eq!(step.whole, Some((0, Status::Ok)));
    }
    assert_eq!(sizes, [(10, false), (3, false), (5, false)]);
    let wanted: Vec<Bson> = (12..25_i64).map(|n| Bson::Int64(100 + 2 * n)).collect();
    assert_eq!(keys["a"], wanted);
    assert_eq!(keys["b"][4], "k0004".into());
    assert_eq!(shared.documents_to_load(), 0);
}

#[test]
fn documents_of_a_bulk_fail_each_by_itself_and_inserts_need_no_answer_at_w_0() {
    let mut source = source_of("{insert: {collection: c, documents: 4}}");
    let (mut begun, sent) = begin(&mut source, 100);
    assert_eq!((begun.records, sent.get_array("documents").unwrap().len()), (4, 4));
    let twice = doc! { "n": 3, "ok": 1, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "twice" }] };
    let (step, _) = answer(&mut source, &mut begun.state, &twice);
    assert_eq!((step.whole, step.failed_documents), (Some((1, Status::Ok)), 1));
    assert_eq!(begin(&mut source, 3).0.records, 3);

    let text = "collections: {c: {document: {_id: !sequence }}}\noperations: {o: {insert: {collection: c}}}";
    let shared = shared(text, "mongodb://h/d?w=0", &[0]);
    let (begun, sent) = begin(&mut shared.source(Part::Phase(0), 1, 0), 1);
    assert_eq!((begun.unanswered, sent.get_document("writeConcern").unwrap()), (Some(1), &doc! { "w": 0 }));
}

const EVERYTHING: &str = "collections: {c: {documents: 3000, document: {
  _id: !sequence , int: !int [1, 6], zipf: !long {from: 10, to: 109, by: zipfian}, double: !double {from: 1, to: 2, decimals: 1},
  bool: !bool 0.25, text: !string [3, 9], packed: !string {length: 1000, compressibility: 10}, binary: !binary 16,
  date: !date [2026-01-01T00:00:00Z, 2026-01-02T00:00:00Z], oid: !objectid , pick: !pick {from: [a, b], weights: [9, 1]},
  list: !array {of: {n: !int [0, 9]}, length: [0, 4]}, join: !join [x, !sequence , '-', !int 5], maybe: !optional {share: 0.5, value: 1},
  key: !key , plain: {a: [1, 2.5, null, {b: true}], long: !long 5}, const: 3000000000}}}\nload: {batch: 1000}";

fn documents(seed: u64) -> Vec<Document> {
    let shared = shared(EVERYTHING, "mongodb://h/d", &[0]);
    let mut source = shared.source(Part::Load, seed, 0);
    let mut all = Vec::new();
    for _ in 0..3 {
        let (_, sent) = begin(&mut source, 1000);
        all.extend(sent.get_array("documents").unwrap().iter().map(|one| one.as_document().unwrap().clone()));
    }
    all
}

#[test]
fn documents_have_their_shapes_and_distributions() {
    let all = documents(5);
    let share = |test: &dyn Fn(&Document) -> bool| all.iter().filter(|one| test(one)).count() as f64 / 3000.0;
    let near = |share: f64, wanted: f64| assert!((share - wanted).abs() < 0.035, "{share} {wanted}");
    for face in 1..=6 {
        near(share(&|one| one.get_i32("int").unwrap() == face), 1.0 / 6.0);
    }
    // The sum of 1/i^0.99 over 100 is 5.36.
    near(share(&|one| one.get_i64("zipf").unwrap() == 10), 1.0 / 5.36);
    near(share(&|one| one.get_bool("bool").unwrap()), 0.25);
    near(share(&|one| one.get_str("pick").unwrap() == "a"), 0.9);
    near(share(&|one| one.contains_key("maybe")), 0.5);
    near(share(&|one| one.get_array("list").unwrap().len() == 4), 0.2);
    for (place, one) in all.iter().enumerate() {
        assert_eq!(number(one.get("_id").unwrap()), place as i64);
        assert!((10..110).contains(&one.get_i64("zipf").unwrap()));
        let tenths = one.get_f64("double").unwrap() * 10.0;
        assert!((10.0..=20.0).contains(&tenths) && (tenths - tenths.round()).abs() < 1e-9);
        assert!((3..=9).contains(&one.get_str("text").unwrap().len()));
        let packed = one.get_str("packed").unwrap();
        assert!(packed.len() == 1000 && packed.ends_with(&"a".repeat(900)));
        assert_eq!(one.get_binary_generic("binary").unwrap().len(), 16);
        let date = one.get_datetime("date").unwrap().timestamp_millis();
        assert!((1_767_225_600_000..=1_767_312_000_000).contains(&date), "{date}");
        assert_eq!(one.get_str("join").unwrap(), format!("x{place}-5"));
        assert!(
            one.get_array("list").unwrap().iter().all(|item| item
                .as_document()
                .unwrap()
                .get_i32("n")
                .is_ok())
        );
        let plain = doc! { "a": [1, 2.5, null, { "b": true }], "long": 5_i64 };
        assert_eq!(
            (one.get_document("plain").unwrap(), one.get_i64("const").unwrap()),
            (&plain, 3_000_000_000)
        );
    }
    // YCSB's key of record 0.
    assert_eq!(all[0].get_str("key").unwrap(), "user6284781860667377211");
}

#[test]
fn the_seed_decides_all_but_object_ids() {
    let without = |mut all: Vec<Document>| {
        all.iter_mut().for_each(|one| drop(one.remove("oid")));
        all
    };
    let one = without(documents(5));
    assert_eq!(one, without(documents(5)));
    assert_ne!(one, without(documents(6)));
}

#[test]
fn records_are_chosen_as_they_are_asked_for() {
    let counts = |by: &str| {
        let mut source = source_of(&format!(
            "{{find: {{collection: c, filter: {{_id: !existing {{collection: c, by: {by}}}}}}}}}"
        ));
        let mut counts = [0; 10];
        for _ in 0..5000 {
            let (_, sent) = begin(&mut source, 1);
            counts[number(sent.get_document("filter").unwrap().get("_id").unwrap()) as usize] += 1;
        }
        counts
    };
    assert!(counts("uniform").iter().all(|count| (400..600).contains(count)));
    assert_eq!(counts("sequential"), [500; 10]);
    let latest = counts("latest");
    assert!(latest[9] > 1000 && latest[9] > latest[8] && latest[8] > latest[4], "{latest:?}");
    let hotspot = counts("hotspot, data: 0.2, operations: 0.9");
    assert!((4300..4700).contains(&(hotspot[0] + hotspot[1])), "{hotspot:?}");
    assert!(counts("zipfian, skew: 0.9").iter().max().unwrap() > &1000);
}
