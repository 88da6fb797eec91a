//! A server that does no work: it answers every message with the same reply, except `hello`, so that drivers and load
//! generators accept it as a server.
//!
//! It shows the best that a server with these message sizes could reach on this machine: the sockets, the scheduler and the
//! client cost the same, without any work in between. It has one thread per connection, like the lab server and mongod.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bson::{RawDocument, rawdoc};
use fathom_wire::{Header, OpMsgWriter};

/// The behaviour of a responder on messages other than `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers every request at once.
    Prompt,
    /// Answers at once except during a part of each period, like a server that stalls for a checkpoint: requests in that
    /// part are answered at its end, on all connections. The part is in the middle of the period, so that a run of whole
    /// periods contains each part whole, however late after the responder it begins.
    Stalls {
        /// The period, from the start of the responder on.
        period: Duration,
        /// The part in its middle.
        pause: Duration,
    },
    /// Never answers a request.
    Silent,
    /// Each reply of this many is cut in half, and the connection closed.
    Cuts(u64),
    /// One reply in this many is replaced by invalid bytes.
    Rubbish(u64),
    /// Every reply whose number is a multiple of this answers a request that was never sent.
    WrongRequest(u64),
}

/// A responder that runs until its process ends.
#[derive(Debug)]
pub struct NullResponder {
    port: u16,
}

impl NullResponder {
    /// Answers on any free port of the loopback with what a `find` of one document replies: `document` in its first batch.
    pub fn start(document: &RawDocument) -> io::Result<NullResponder> {
        NullResponder::with_manner(document, Manner::Prompt)
    }

    /// The same, with a given manner.
    pub fn with_manner(document: &RawDocument, manner: Manner) -> io::Result<NullResponder> {
        let began = Instant::now();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let reply = reply_with(document);
        thread::Builder::new().name("responder".to_owned()).spawn(move || {
            for socket in listener.incoming().flatten() {
                let reply = reply.clone();
                // A client that disconnects ends only its thread.
                thread::spawn(move || drop(answer(socket, reply, manner, began)));
            }
        })?;
        Ok(NullResponder { port })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The reply to a `find` that returned one document, as the lab server words it.
fn reply_with(document: &RawDocument) -> Vec<u8> {
    let cursor = rawdoc! { "firstBatch": [document.to_owned()], "id": 0_i64, "ns": "bench.c" };
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
    message.raw_body(&rawdoc! { "cursor": cursor, "ok": 1.0 });
    // A document that BSON's own limit allows is far from the limit of a message.
    let _ = message.finish();
    frame
}

/// Returns whether a message is a `hello`: the name follows the header, the flags, the kind of section, the body's length and the type
/// of its first field.
fn is_hello(frame: &[u8]) -> bool {
    frame.get(26..).is_some_and(|name| name.starts_with(b"hello\0"))
}

/// The reply to a `hello`, as of a standalone server.
fn hello(number: &[u8; 4]) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, i32::from_le_bytes(*number));
    message.raw_body(&rawdoc! {
        "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 9, "maxBsonObjectSize": 16 << 20,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "ok": 1.0,
    });
    let _ = message.finish();
    frame
}

/// Reads messages to their end and answers each.
fn answer(mut socket: TcpStream, mut reply: Vec<u8>, manner: Manner, began: Instant) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut answered = 0;
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    loop {
        while let Some(frame) = whole_frame(buffer.get(..filled).unwrap_or_default())? {
            // The reply: the request's number is its `responseTo`.
            let number =
                buffer.get(4..8).and_then(|number| number.first_chunk::<4>()).copied().unwrap_or_default();
            if let Some(place) = reply.get_mut(8..12) {
                place.copy_from_slice(&number);
            }
            let greeted = is_hello(buffer.get(..frame).unwrap_or_default());
            buffer.copy_within(frame..filled, 0);
            filled -= frame;
            if greeted {
                socket.write_all(&hello(&number))?;
            } else {
                answered += 1;
                respond(&mut socket, &mut reply, manner, (answered, began))?;
            }
        }
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
        match socket.read(buffer.get_mut(filled..).unwrap_or_default())? {
            0 => return Ok(()),
            count => filled += count,
        }
    }
}

/// Answers a request, the `number`th of its connection, with the reply that contains its number.
fn respond(
    socket: &mut TcpStream,
    reply: &mut [u8],
    manner: Manner,
    (number, began): (u64, Instant),
) -> io::Result<()> {
    let now = |every: u64| number % every.max(1) == 0;
    match manner {
        Manner::Stalls { period, pause } => {
            let place_ns = began.elapsed().as_nanos() % period.as_nanos().max(1);
            let begin_ns = period.saturating_sub(pause).as_nanos() / 2;
            let end_ns = begin_ns + pause.as_nanos();
            if (begin_ns..end_ns).contains(&place_ns) {
                thread::sleep(Duration::from_nanos(u64::try_from(end_ns - place_ns).unwrap_or(0)));
            }
        }
        Manner::Silent => return Ok(()),
        Manner::Cuts(every) if now(every) => {
            let (half, _) = reply.split_at(reply.len() / 2);
            socket.write_all(half)?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Manner::Rubbish(every) if now(every) => return socket.write_all(&[0xAA; 64]),
        Manner::WrongRequest(every) if now(every) => {
            if let Some(place) = reply.get_mut(8..12) {
                place.copy_from_slice(&i32::MAX.to_le_bytes());
            }
        }
        Manner::Prompt | Manner::Cuts(_) | Manner::Rubbish(_) | Manner::WrongRequest(_) => {}
    }
    socket.write_all(reply)
}

/// The length of the first message, if it is complete.
fn whole_frame(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(header) = bytes.first_chunk::<{ Header::BYTES }>() else { return Ok(None) };
    let header =
        Header::parse(header).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
    Ok((bytes.len() >= header.length_bytes).then_some(header.length_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_gets_the_same_reply() {
        let responder = NullResponder::start(&rawdoc! { "_id": 1, "v": "x" }).unwrap();
        let mut socket = TcpStream::connect(("127.0.0.1", responder.port())).unwrap();
        let mut requests = Vec::new();
        for number in [7, 8] {
            let mut message = OpMsgWriter::begin(&mut requests, number, 0);
            message.raw_body(&rawdoc! { "ping": 1, "$db": "admin" });
            message.finish().unwrap();
        }
        // Two messages in one packet, and one cut in the middle.
        let cut = requests.len() - 9;
        socket.write_all(&requests[..cut]).unwrap();
        socket.write_all(&requests[cut..]).unwrap();
        for number in [7, 8] {
            let mut header = [0; Header::BYTES];
            socket.read_exact(&mut header).unwrap();
            let header = Header::parse(&header).unwrap();
            assert_eq!(header.response_to, number);
            let mut body = vec![0; header.length_bytes - Header::BYTES];
            socket.read_exact(&mut body).unwrap();
            let body = RawDocument::from_bytes(&body[5..]).unwrap();
            assert_eq!(body.get_f64("ok").unwrap(), 1.0);
        }
    }
}
