//! Clients that work next to a watched load: scans, bulk writes, reads past the cache, and builds of indexes.
//!
//! They have an application's name of their own, as the clients of a real server have, and collections of their own, so that the server counts them
//! apart from the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_stats::SeededRandom;
use fathom_testkit::LabServer;

/// The collections that other clients use, and the number of documents in one insert.
pub(crate) const ORDERS: (&str, &str) = ("shop", "orders");
const EVENTS: (&str, &str) = ("imports", "events");
const BATCH: u32 = 1000;
/// Bytes of an imported document, and of one that is read past the cache.
const EVENT_BYTES: usize = 500;
const ORDER_BYTES: usize = 900;

/// The work of one of the clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ClientWork {
    /// Queries of [`ORDERS`] whose filter no index serves and no document meets.
    Scan,
    /// Queries of [`ORDERS`] that are sorted by a field without an index.
    Sort,
    /// Inserts of a thousand documents each.
    BulkInsert,
    /// Reads of single documents of [`ORDERS`] by their keys, of which there are so many.
    PointRead(u32),
}

/// Clients at work until they are ended.
pub(crate) struct OtherClients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl OtherClients {
    /// Starts so many clients of one application, each of which waits for `pause` after an operation.
    pub(crate) fn start(
        server: &LabServer,
        application: &str,
        clients: u32,
        work: ClientWork,
        pause: Duration,
    ) -> OtherClients {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |number: u32| {
            let mut connection = connect(server, application);
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut random = SeededRandom::from_seed(u64::from(number));
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    operate(&mut connection, work, &mut random);
                    count += 1;
                    wait(pause, &stop);
                }
                count
            })
        };
        let threads = (0..clients).map(start).collect();
        OtherClients { stop, threads }
    }

    /// Ends them, and returns how many operations they had done.
    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

/// Waits in steps, so that the end of a pause is not waited for.
fn wait(pause: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < pause && !stop.load(Ordering::Relaxed) {
        thread::sleep((pause - begun.elapsed().min(pause)).min(Duration::from_millis(50)));
    }
}

/// A connection of an application.
pub(crate) fn connect(server: &LabServer, application: &str) -> Connection {
    let target = Target {
        app_name: Some(application.to_owned()),
        ..Target::at(Address::new("127.0.0.1", server.port()))
    };
    Connection::connect(&target).unwrap()
}

/// Puts so many documents into [`ORDERS`], with keys from 0 on.
pub(crate) fn fill_orders(server: &LabServer, documents: u32) {
    let mut connection = connect(server, "filling");
    let padding = "x".repeat(ORDER_BYTES);
    for first in (0..documents).step_by(BATCH as usize) {
        let batch: Vec<Document> = (first..documents.min(first + BATCH))
            .map(|key| doc! { "_id": i64::from(key), "rank": i64::from(key.wrapping_mul(2_654_435_761)), "padding": &padding })
            .collect();
        connection.run(ORDERS.0, &doc! { "insert": ORDERS.1, "documents": batch }).unwrap();
    }
}

/// Drops what was imported. It is not an error if nothing was.
pub(crate) fn drop_imports(server: &LabServer) {
    let _ = connect(server, "administration").run(EVENTS.0, &doc! { "drop": EVENTS.1 });
}

/// Builds an index on a collection and drops it again: each holds the collection for itself.
pub(crate) fn build_index(connection: &mut Connection, (database, collection): (&str, &str), field: &str) {
    let index = doc! { "key": { field: 1 }, "name": field };
    connection.run(database, &doc! { "createIndexes": collection, "indexes": [index] }).unwrap();
    connection.run(database, &doc! { "dropIndexes": collection, "index": field }).unwrap();
}

fn operate(connection: &mut Connection, work: ClientWork, random: &mut SeededRandom) {
    let (database, orders) = ORDERS;
    let query = match work {
        ClientWork::Scan => doc! { "find": orders, "filter": { "status": "returned" }, "singleBatch": true },
        ClientWork::Sort => {
            doc! { "find": orders, "sort": { "rank": 1 }, "limit": 10, "projection": { "rank": 1 }, "singleBatch": true }
        }
        ClientWork::PointRead(documents) => {
            let key = i64::try_from(random.below(u64::from(documents))).unwrap();
            doc! { "find": orders, "filter": { "_id": key }, "limit": 1, "singleBatch": true }
        }
        ClientWork::BulkInsert => {
            let padding = "x".repeat(EVENT_BYTES);
            let batch: Vec<Document> = (0..BATCH).map(|_| doc! { "padding": &padding }).collect();
            connection
                .run(EVENTS.0, &doc! { "insert": EVENTS.1, "documents": batch, "ordered": false })
                .unwrap();
            return;
        }
    };
    connection.run(database, &query).unwrap();
}
