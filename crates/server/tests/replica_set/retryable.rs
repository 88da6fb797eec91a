//! A retried write is executed once, also by the next primary.

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use fathom_client::Code;
use fathom_server::config::EngineName;

use super::set::Set;
use crate::served::{code, failure, run};

fn session(byte: u8) -> Document {
    doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![byte; 16] } }
}

fn retryable(command: Document, number: i64) -> Document {
    command
        .into_iter()
        .chain(doc! {
            "lsid": session(7), "txnNumber": number, "writeConcern": { "w": "majority", "wtimeout": 300_000 },
        })
        .collect()
}

/// Removes the fields that differ from time to time.
fn said(mut reply: Document) -> Document {
    ["operationTime", "$clusterTime", "electionId", "opTime"]
        .iter()
        .for_each(|name| drop(reply.remove(*name)));
    reply
}

#[test]
fn a_write_that_is_sent_again_is_done_once() {
    let mut set = Set::of_three(EngineName::WiredTiger);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    let writes = [
        doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }, { "_id": 2, "n": 0 }, { "_id": 3, "n": 0 }] },
        doc! { "update": "c", "updates": [
            { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } },
            { "q": { "_id": 9 }, "u": { "$inc": { "n": 1 } }, "upsert": true },
        ] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] },
        doc! { "findAndModify": "c", "query": { "_id": 3 }, "update": { "$inc": { "n": 5 } }, "new": true },
        doc! { "findAndModify": "c", "query": { "_id": 3 }, "update": { "$inc": { "n": 5 } } },
        doc! { "findAndModify": "c", "query": { "_id": 3 }, "remove": true },
        doc! { "findAndModify": "c", "query": { "_id": 20 }, "update": { "$inc": { "n": 1 } }, "upsert": true, "new": true },
    ];
    let mut first = Vec::new();
    for (number, write) in writes.iter().enumerate() {
        let command = retryable(write.clone(), i64::try_from(number).unwrap());
        let reply = said(run(&mut connection, "test", &command));
        assert_eq!(said(run(&mut connection, "test", &command)), reply, "{command}");
        assert_eq!(said(run(&mut connection, "test", &command)), reply, "{command}");
        first.push(reply);
    }
    let all = vec![doc! { "_id": 1, "n": 1 }, doc! { "_id": 9, "n": 1 }, doc! { "_id": 20, "n": 1 }];
    assert_eq!(set.documents(primary), all);
    let old = retryable(writes[0].clone(), 2);
    assert_eq!(code(&mut connection, "test", &old), Code::TransactionTooOld);
    // The next primary knows it too, and the old one after its return.
    set.stop(primary);
    set.elect(&[(primary + 1) % 3, (primary + 2) % 3]);
    let next = set.primary();
    let last = retryable(writes[6].clone(), 6);
    assert_eq!(said(run(&mut set.connect(next), "test", &last)), first[6]);
    assert_eq!(set.documents(next), all);
    set.restart(primary);
    set.wait_secondary(primary);
    set.wait_equal(next);
    set.end();
}

#[test]
fn what_cannot_be_sent_again_is_refused_and_what_may_be_is_labelled() {
    let set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    let many = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } }, "multi": true }] };
    let reply = run(&mut connection, "test", &retryable(many, 1));
    let errors = reply.get_array("writeErrors").unwrap();
    assert_eq!(errors[0].as_document().unwrap().get_i32("code").unwrap(), 72, "{reply}");
    let without = doc! { "insert": "c", "documents": [{}], "txnNumber": 1_i64 };
    assert_eq!(code(&mut connection, "test", &without), Code::InvalidOptions);
    let mut transaction = retryable(doc! { "insert": "c", "documents": [{}] }, 1);
    transaction.extend(doc! { "startTransaction": true, "autocommit": false });
    assert_eq!(code(&mut connection, "test", &transaction), Code::OperationNotSupportedInTransaction);
    let secondary = (primary + 1) % 3;
    set.wait_secondary(secondary);
    let insert = retryable(doc! { "insert": "c", "documents": [{}] }, 2);
    let refused = failure(&mut set.connect(secondary), "test", &insert);
    assert_eq!((refused.code(), refused.labels()), (Code::NotWritablePrimary, &["RetryableWriteError"][..]));
    set.end();
}
