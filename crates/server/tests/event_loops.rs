//! Event loops of a real server: clients get the same replies from loops and from threads. The server decides by the machine's clocks when loops take
//! connections over; `event_loops/tests.rs` of the server itself leaves that decision to the test.

use crate::served::executor::{figures, read};
use crate::served::{connect, in_memory, insert, listed, run};
use bson::doc;
use fathom_client::Connection;
use fathom_server::Server;
use fathom_server::config::ServiceExecutor;

/// A server's connections that have sent enough brief queries for loops to take them over.
fn crowd(server: &Server) -> Vec<Connection> {
    insert(&mut connect(server), "c", (0..8).map(|id| doc! { "_id": id, "square": id * id }).collect());
    let mut connections: Vec<Connection> = (0..6).map(|_| connect(server)).collect();
    for _ in 0..20 {
        connections.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
    }
    connections
}

#[test]
fn clients_get_the_same_replies_whoever_serves_them() {
    let server = in_memory(|_| {});
    let mut crowd = crowd(&server);
    for (place, connection) in (0..).zip(&mut crowd) {
        let update = doc! { "q": { "_id": place }, "u": { "$set": { "by": place } } };
        let reply = run(connection, "test", &doc! { "update": "c", "updates": [update] });
        assert_eq!(reply.get_i32("nModified").unwrap(), 1, "{reply}");
        insert(connection, "c", vec![doc! { "_id": 100 + place }]);
        let pipeline = doc! { "aggregate": "c", "pipeline": [{ "$count": "n" }], "cursor": {} };
        let reply = run(connection, "test", &pipeline);
        assert!(reply.to_string().contains(&format!("\"n\": {}", 9 + place)), "{reply}");
    }
    let found = listed(&mut connect(&server), &doc! { "find": "c", "sort": { "_id": 1 } });
    let ids: Vec<i32> = found.iter().map(|one| one.get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 104, 105]);
    assert!(found.iter().take(6).all(|one| one.get("by") == one.get("_id")));
    // Connections end with the server.
    server.stop().unwrap();
    let find = doc! { "find": "c", "limit": 1 };
    assert!(crowd.iter_mut().all(|connection| connection.run("test", &find).is_err()));
}

#[test]
fn a_thread_for_each_connection_may_be_asked_for() {
    let server = in_memory(|config| config.net.service_executor = ServiceExecutor::Synchronous);
    let mut connection = connect(&server);
    insert(&mut connection, "c", vec![doc! { "_id": 2, "square": 4 }]);
    (0..200).for_each(|_| read(&mut connection, 2));
    let figures = figures(&server);
    assert_eq!(figures.get_str("executor").unwrap(), "passthrough");
    assert_eq!(figures.get_i32("threadsRunning").unwrap(), 2);
    assert_eq!(figures.get_i64("operationsInEventLoops").unwrap(), 0);
    server.stop().unwrap();
}

/// The same server on a machine that is at rest.
mod timed {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use bson::Document;
    use fathom_client::Code;
    use fathom_server::config::EngineName;
    use fathom_wire::{Header, Message, OpMsgWriter, flag};

    use super::*;
    use crate::served::code;
    use crate::served::executor::{TIMEOUT, brought, figure, in_loops};

    /// A server with a few documents, and connections that loops serve.
    fn crowd(server: &Server, count: usize) -> Vec<Connection> {
        let mut first = connect(server);
        insert(&mut first, "c", (0..8).map(|id| doc! { "_id": id, "square": id * id }).collect());
        let mut connections: Vec<Connection> = (0..count).map(|_| connect(server)).collect();
        brought(server, &mut connections);
        connections
    }

    /// Waits until loops serve at most this many connections.
    fn at_most_in_loops(server: &Server, count: usize) {
        let until = Instant::now() + TIMEOUT;
        while in_loops(server) > i64::try_from(count).unwrap() {
            assert!(Instant::now() < until, "{:?}", figures(server));
        }
    }

