//! A load client with minimal cost: requests are written in advance, and only the length and number of replies are checked.
//!
//! The same client drives the lab server and the responder that does no work, so that the ratio of their rates is due
//! to the server. Each client has one connection, one thread and one request at a time, like a driver's thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bson::raw::CString;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_stats::SeededRandom;
use fathom_wire::{Header, OpMsgWriter};

/// The number of connections in the issue.
const CONNECTIONS: u64 = 16;
/// The database and collection.
const DATABASE: &str = "bench";
const COLLECTION: &str = "c";
/// The offset of the message's own number, and of the one it answers.
const REQUEST_ID: usize = 4;
const RESPONSE_TO: usize = 8;

/// The load of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionLoad {
    /// Finds of one document by `_id`, drawn from this many.
    Read { documents: u64 },
    /// Inserts of new documents, with `_id`s from here on.
    Insert { first: u64 },
}

/// The result of all clients together.
#[derive(Clone, Debug)]
pub(super) struct ClientTotals {
    pub(super) operations: u64,
    pub(super) seconds: f64,
    /// Operations in each tenth of a second.
    pub(super) tenths: Vec<u64>,
}

impl ClientTotals {
    pub(super) fn per_s(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The longest time without any operation, in seconds, to a tenth.
    pub(super) fn longest_stall_s(&self) -> f64 {
        let longest = self.tenths.split(|&operations| operations > 0).map(<[u64]>::len).max().unwrap_or(0);
        longest as f64 / 10.0
    }
}

/// A document of 1 KB: an `_id` and ten fields of 91 bytes that do not compress.
pub(super) fn document(number: u64) -> RawDocumentBuf {
    let mut random = SeededRandom::from_seed(number);
    let mut document = rawdoc! { "_id": i64::try_from(number).unwrap_or(i64::MAX) };
    for field in 0..10 {
        let Ok(name) = CString::try_from(format!("f{field}")) else { continue };
        let bytes: Vec<u8> = (0..12).flat_map(|_| random.bits().to_le_bytes()).take(91).collect();
        document.append(name, bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes });
    }
    document
}

/// Drives all connections for a time.
pub(super) fn work(port: u16, work: ConnectionLoad, time: Duration, seed: u64) -> Result<ClientTotals> {
    let stop = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let counts: Vec<AtomicU64> = (0..CONNECTIONS).map(|_| AtomicU64::new(0)).collect();
    let begun = Instant::now();
    let (tenths, results) = thread::scope(|scope| {
        let start = |(place, count)| {
            let random = SeededRandom::from_seed(seed).split(place as u64);
            let (stop, next) = (&stop, &next);
            scope.spawn(move || connection(port, work, random, next, count, stop))
        };
        let threads: Vec<_> = counts.iter().enumerate().map(start).collect();
        let tenths = watch(&counts, begun, time);
        stop.store(true, Ordering::Release);
        let results: Vec<Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a client panicked")))
            .collect();
        (tenths, results)
    });
    let seconds = begun.elapsed().as_secs_f64();
    results.into_iter().collect::<Result<()>>()?;
    let each: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    Ok(ClientTotals { operations: each.iter().sum(), seconds, tenths })
}

