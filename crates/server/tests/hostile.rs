//! Clients that send nonsense, too much, too little or too slowly, on real sockets: an error or a closed socket, bounded

//! memory, and a server that continues to answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::served::{code, connect, in_memory, run};
use bson::{Document, RawDocumentBuf, doc};
use fathom_client::{Code, Connection};
use fathom_server::Server;
use fathom_wire::{Codec, Compressor, Header, Message, OpCode, OpMsgWriter, flag};
use proptest::collection::vec;
use proptest::prelude::*;

/// A socket whose waits end only if the server hangs.
fn socket(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// The server's reaction to bytes that no others follow.
#[derive(Debug, PartialEq)]
enum Outcome {
    Closed,
    Answered(Document),
}

fn read_reply(socket: &mut TcpStream) -> Outcome {
    let mut header = [0; Header::BYTES];
    if socket.read_exact(&mut header).is_err() {
        return Outcome::Closed;
    }
    let length = Header::parse(&header).unwrap().length_bytes;
    let mut frame = header.to_vec();
    frame.resize(length, 0);
    socket.read_exact(&mut frame[Header::BYTES..]).unwrap();
    match Message::parse(&frame).unwrap() {
        Message::Msg(message) => Outcome::Answered(Document::try_from(message.body).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn send(server: &Server, bytes: &[u8]) -> Outcome {
    let mut socket = socket(server);
    // A server that closes at once may make this fail, which is also an answer.
    let _ = socket.write_all(bytes);
    read_reply(&mut socket)
}

fn answers(server: &Server) {
    assert_eq!(run(&mut connect(server), "admin", &doc! { "ping": 1 }), doc! { "ok": 1.0 });
}

fn message(command: &Document) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut writer = OpMsgWriter::begin(&mut frame, 1, 0);
    let body = RawDocumentBuf::try_from(command).unwrap();
    writer.raw_body(&body);
    writer.finish().unwrap();
    frame
}

fn frame(op_code: i32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        length_bytes: Header::BYTES + body.len(),
        request_id: 1,
        response_to: 0,
        op_code: OpCode(op_code),
    };
    [&header.to_bytes()[..], body].concat()
}

fn ping() -> Document {
    doc! { "ping": 1, "$db": "admin" }
}

/// Kilobytes of memory, and threads, of this process.
fn usage() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (number("VmRSS:"), number("Threads:"))
}

#[test]
fn frames_that_are_none_close_the_connection() {
    let server = in_memory(|_| {});
    let good = message(&ping());
    let mut checked = good.clone();
    checked[16] = 1;
    checked.extend_from_slice(&[1, 2, 3, 4]);
    checked[0] += 4;
    let mut flagged = good.clone();
    flagged[16] = 1 << 3;
    let body = &good[20..];
    let twice = frame(2013, &[&[0; 4][..], body, body].concat());
    let section = |name: &[u8]| {
        let size = u32::try_from(4 + name.len() + 1 + 5).unwrap();
        [&[1], &size.to_le_bytes()[..], name, &[0, 5, 0, 0, 0, 0]].concat()
    };
    let repeated = frame(2013, &[&[0; 4][..], body, &section(b"a"), &section(b"a")].concat());
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("length 0", vec![0; 16]),
        ("length 15", [&[15, 0, 0, 0][..], &[0; 12]].concat()),
        ("negative length", vec![0xff; 16]),
        ("48 MB and a byte", [&48_000_001_u32.to_le_bytes()[..], &[0; 12]].concat()),
        ("unknown opcode", frame(4711, &[0; 20])),
        ("OP_INSERT", frame(2002, &[0; 20])),
        ("OP_REPLY", frame(1, &[0; 20])),
        ("no sections", frame(2013, &[0; 4])),
        ("unknown section", frame(2013, &[0, 0, 0, 0, 7])),
        ("two bodies", twice),
        ("two sequences of one name", repeated),
        ("unknown required flag", flagged),
        ("wrong checksum", checked),
        ("compressed in compressed", frame(2012, &[0xdc, 7, 0, 0, 4, 0, 0, 0, 0, 1, 2, 3, 4])),
        ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in cases {
        assert_eq!(send(&server, &bytes), Outcome::Closed, "{name}");
    }
    answers(&server);
    server.stop().unwrap();
}

#[test]
fn commands_that_are_none_are_answered() {
    let server = in_memory(|_| {});
    let asked = |command: &Document| match send(&server, &message(command)) {
        Outcome::Answered(reply) => reply.get_i32("code").unwrap(),
        Outcome::Closed => panic!("closed at {command}"),
    };
    assert_eq!(asked(&doc! {}), 59);
    assert_eq!(asked(&doc! { "ping": 1 }), 40571);
    assert_eq!(asked(&doc! { "ping": 1, "$db": "a/b" }), 73);
    assert_eq!(asked(&doc! { "ping": 1, "$db": 5 }), 14);
    assert_eq!(asked(&doc! { "nothing": 1, "$db": "a" }), 59);
    assert_eq!(asked(&doc! { "find": 5, "$db": "a" }), 73);
    assert_eq!(asked(&doc! { "ping": 1, "$db": "a", "maxTimeMS": -1 }), 2);
    server.stop().unwrap();
}

#[test]
fn nesting_ends_at_two_hundred() {
    let server = in_memory(|_| {});
    let nested = |depth: usize| {
        let filter = (0..depth).fold(doc! { "a": 1 }, |inner, _| doc! { "$and": [inner] });
        doc! { "find": "c", "filter": filter, "$db": "a" }
    };
    // BSON nested beyond the maximum is invalid; within it, our own recursion parses it on a small stack.
    assert_eq!(send(&server, &message(&nested(150))), Outcome::Closed);
    let Outcome::Answered(_) = send(&server, &message(&nested(95))) else { panic!("closed") };
    let deep = (0..190).fold(doc! {}, |inner, _| doc! { "a": inner });
    let mut connection = connect(&server);
    run(&mut connection, "a", &doc! { "insert": "c", "documents": [{ "_id": 1, "x": deep.clone() }] });
    let found = run(&mut connection, "a", &doc! { "find": "c", "filter": { "x": deep } });
    assert_eq!(found.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
    answers(&server);
    server.stop().unwrap();
}

#[test]
fn sizes_end_where_hello_says() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    let of = |bytes: usize| doc! { "_id": 1, "x": "y".repeat(bytes - 22) };
    let largest = of(16 << 20);
    assert_eq!(largest.to_vec().unwrap().len(), 16 << 20);
    run(&mut connection, "a", &doc! { "insert": "c", "documents": [largest] });
    let over = doc! { "insert": "c", "documents": [of((16 << 20) + 1)] };
    let reply = run(&mut connection, "a", &over);
    assert!(reply.contains_key("writeErrors"), "{reply}");
    // Beyond the allowance for a command's other fields it is no longer a message.
    let beyond = doc! { "insert": "c", "documents": [of((16 << 20) + (17 << 10))] };
    assert!(connection.run("a", &beyond).is_err());

    let mut connection = connect(&server);
    let few = vec![RawDocumentBuf::new(); 100_001];
    let refused = connection.run_with_sequences("a", &doc! { "insert": "d" }, &[("documents", &few)]);
    assert_eq!(refused.unwrap_err().failure().unwrap().code(), Code::InvalidLength);
    connection.run_with_sequences("a", &doc! { "insert": "d" }, &[("documents", &few[1..])]).unwrap();
    assert_eq!(code(&mut connection, "a", &doc! { "insert": "d", "documents": [] }), Code::InvalidLength);
    answers(&server);
    server.stop().unwrap();
}

#[test]
fn bombs_take_no_memory() {
    let server = in_memory(|_| {});
    let before = usage().0;
    // A claim of 47 MB over a few bytes, by each compressor, from many connections that stay open.
    let mut open = Vec::new();
    for number in 0..4_u8 {
        for _ in 0..20 {
            let claim = 47_000_000_u32.to_le_bytes();
            let body = [&2013_u32.to_le_bytes()[..], &claim, &[number, 1, 2, 3, 4]].concat();
            let mut socket = socket(&server);
            socket.write_all(&frame(2012, &body)).unwrap();
            assert_eq!(read_reply(&mut socket), Outcome::Closed);
            open.push(socket);
        }
    }
    // A valid one: 40 MB of zeros in 1.2 KB. It is decompressed, found not to be a message, and freed.
    let plain = frame(2013, &vec![0; 40_000_000]);
    let mut packed = Vec::new();
    Codec::default().compress(&plain, Compressor::Zstd, &mut packed).unwrap();
    assert!(packed.len() < 10_000);
    drop(plain);
    for _ in 0..10 {
        assert_eq!(send(&server, &packed), Outcome::Closed);
    }
    let grown = usage().0.saturating_sub(before);
    assert!(grown < 200_000, "{grown} KB more than before");
    answers(&server);
    server.stop().unwrap();
}

#[test]
fn slow_clients_cost_little() {
    const SLOW: usize = 2000;
    let server = in_memory(|_| {});
    answers(&server);
    let (before, threads) = usage();
    // Half a header each, then half a message that announces 48 MB: a thread each, and almost no memory.
    let mut open = Vec::new();
    let announced =
        [&48_000_000_u32.to_le_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0], &[0; 4]].concat();
    for place in 0..SLOW {
        let Ok(mut socket) = TcpStream::connect(("127.0.0.1", server.port())) else {
            println!("only {place} connections: this machine has no more sockets for a test");
            break;
        };
        let bytes = if place % 2 == 0 { &announced[..7] } else { &announced[..] };
        socket.write_all(bytes).unwrap();
        open.push(socket);
    }
    let until = Instant::now() + Duration::from_secs(300);
    while usage().1 + 8 < threads + open.len() as u64 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let per_connection = usage().0.saturating_sub(before) / open.len() as u64;
    println!("{} slow clients cost {per_connection} KB each", open.len());
    assert!(per_connection < 64, "{per_connection} KB each");
    answers(&server);
    drop(open);
    let until = Instant::now() + Duration::from_secs(300);
    while usage().1 > threads + 8 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(usage().1 <= threads + 8, "{} threads are left of {threads} before", usage().1);
    answers(&server);
    server.stop().unwrap();
}

