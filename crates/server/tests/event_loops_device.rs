//! Event loops and a device: while data is read from it, every connection has its own thread.
//!
//! In a program of its own, because the process's reads decide.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::served::executor::{brought, figure, figures, read};
use crate::served::{connect, insert, run};
use bson::spec::BinarySubtype;
use bson::{Binary, doc};
use fathom_client::Connection;
use fathom_server::Server;
use fathom_server::config::EngineName;
use fathom_service::random;
use fathom_testkit::{Need, skip};
use rustix::fs::OFlags;

mod timed {
    use fathom_testkit::{assert_eq, test};

    use super::*;

    /// A third more documents than fit into the cache.
    const DOCUMENTS: u64 = 22_000;
    const BYTES: usize = 16 << 10;

    fn fill(connection: &mut Connection) {
        for first in (0..DOCUMENTS).step_by(100) {
            let document = |id: u64| {
                let mut bytes = vec![0; BYTES];
                random::fill(&mut bytes);
                doc! { "_id": i64::try_from(id).unwrap(), "x": Binary { subtype: BinarySubtype::Generic, bytes } }
            };
            insert(connection, "large", (first..first + 100).map(document).collect());
        }
    }

    fn read_at_random(server: &Server, time: Duration) -> u64 {
        let mut connection = connect(server);
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let id = i64::try_from(random::number() % DOCUMENTS).unwrap();
            run(&mut connection, "test", &doc! { "find": "large", "filter": { "_id": id }, "limit": 1 });
            count += 1;
        }
        count
    }

    fn has_direct_io(folder: &Path) -> bool {
        let direct = OFlags::DIRECT.bits().cast_signed();
        OpenOptions::new().write(true).create(true).custom_flags(direct).open(folder.join("direct")).is_ok()
    }

    #[test]
    fn connections_have_threads_while_data_come_from_the_device() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = crate::served::config(directory.path(), EngineName::WiredTiger);
        // Bypasses the kernel's cache, which is not a device.
        config.storage.wired_tiger.engine_config = "direct_io=(data)".to_owned();
        if !has_direct_io(directory.path()) {
            skip!(Need::Kernel, "the file system of the temporary directory has no direct I/O");
        }
        let server = Server::start_quiet(config).unwrap();
        fill(&mut connect(&server));
        run(&mut connect(&server), "admin", &doc! { "fsync": 1 });
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..8)
                .map(|_| {
                    let server = &server;
                    scope.spawn(move || read_at_random(server, Duration::from_secs(3)))
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        println!("{counts:?} reads, {:?}", figures(&server));
        assert_eq!(figure(&server, "operationsInEventLoops"), 0, "{:?}", figures(&server));

        // The same server with data in memory.
        insert(&mut connect(&server), "c", (0..8).map(|id| doc! { "_id": id, "square": id * id }).collect());
        let mut crowd: Vec<Connection> = (0..6).map(|_| connect(&server)).collect();
        brought(&server, &mut crowd);
        crowd.iter_mut().for_each(|connection| read(connection, 4));
        server.stop().unwrap();
    }
}