    #[test]
    fn what_is_not_brief_has_a_thread_and_comes_back() {
        let server = in_memory(|_| {});
        let mut crowd = crowd(&server, 6);
        let before = figure(&server, "operationsInEventLoops");
        crowd.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
        assert!(figure(&server, "operationsInEventLoops") >= before + 24);

        // Each leaves its loop for its answer, and no other one does.
        let [first, second, third, fourth, ..] = &mut crowd[..] else { panic!() };
        let pipeline = doc! { "aggregate": "c", "pipeline": [{ "$count": "n" }], "cursor": {} };
        let reply = run(first, "test", &pipeline);
        assert!(reply.to_string().contains("\"n\": 8"), "{reply}");
        let journaled = doc! { "insert": "j", "documents": [{}], "writeConcern": { "w": 1, "j": true } };
        assert_eq!(run(second, "test", &journaled).get_i32("n").unwrap(), 1);
        // A busy loop may have given up others too.
        assert!(in_loops(&server) <= 4);
        // Too large to be brief, and a scan that only turns out not to be.
        insert(third, "c", vec![doc! { "_id": 8, "text": "x".repeat(20_000) }]);
        assert!(in_loops(&server) <= 3);
        insert(&mut connect(&server), "many", (0..400).map(|n| doc! { "n": n }).collect());
        let scan = doc! { "find": "many", "filter": { "n": 399 }, "limit": 1 };
        assert!(run(fourth, "test", &scan).to_string().contains("399"));
        // It is answered in the loop, and leaves after its answer.
        at_most_in_loops(&server, 2);
        brought(&server, &mut crowd);

        // A failure is a reply like any other.
        let wrong = doc! { "find": "c", "filter": { "_id": { "$nonsense": 1 } }, "limit": 1 };
        assert_eq!(code(&mut crowd[0], "test", &wrong), Code::BadValue);
        crowd.iter_mut().for_each(|connection| read(connection, 7));
        drop(crowd.pop());
        at_most_in_loops(&server, crowd.len());
        server.stop().unwrap();
    }

