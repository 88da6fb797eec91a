//! WiredTiger passes the suite that all engines pass, with and without a journal.

use std::path::Path;
use std::sync::Arc;

use fathom_engine::conformance::Subject;
use fathom_engine::{Engine, Result};
use fathom_engine_wt::{Options, WiredTiger};

fn open(options: Options) -> Result<Arc<dyn Engine>> {
    // Many databases are open at once here: the small cache and few sessions keep them small.
    let options = Options { cache_bytes: 64 << 20, session_max: 1000, ..options };
    Ok(Arc::new(WiredTiger::open(options)?))
}

mod journaled {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject { open: &|folder: &Path| open(Options::new(folder)), durable: true }
    }
    fathom_engine::conformance_tests!(subject);
}

mod without_a_journal {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject { open: &|folder: &Path| open(Options { journal: false, ..Options::new(folder) }), durable: true }
    }
    fathom_engine::conformance_tests!(subject);
}
