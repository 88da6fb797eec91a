//! The suite that every engine passes, on RocksDB: as mongo-rocks runs it, with single deletes, and without a journal.

use std::sync::Arc;

use fathom_engine::conformance::Subject;
use fathom_engine_rocks::{Options, RocksEngine};

const CACHE_BYTES: u64 = 32 << 20;

mod defaults {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject {
            open: &|folder| Ok(Arc::new(RocksEngine::open(Options::new(folder, CACHE_BYTES))?)),
            durable: true,
        }
    }
    fathom_engine::conformance_tests!(subject);
    fathom_engine::conformance_crash_tests!(subject);
}

mod single_deletes {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject {
            open: &|folder| {
                let options = Options { single_delete_index: true, ..Options::new(folder, CACHE_BYTES) };
                Ok(Arc::new(RocksEngine::open(options)?))
            },
            durable: true,
        }
    }
    fathom_engine::conformance_tests!(subject);
}

mod without_a_journal {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject {
            open: &|folder| {
                let options =
                    Options { journal: false, counters: false, ..Options::new(folder, CACHE_BYTES) };
                Ok(Arc::new(RocksEngine::open(options)?))
            },
            durable: true,
        }
    }
    fathom_engine::conformance_tests!(subject);
    fathom_engine::conformance_crash_tests!(subject);
}
