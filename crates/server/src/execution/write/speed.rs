//! Measures the processor time of writes, from the parsed message to the reply, without a network. Run it with `cargo
//! test --release -p fathom-server --lib speed -- --ignored --nocapture`.

use std::sync::Arc;

use bson::{Document, doc};

use crate::client::Client;
use crate::config::{Config, EngineName};
use crate::dispatch::RequestContext;
use crate::instance::Instance;
use crate::log::Log;
use fathom_service::RequestMessage;
use fathom_wire::{Message, OpMsgWriter};

/// The number of existing documents, and of measured operations.
const DOCUMENTS: i32 = 20_000;

fn frame(command: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = OpMsgWriter::begin(&mut bytes, 1, 0);
    writer.raw_body(&crate::parse::raw_of(command).unwrap());
    writer.finish().unwrap();
    bytes
}

/// Processor time of this thread, in nanoseconds.
fn cpu_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// A document of 1 KB, like those of YCSB.
fn document(id: i32) -> Document {
    let mut document = doc! { "_id": format!("user{id:012}") };
    for field in 0..10 {
        document.insert(format!("field{field}"), "x".repeat(100));
    }
    document
}

fn measure(place: &RequestContext<'_>, name: &str, commands: &[Vec<u8>]) {
    let mut out = Vec::new();
    let mut conversation = None;
    let begun = cpu_ns();
    for bytes in commands {
        out.clear();
        let Message::Msg(message) = Message::parse(bytes).unwrap() else { panic!() };
        crate::dispatch::run(place, &RequestMessage::Message(&message), &mut conversation, &mut out);
    }
    let each = (cpu_ns() - begun) / i128::try_from(commands.len()).unwrap();
    let reply = Document::from_reader(out.as_slice()).unwrap();
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    println!("{name:<28}{each:>8} ns  {reply}");
}

#[test]
#[ignore = "it measures"]
fn writes_and_reads_of_documents_of_1_kb() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral] {
        println!("{engine:?}");
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.storage.engine = engine;
        config.storage.db_path = directory.path().to_owned();
        config.storage.wired_tiger.cache_size_gb = Some(0.5);
        config.storage.rocksdb.cache_size_gb = Some(0.5);
        let log = Arc::new(Log::quiet(&config.log_options()));
        let engine = crate::engines::open(&config.storage, &log).unwrap();
        let (instance, _) = Instance::new(config, engine, None, log, crate::commands::registry()).unwrap();
        let session = instance.engine.session().unwrap();
        let client = Client::internal();
        let place =
            RequestContext { instance: &instance, session: &*session, client: &client, in_loop: false };
        let each = |make: &dyn Fn(i32) -> Document| -> Vec<Vec<u8>> {
            (0..DOCUMENTS).map(|n| frame(&make(n))).collect()
        };
        let key = |n: i32| format!("user{:012}", (i64::from(n) * 7919) % i64::from(DOCUMENTS));
        let insert = |n| doc! { "insert": "c", "documents": [document(n)], "ordered": true, "$db": "test" };
        let set = |n: i32, value: String| {
            doc! { "update": "c", "updates": [
            { "q": { "_id": key(n) }, "u": { "$set": { "field3": value } } } ], "ordered": true, "$db": "test" }
        };
        measure(&place, "insert", &each(&insert));
        measure(
            &place,
            "find by _id",
            &each(
                &|n| doc! { "find": "c", "filter": { "_id": key(n) }, "limit": 1, "singleBatch": true, "$db": "test" },
            ),
        );
        measure(&place, "$set of 100 bytes, same size", &each(&|n| set(n, "y".repeat(100))));
        measure(&place, "$set of 100 bytes, again", &each(&|n| set(n, "z".repeat(100))));
        measure(
            &place,
            "$set of another size",
            &each(&|n| set(n, "z".repeat(50 + usize::try_from(n % 100).unwrap()))),
        );
        measure(
            &place,
            "delete by _id",
            &each(
                &|n| doc! { "delete": "c", "deletes": [{ "q": { "_id": key(n) }, "limit": 1 }], "$db": "test" },
            ),
        );
    }
}