#[test]
fn too_many_connections_are_turned_away_and_come_back() {
    let server = in_memory(|config| config.net.max_connections = 3);
    let held: Vec<Connection> = (0..3).map(|_| connect(&server)).collect();
    assert_eq!(send(&server, &message(&ping())), Outcome::Closed);
    drop(held);
    let until = Instant::now() + Duration::from_secs(300);
    while Connection::connect(&crate::served::target(&server)).is_err() {
        assert!(Instant::now() < until, "nobody is let in again");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.stop().unwrap();
}

#[test]
fn who_wants_no_reply_gets_none() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    let quiet = |command: Document, connection: &mut Connection| {
        connection.send_only("a", &command, &[]).unwrap();
    };
    quiet(doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 } }, &mut connection);
    // Failures are not answered either, whether of a write, of a command or of a name.
    quiet(doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 } }, &mut connection);
    quiet(doc! { "insert": "c", "writeConcern": { "w": 0 } }, &mut connection);
    quiet(doc! { "nothing": 1 }, &mut connection);
    let found = run(&mut connection, "a", &doc! { "find": "c" });
    assert_eq!(found.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
    // Without the flag a reply is sent, regardless of the write concern.
    let loud = doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": 0 } };
    run(&mut connection, "a", &loud);
    // Many at once, and the connection still stays in step.
    for _ in 0..500 {
        quiet(doc! { "insert": "d", "documents": [{}], "writeConcern": { "w": 0 } }, &mut connection);
    }
    assert_eq!(flag::MORE_TO_COME, 2);
    run(&mut connection, "a", &doc! { "ping": 1 });
    server.stop().unwrap();
}

