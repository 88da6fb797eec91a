//! The engine in memory passes the suite that all engines pass.

use fathom_engine::conformance::Subject;
use fathom_engine::memory;

fn subject() -> Subject<'static> {
    Subject { open: &|_folder| Ok(memory::open()), durable: false }
}

fathom_engine::conformance_tests!(subject);
