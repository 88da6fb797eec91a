//! A connection taken apart: the bytes that an event loop sends and receives itself, in plain text and with TLS.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bson::doc;
use fathom_client::tls::{ServerTls, server_config};
use fathom_client::{Connection, ConnectionParts, Transport};
use fathom_wire::{Compressor, Header, Message, OpMsgWriter};

use crate::responder::{Request, Responder, SurveyAnswer, hello};
use crate::tls::{pem, trusting};

/// Larger than the buffers of the kernel and TLS for a socket, so that one write does not accept all of it.
const LARGE_BYTES: usize = 8 << 20;

/// Writes and reads without ever blocking in a call, as an event loop does.
fn exchange(parts: &mut ConnectionParts, request: &[u8]) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(300);
    let (mut sent, mut reply, mut buffer) = (0, Vec::new(), vec![0; 64 << 10]);
    loop {
        assert!(Instant::now() < deadline, "{sent} bytes sent, {} received", reply.len());
        let wrote = if sent < request.len() {
            parts.transport.write(&request[sent..])
        } else {
            parts.transport.flush().map(|()| 0)
        };
        match wrote {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        match parts.transport.read(&mut buffer) {
            Ok(0) => panic!("closed"),
            Ok(count) => reply.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(error) => panic!("{error}"),
        }
        let header = reply.first_chunk().map(|bytes| Header::parse(bytes).unwrap());
        if header.is_some_and(|header| reply.len() == header.length_bytes) {
            assert!(sent == request.len() && !parts.transport.wants_write());
            return reply;
        }
    }
}

fn echo(parts: &mut ConnectionParts, length: usize) {
    let mut request = Vec::new();
    parts.request_id += 1;
    let mut message = OpMsgWriter::begin(&mut request, parts.request_id, 0);
    let mut body = message.body();
    body.string("echo", &"x".repeat(length));
    body.string("$db", "db");
    body.end();
    message.finish().unwrap();
    let reply = exchange(parts, &request);
    assert_eq!(Header::from_frame(&reply).unwrap().response_to, parts.request_id);
    let Message::Msg(message) = Message::parse(&reply).unwrap() else { panic!("not OP_MSG") };
    assert_eq!(message.body.get_str("echo").unwrap().len(), length);
}

fn echoing(request: &Request) -> SurveyAnswer {
    match request.name() {
        "hello" => hello().into(),
        _ => doc! { "echo": request.command.get_str("echo").unwrap_or_default(), "ok": 1 }.into(),
    }
}

fn drive(connection: Connection) {
    let mut parts = connection.into_parts().unwrap();
    assert_eq!(parts.hello.get_i32("maxWireVersion").unwrap(), 9);
    assert_eq!(parts.request_id, 2);
    parts.transport.set_nonblocking(true).unwrap();
    let nothing = parts.transport.read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    for length in [1, 100_000, LARGE_BYTES, 10] {
        echo(&mut parts, length);
    }
}

#[test]
fn in_the_clear() {
    let responder = Responder::play(1, None, echoing);
    let mut connection = Connection::connect(&responder.target()).unwrap();
    connection.run("admin", &doc! { "ping": 1 }).unwrap();
    drive(connection);
    assert_eq!(responder.seen().len(), 6);
}

#[test]
fn through_tls() {
    let server = ServerTls {
        certificate_key_file: pem("server.pem"),
        ca_file: None,
        allow_connections_without_certificates: false,
    };
    let responder = Responder::play(1, Some(server_config(&server).unwrap()), echoing);
    let mut target = responder.target();
    target.tls = Some(trusting("ca.pem"));
    let mut connection = Connection::connect(&target).unwrap();
    connection.run("admin", &doc! { "ping": 1 }).unwrap();
    drive(connection);
    assert_eq!(responder.seen().len(), 6);
}

#[test]
fn what_was_agreed_goes_along() {
    let responder = Responder::play(1, None, |_| {
        let mut reply = hello();
        reply.insert("compression", ["zstd"].as_slice());
        reply.into()
    });
    let mut target = responder.target();
    target.compressors = vec![Compressor::Snappy, Compressor::Zstd];
    let parts = Connection::connect(&target).unwrap().into_parts().unwrap();
    assert_eq!(parts.compressor, Some(Compressor::Zstd));
    assert_eq!(parts.address, target.addresses[0]);
    assert!(matches!(parts.transport, Transport::Plain(_)));
}

#[test]
fn bytes_that_nobody_asked_for_are_an_error() {
    let responder = Responder::play(1, None, |request| {
        let mut frames = Vec::new();
        let mut reply = OpMsgWriter::begin(&mut frames, 1, 1);
        reply.body().extend(&hello());
        reply.finish().unwrap();
        frames.extend_from_slice(b"more");
        if request.name() == "hello" { SurveyAnswer::Bytes(frames) } else { SurveyAnswer::Close }
    });
    let connection = Connection::connect(&responder.target()).unwrap();
    // They were sent together with the reply's second half, and read together with it.
    let error = connection.into_parts().unwrap_err().to_string();
    assert!(error.contains("4 bytes without a request"), "{error}");
}
