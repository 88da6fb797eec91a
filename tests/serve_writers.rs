//! Clients that write to the lab server until it dies and record the acknowledged writes, for the tests of its
//! durability.
//!
//! Each writer has its own documents and waits for each answer, so it knows for each document the acknowledged version, its
//! durability and its time. A document's bytes follow from its writer, number and version, and carry a checksum: a mixture
//! of two versions, or of two documents, cannot pass.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_stats::SeededRandom;
use fathom_testkit::LabServer;

pub(crate) const DATABASE: &str = "test";
pub(crate) const COLLECTION: &str = "durable";
const MAX_BYTES: u64 = 3000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) writers: i64,
    pub(crate) wish: Wish,
    /// Documents of a writer; once it has them all, it only updates.
    pub(crate) documents: i64,
    pub(crate) seed: u64,
}

/// The write concern of the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Half of the writers require a synced journal before each answer, the others do not.
    Mixed,
    /// No writer waits for the journal.
    Unsynced,
}

/// An answer that acknowledged a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) key: (i64, i64),
    pub(crate) version: i64,
    /// True if it was asked to be in the journal.
    pub(crate) durable: bool,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// The acknowledged writes of one writer.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) promises: Vec<Promise>,
    /// The latest version of each document that was sent, answered or not.
    pub(crate) sent: HashMap<(i64, i64), i64>,
    /// The reason for its end, in the server's words.
    pub(crate) ended: String,
}

#[derive(Debug)]
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    /// The acknowledged writes of all writers.
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Memory>>,
}

impl Writers {
    /// Starts the writers on the existing documents.
    pub(crate) fn start(server: &LabServer, load: Load, there: &HashMap<(i64, i64), i64>) -> Writers {
        let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = |writer: i64| {
            let mut connection = server.connect().unwrap();
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let mine = there.iter().filter(|(key, _)| key.0 == writer).map(|(&key, &v)| (key, v)).collect();
            thread::spawn(move || write(&mut connection, writer, load, mine, (&stop, &acknowledged)))
        };
        Writers { threads: (0..load.writers).map(start).collect(), stop, acknowledged }
    }

