//! Capped collections and the cursors that follow them, on each engine.

use crate::served::{code, connect, listed, on_each, run};
use bson::{Document, doc};
use fathom_client::{Code, Connection};

fn write_error(reply: &Document) -> i32 {
    reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().get_i32("code").unwrap()
}

fn numbers(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|one| one.get_i32("n").unwrap()).collect()
}

fn batch(reply: &Document, name: &str) -> Vec<i32> {
    let cursor = reply.get_document("cursor").unwrap();
    let documents: Vec<Document> =
        cursor.get_array(name).unwrap().iter().map(|one| one.as_document().unwrap().clone()).collect();
    numbers(&documents)
}

fn insert(connection: &mut Connection, n: i32) -> Document {
    run(connection, "test", &doc! { "insert": "log", "documents": [{ "n": n, "pad": "x".repeat(100) }] })
}

#[test]
fn the_oldest_fall_out_by_bytes_and_by_number() {
    on_each(|_, connection| {
        run(connection, "test", &doc! { "create": "log", "capped": true, "size": 4096 });
        run(
            connection,
            "test",
            &doc! { "createIndexes": "log", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] },
        );
        for n in 0..200 {
            insert(connection, n);
        }
        let all = numbers(&listed(connection, &doc! { "find": "log" }));
        assert!(all.len() > 20 && all.len() < 40, "{}", all.len());
        assert_eq!(*all.last().unwrap(), 199);
        assert!(all.windows(2).all(|two| two[0] + 1 == two[1]), "{all:?}");
        let backwards = numbers(&listed(connection, &doc! { "find": "log", "sort": { "$natural": -1 } }));
        assert!(backwards.iter().eq(all.iter().rev()));
        // The indexes no longer contain the removed documents.
        let by_index = doc! { "find": "log", "filter": { "n": { "$lt": 1000 } }, "hint": "n_1" };
        assert_eq!(numbers(&listed(connection, &by_index)), all);

        run(connection, "test", &doc! { "create": "few", "capped": true, "size": 1 << 20, "max": 3 });
        let documents: Vec<Document> = (0..10).map(|n| doc! { "n": n }).collect();
        run(connection, "test", &doc! { "insert": "few", "documents": documents });
        assert_eq!(numbers(&listed(connection, &doc! { "find": "few" })), [7, 8, 9]);
    });
}

#[test]
fn what_a_capped_collection_cannot_take_is_refused() {
    on_each(|_, connection| {
        run(connection, "test", &doc! { "create": "log", "capped": true, "size": 4096 });
        insert(connection, 1);
        let delete = doc! { "delete": "log", "deletes": [{ "q": { "n": 77 }, "limit": 1 }] };
        assert_eq!(write_error(&run(connection, "test", &delete)), Code::IllegalOperation.0);
        let grow = doc! { "update": "log", "updates": [{ "q": { "n": 1 }, "u": { "$set": { "more": 1 } } }] };
        assert_eq!(write_error(&run(connection, "test", &grow)), 10003);
        let same = doc! { "update": "log", "updates": [{ "q": { "n": 1 }, "u": { "$set": { "n": 2 } } }] };
        assert_eq!(run(connection, "test", &same).get_i32("nModified").unwrap(), 1);
        let large = doc! { "insert": "log", "documents": [{ "pad": "x".repeat(5000) }] };
        assert_eq!(write_error(&run(connection, "test", &large)), 16328);
        assert_eq!(listed(connection, &doc! { "find": "log" }).len(), 1);
        assert_eq!(
            code(connection, "test", &doc! { "convertToCapped": "log", "size": 1 }),
            Code::CommandNotSupported
        );
        run(connection, "test", &doc! { "create": "plain" });
        assert_eq!(code(connection, "test", &doc! { "find": "plain", "tailable": true }), Code::BadValue);
    });
}

#[test]
fn a_tailable_cursor_waits_and_goes_on_with_what_comes() {
    on_each(|server, connection| {
        run(connection, "test", &doc! { "create": "log", "capped": true, "size": 4096 });
        insert(connection, 1);
        let reply = run(connection, "test", &doc! { "find": "log", "tailable": true, "awaitData": true });
        assert_eq!(batch(&reply, "firstBatch"), [1]);
        let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
        assert_ne!(id, 0);
        let more = doc! { "getMore": id, "collection": "log", "maxTimeMS": 3_600_000 };
        let mut other = connect(server);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            insert(&mut other, 2);
        });
        assert_eq!(batch(&run(connection, "test", &more), "nextBatch"), [2]);
        writer.join().unwrap();
        let patient = doc! { "getMore": id, "collection": "log", "maxTimeMS": 60 };
        let begun = std::time::Instant::now();
        assert_eq!(batch(&run(connection, "test", &patient), "nextBatch"), [0_i32; 0]);
        assert!(begun.elapsed() >= std::time::Duration::from_millis(60));
        // Overrun: the cursor's last document was removed, so the cursor is closed.
        for n in 3..100 {
            insert(connection, n);
        }
        assert_eq!(code(connection, "test", &patient), Code(136));
        assert_eq!(code(connection, "test", &patient), Code::CursorNotFound);
    });
}