    #[test]
    fn small_writes_are_brief_and_are_there_for_everybody() {
        let server = in_memory(|_| {});
        let mut crowd = crowd(&server, 5);
        let before = figure(&server, "operationsInEventLoops");
        for (place, connection) in crowd.iter_mut().enumerate() {
            let place = i32::try_from(place).unwrap();
            let update = doc! { "q": { "_id": place }, "u": { "$set": { "by": place } } };
            let reply = run(connection, "test", &doc! { "update": "c", "updates": [update] });
            assert_eq!(reply.get_i32("nModified").unwrap(), 1, "{reply}");
            insert(connection, "c", vec![doc! { "_id": 100 + place }]);
            let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 + place }, "limit": 1 }] };
            assert_eq!(run(connection, "test", &delete).get_i32("n").unwrap(), i32::from(place < 3));
        }
        assert!(figure(&server, "operationsInEventLoops") >= before + 6);
        let found = crate::served::listed(&mut connect(&server), &doc! { "find": "c", "sort": { "_id": 1 } });
        let ids: Vec<i32> = found.iter().map(|one| one.get_i32("_id").unwrap()).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]);
        assert!(found.iter().take(5).all(|one| one.get("by") == one.get("_id")));
        server.stop().unwrap();
    }

    #[test]
    fn an_operation_that_waits_holds_nobody_up() {
        let server = in_memory(|config| {
            config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        });
        let mut crowd = crowd(&server, 6);
        let block = Duration::from_secs(8);
        let data = doc! {
            "failCommands": ["find"], "namespace": "test.slow", "blockConnection": true,
            "blockTimeMS": i64::try_from(block.as_millis()).unwrap(),
        };
        let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
        run(&mut connect(&server), "admin", &point);
        let dissolved = figure(&server, "eventLoopsDissolved");
        let mut waits = crowd.pop().unwrap();
        let begun = Instant::now();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let reply = run(&mut waits, "test", &doc! { "find": "slow", "limit": 1 });
            tell.send(()).unwrap();
            (waits, reply)
        });
        // The others continue long before the waiting one ends.
        while figure(&server, "eventLoopsDissolved") == dissolved {
            assert!(begun.elapsed() < block, "nobody saw that an operation waits");
            std::thread::sleep(Duration::from_millis(5));
        }
        crowd.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
        assert!(told.try_recv().is_err(), "{:?} for the others", begun.elapsed());
        let (mut waits, reply) = thread.join().unwrap();
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0);
        read(&mut waits, 3);
        crowd.push(waits);
        // After a respite the loops serve all of them again.
        brought(&server, &mut crowd);
        server.stop().unwrap();
    }

    #[test]
    fn an_operation_may_end_its_connection_and_no_other() {
        let server = in_memory(|config| {
            config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        });
        let mut crowd = crowd(&server, 5);
        let data = doc! { "failCommands": ["find"], "namespace": "test.gone", "closeConnection": true };
        let point = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
        run(&mut connect(&server), "admin", &point);
        let mut gone = crowd.pop().unwrap();
        assert!(gone.run("test", &doc! { "find": "gone", "limit": 1 }).is_err());
        crowd.iter_mut().for_each(|connection| read(connection, 5));
        assert!(in_loops(&server) <= 4);
        server.stop().unwrap();
    }

    #[test]
    fn a_server_stops_while_loops_have_connections() {
        let server = in_memory(|_| {});
        let mut crowd = crowd(&server, 5);
        let begun = Instant::now();
        server.stop().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        let find = doc! { "find": "c", "limit": 1 };
        assert!(crowd.iter_mut().all(|connection| connection.run("test", &find).is_err()));
    }

    #[test]
    fn where_tickets_are_scarce_operations_wait_for_them_in_threads() {
        let directory = tempfile::tempdir().unwrap();
        let (server, mut first) = crate::served::start(directory.path(), EngineName::WiredTiger);
        let mut crowd = crowd(&server, 6);
        let name = "wiredTigerConcurrentReadTransactions";
        run(&mut first, "admin", &doc! { "setParameter": 1, name: 4 });
        let until = Instant::now() + TIMEOUT;
        while in_loops(&server) > 0 {
            assert!(Instant::now() < until, "{:?}", figures(&server));
            crowd.iter_mut().for_each(|connection| read(connection, 2));
        }
        run(&mut first, "admin", &doc! { "setParameter": 1, name: 128 });
        brought(&server, &mut crowd);
        drop((first, crowd));
        server.stop().unwrap();
    }

    /// A client that writes its bytes itself.
    struct RawClient(TcpStream);

    impl RawClient {
        fn connect(server: &Server) -> RawClient {
            let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            RawClient(socket)
        }

        fn send(&mut self, messages: &[(u32, Document)]) {
            let mut bytes = Vec::new();
            for (number, (flags, document)) in messages.iter().enumerate() {
                let mut frame = Vec::new();
                let number = i32::try_from(number).unwrap() + 1;
                let mut message = OpMsgWriter::begin(&mut frame, number, 0);
                message.raw_body(&bson::RawDocumentBuf::try_from(document).unwrap());
                message.finish().unwrap();
                frame[Header::BYTES..Header::BYTES + 4].copy_from_slice(&flags.to_le_bytes());
                bytes.extend(frame);
            }
            self.0.write_all(&bytes).unwrap();
        }

        /// The number of the message that a reply answers, and the reply.
        fn receive(&mut self) -> (i32, Document) {
            let mut header = [0; Header::BYTES];
            self.0.read_exact(&mut header).unwrap();
            let parsed = Header::parse(&header).unwrap();
            let mut frame = header.to_vec();
            frame.resize(parsed.length_bytes, 0);
            self.0.read_exact(&mut frame[Header::BYTES..]).unwrap();
            match Message::parse(&frame).unwrap() {
                Message::Msg(message) => (parsed.response_to, Document::try_from(message.body).unwrap()),
                other => panic!("{other:?}"),
            }
        }

        /// Sends brief queries, among those of other connections, until loops serve all of them.
        fn bring(&mut self, server: &Server, crowd: &mut [Connection]) {
            let until = Instant::now() + TIMEOUT;
            while in_loops(server) <= i64::try_from(crowd.len()).unwrap() {
                assert!(Instant::now() < until, "{:?}", figures(server));
                for id in 0..4 {
                    self.send(&[(0, find(id))]);
                    self.receive();
                    crowd.iter_mut().for_each(|connection| read(connection, id));
                }
            }
        }
    }

    fn find(id: i32) -> Document {
        doc! { "find": "c", "filter": { "_id": id }, "limit": 1, "$db": "test" }
    }

    #[test]
    fn messages_that_come_at_once_are_answered_in_their_order() {
        let server = in_memory(|_| {});
        let mut crowd = crowd(&server, 5);
        let mut raw = RawClient::connect(&server);
        raw.bring(&server, &mut crowd);
        for count in [3, 100] {
            let mut messages: Vec<(u32, Document)> = (0..count).map(|number| (0, find(number % 8))).collect();
            // In between, one that wants no reply, and one that is not brief.
            let silent = doc! {
                "insert": "silent", "documents": [{ "_id": count }], "writeConcern": { "w": 0 }, "$db": "test",
            };
            messages.insert(1, (flag::MORE_TO_COME, silent));
            messages.insert(3, (0, doc! { "count": "silent", "$db": "test" }));
            raw.send(&messages);
            for number in (0..messages.len()).filter(|number| *number != 1) {
                let (answers, reply) = raw.receive();
                assert_eq!(answers, i32::try_from(number).unwrap() + 1, "{reply}");
                assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
            }
            raw.bring(&server, &mut crowd);
        }
        assert_eq!(run(&mut connect(&server), "test", &doc! { "count": "silent" }).get_i32("n").unwrap(), 2);
        server.stop().unwrap();
    }

    #[test]
    fn a_client_that_does_not_read_its_reply_holds_nobody_up() {
        let server = in_memory(|_| {});
        let large: Vec<Document> =
            (0..12).map(|id| doc! { "_id": id, "text": "x".repeat(1 << 20) }).collect();
        large.into_iter().for_each(|document| insert(&mut connect(&server), "large", vec![document]));
        let mut raw = RawClient::connect(&server);
        let mut crowd = crowd(&server, 5);
        raw.bring(&server, &mut crowd);
        raw.send(&[(0, doc! { "find": "large", "limit": 12, "$db": "test" })]);
        crowd.iter_mut().for_each(|connection| (0..8).for_each(|id| read(connection, id)));
        let (_, reply) = raw.receive();
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 12);
        raw.send(&[(0, find(1))]);
        assert_eq!(raw.receive().1.get_f64("ok").unwrap(), 1.0);
        server.stop().unwrap();
    }
}