#[test]
fn messages_may_come_in_pieces_or_together() {
    let server = in_memory(|_| {});
    let mut socket = socket(&server);
    let one = message(&ping());
    for byte in &one {
        socket.write_all(std::slice::from_ref(byte)).unwrap();
    }
    assert_eq!(read_reply(&mut socket), Outcome::Answered(doc! { "ok": 1.0 }));
    socket.write_all(&one.repeat(50)).unwrap();
    for _ in 0..50 {
        assert_eq!(read_reply(&mut socket), Outcome::Answered(doc! { "ok": 1.0 }));
    }
    // The peer disconnects in the middle of a message.
    socket.write_all(&one[..20]).unwrap();
    drop(socket);
    answers(&server);
    server.stop().unwrap();
}

/// One server for all the random bytes.
fn shared() -> &'static Server {
    static SERVER: std::sync::LazyLock<Server> = std::sync::LazyLock::new(|| in_memory(|_| {}));
    &SERVER
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_an_error_or_an_end(bytes in vec(any::<u8>(), 0..200), whole in any::<bool>()) {
        let bytes = if whole { frame(2013, &bytes) } else { bytes };
        let mut socket = socket(shared());
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        answers(shared());
    }

    #[test]
    fn changed_messages_are_an_error_or_an_end(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = message(&doc! { "find": "c", "filter": { "a": { "$in": [1, 2] } }, "$db": "a" });
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let mut socket = socket(shared());
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        answers(shared());
    }
}