    /// Waits until this many writes were acknowledged, or a writer has ended.
    pub(crate) fn wait_for(&self, writes: u64) {
        while self.acknowledged.load(Ordering::Relaxed) < writes
            && !self.threads.iter().any(JoinHandle::is_finished)
        {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until all have stopped, asking them to if the server still lives.
    pub(crate) fn finish(self) -> Vec<Memory> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// One writer, until the server has ended or the test stops it.
fn write(
    connection: &mut Connection,
    writer: i64,
    load: Load,
    mut versions: HashMap<(i64, i64), i64>,
    (stop, acknowledged): (&AtomicBool, &AtomicU64),
) -> Memory {
    let mut memory = Memory::default();
    let mut random = SeededRandom::from_seed(load.seed).split(writer.unsigned_abs());
    let durable = load.wish == Wish::Mixed && writer % 2 == 0;
    while !stop.load(Ordering::Acquire) {
        let next = versions.len() as i64;
        let insert = next < load.documents && random.below(3) > 0 || next == 0;
        let number = if insert { next } else { random.below(next.unsigned_abs()).cast_signed() };
        let key = (writer, number);
        let version = versions.get(&key).map_or(0, |version| version + 1);
        let command = command(key, version, durable, insert, &mut random);
        let asked = Instant::now();
        memory.sent.insert(key, version);
        match connection.run(DATABASE, &command) {
            // A server whose storage failed reports it in an answer that is ok: not written, or written but not synced.
            Ok(reply)
                if ["writeErrors", "writeConcernError"]
                    .iter()
                    .any(|name| reply.get(name).unwrap().is_some()) =>
            {
                memory.ended = format!("{reply:?}");
                return memory;
            }
            Ok(reply) => {
                assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply:?}");
                versions.insert(key, version);
                memory.promises.push(Promise { key, version, durable, asked, answered: Instant::now() });
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                memory.ended = error.to_string();
                return memory;
            }
        }
    }
    memory
}

fn command(
    key: (i64, i64),
    version: i64,
    durable: bool,
    insert: bool,
    random: &mut SeededRandom,
) -> Document {
    let whole = document(key, version);
    let mut command = if insert {
        doc! { "insert": COLLECTION, "documents": [whole] }
    } else {
        // As a replacement, or field by field.
        let change = if random.below(2) == 0 {
            whole
        } else {
            doc! { "$set": whole.into_iter().skip(1).collect::<Document>() }
        };
        doc! { "update": COLLECTION, "updates": [{ "q": { "_id": id(key) }, "u": change }] }
    };
    command.insert("writeConcern", doc! { "w": 1, "j": durable });
    command
}

fn id(key: (i64, i64)) -> String {
    format!("{}-{}", key.0, key.1)
}

/// The document of a key in a version.
fn document(key: (i64, i64), version: i64) -> Document {
    let bytes = content(key, version);
    let sum = i64::from(crc32c::crc32c(&bytes));
    let data = Binary { subtype: BinarySubtype::Generic, bytes };
    doc! { "_id": id(key), "writer": key.0, "number": key.1, "v": version, "sum": sum, "data": data }
}

/// Bytes that no other key or version has, and that do not compress.
fn content(key: (i64, i64), version: i64) -> Vec<u8> {
    let seed = key.0.unsigned_abs() << 48 | key.1.unsigned_abs() << 24 | version.unsigned_abs();
    let mut random = SeededRandom::from_seed(seed);
    let length = 40 + random.below(MAX_BYTES) as usize;
    (0..length.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(length).collect()
}

/// Reads all documents and checks every byte of each; returns their versions.
pub(crate) fn read_back(connection: &mut Connection) -> HashMap<(i64, i64), i64> {
    let find = doc! { "find": COLLECTION, "batchSize": 1000 };
    let mut there = HashMap::new();
    for found in connection.cursor(DATABASE, &find).unwrap() {
        let found: RawDocumentBuf = found.unwrap();
        let number = |name: &str| found.get_i64(name).unwrap_or_else(|e| panic!("{name}: {e}: {found:?}"));
        let (key, version) = ((number("writer"), number("number")), number("v"));
        let wanted = RawDocumentBuf::try_from(&document(key, version)).unwrap();
        assert!(same_fields(&found, &wanted), "torn: {key:?} version {version}: {found:?}");
        assert!(there.insert(key, version).is_none(), "{key:?} is there twice");
    }
    there
}

/// Returns whether two documents have the same fields, in any order: `$set` keeps the order that was there.
fn same_fields(one: &RawDocument, other: &RawDocument) -> bool {
    let fields = |document: &RawDocument| {
        let mut fields: Vec<_> = document
            .iter()
            .map(|field| {
                field.map(|(name, value)| (name.to_string(), bson::Bson::try_from(value).unwrap())).unwrap()
            })
            .collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    };
    fields(one) == fields(other)
}

/// The number of lost documents that were acknowledged without the journal, and the age of the oldest at `death`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Loss {
    pub(crate) promises: usize,
    /// Of those, with the journal.
    pub(crate) durable: usize,
    pub(crate) lost: usize,
    pub(crate) oldest: Duration,
}

/// Compares the existing documents with the acknowledged writes. All writes answered before `horizon` must exist, and
/// all journaled writes. So must all writes answered before a journaled write was sent, since the journal is one
/// sequence.
#[track_caller]
pub(crate) fn check(
    there: &HashMap<(i64, i64), i64>,
    memories: &[Memory],
    horizon: Option<Instant>,
    death: Instant,
) -> Loss {
    let promises = || memories.iter().flat_map(|memory| &memory.promises);
    let synced = promises().filter(|promise| promise.durable).map(|promise| promise.asked).max();
    let horizon = horizon.max(synced);
    let mut loss = Loss { promises: promises().count(), ..Loss::default() };
    for promise in promises() {
        loss.durable += usize::from(promise.durable);
        let kept = there.get(&promise.key).is_some_and(|version| *version >= promise.version);
        let firm = promise.durable || horizon.is_some_and(|horizon| promise.answered < horizon);
        let before = death.saturating_duration_since(promise.answered);
        let after = promise.answered.saturating_duration_since(death);
        let found = there.get(&promise.key);
        assert!(
            kept || !firm,
            "lost: {promise:?}, answered {before:?} before the end, {after:?} after; there is {found:?}"
        );
        if !kept {
            loss.lost += 1;
            loss.oldest = loss.oldest.max(death.saturating_duration_since(promise.answered));
        }
    }
    let sent = memories.iter().flat_map(|memory| &memory.sent);
    for (key, version) in sent {
        let found = there.get(key).copied().unwrap_or(-1);
        assert!(found <= *version, "{key:?} is there in version {found}, and {version} was the last sent");
    }
    loss
}