/// Records the number of operations in every tenth of a second.
fn watch(counts: &[AtomicU64], begun: Instant, time: Duration) -> Vec<u64> {
    let mut tenths = Vec::new();
    let mut before = 0;
    while begun.elapsed() < time {
        let next = begun + Duration::from_millis(100) * (tenths.len() as u32 + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        tenths.push(now - before);
        before = now;
    }
    tenths
}

fn connection(
    port: u16,
    work: ConnectionLoad,
    mut random: SeededRandom,
    next: &AtomicU64,
    count: &AtomicU64,
    stop: &AtomicBool,
) -> Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).context("cannot connect")?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut template = Template::for_work(work)?;
    let mut answer = vec![0; 64 * 1024];
    let mut number: i32 = 0;
    while !stop.load(Ordering::Relaxed) {
        number = number.wrapping_add(1);
        let id = match work {
            ConnectionLoad::Read { documents } => random.below(documents),
            ConnectionLoad::Insert { first } => first + next.fetch_add(1, Ordering::Relaxed),
        };
        socket.write_all(template.with(number, id)).context("cannot send")?;
        let length = receive(&mut socket, &mut answer)?;
        let body = answer.get(Header::BYTES + 5..length).unwrap_or_default();
        ensure!(
            answer.get(RESPONSE_TO..RESPONSE_TO + 4) == Some(&number.to_le_bytes()[..]),
            "a reply to another request"
        );
        let fine = match work {
            ConnectionLoad::Read { .. } => length > 200,
            ConnectionLoad::Insert { .. } => length < 100,
        };
        if !fine {
            bail!("an operation failed: {:?}", RawDocument::from_bytes(body));
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads one message; returns its length.
fn receive(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    loop {
        let place = buffer.get_mut(filled..).unwrap_or_default();
        match socket.read(place).context("cannot receive")? {
            0 => bail!("the server closed the connection"),
            count => filled += count,
        }
        if let Some(header) = buffer.get(..filled).and_then(|bytes| bytes.first_chunk()) {
            let length =
                Header::parse(header).map_err(|failure| anyhow::anyhow!("{failure:?}"))?.length_bytes;
            if filled >= length {
                return Ok(length);
            }
        }
    }
}

/// A request that differs from operation to operation in two numbers only.
struct Template {
    frame: Vec<u8>,
    id: usize,
}

/// An `_id` that is found again in the bytes of a request.
const MARK: i64 = 0x0123_4567_89ab_cdef;

impl Template {
    fn for_work(work: ConnectionLoad) -> Result<Template> {
        let mut frame = Vec::new();
        let mut message = OpMsgWriter::begin(&mut frame, 0, 0);
        match work {
            ConnectionLoad::Read { .. } => message.raw_body(&rawdoc! {
                "find": COLLECTION, "filter": { "_id": MARK }, "limit": 1, "singleBatch": true, "$db": DATABASE,
            }),
            ConnectionLoad::Insert { .. } => {
                message.raw_body(&rawdoc! { "insert": COLLECTION, "ordered": true, "$db": DATABASE });
                message.sequence("documents").document(&document(MARK.unsigned_abs()));
            }
        }
        message.finish().map_err(|failure| anyhow::anyhow!("{failure:?}"))?;
        let id = frame.windows(8).position(|bytes| bytes == MARK.to_le_bytes()).context("no mark")?;
        Ok(Template { frame, id })
    }

    /// The request with its number and its `_id`.
    fn with(&mut self, number: i32, id: u64) -> &[u8] {
        if let Some(place) = self.frame.get_mut(REQUEST_ID..REQUEST_ID + 4) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        if let Some(place) = self.frame.get_mut(self.id..self.id + 8) {
            place.copy_from_slice(&id.to_le_bytes());
        }
        &self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_one_kilobyte() {
        assert!((1000..1050).contains(&document(7).as_bytes().len()), "{}", document(7).as_bytes().len());
    }

    #[test]
    fn a_template_carries_its_numbers() {
        let mut template = Template::for_work(ConnectionLoad::Insert { first: 0 }).unwrap();
        let frame = template.with(9, 77).to_vec();
        assert_eq!(Header::from_frame(&frame).unwrap().request_id, 9);
        let fathom_wire::Message::Msg(message) = fathom_wire::Message::parse(&frame).unwrap() else {
            panic!()
        };
        let document = message.sequence("documents").unwrap().documents().next().unwrap();
        assert_eq!(document.get_i64("_id").unwrap(), 77);
    }

    #[test]
    fn a_stall_is_the_longest_run_of_empty_tenths() {
        let done = ClientTotals { operations: 6, seconds: 0.7, tenths: vec![1, 0, 2, 0, 0, 3, 0] };
        assert_eq!(done.longest_stall_s(), 0.2);
    }
}
