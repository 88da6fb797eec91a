//! `cargo measure TASK`: measures speed and memory against other tools, and makes recordings that need an idle machine.
//!
//! A task is one row of [`TASKS`]. Nothing in the product may import this package.

mod builds;
mod disk;
mod io_fidelity;
mod lab;
mod load;
mod record_demo;
mod recordings;
mod router;
mod server;
mod watch;

use std::process::ExitCode;

// A static program finds the source of random numbers by linking it.
use fathom_random_sys as _;

use xtask::tasks::{self, Task};

static TASKS: &[Task] = &[
    Task { name: "disk", about: "fathom disk beside fio, as ratios (make bench)", run: disk::run },
    Task { name: "server", about: "the lab server's speed as ratios (make bench)", run: server::run },
    Task { name: "load", about: "the load generator's cost as ratios (make bench)", run: load::run },
    Task {
        name: "router",
        about: "what a read costs through the router, as a ratio (make bench)",
        run: router::run,
    },
    Task {
        name: "builds",
        about: "make build's program beside the packaged one (make bench)",
        run: builds::run,
    },
    Task {
        name: "recordings",
        about: "reading recordings and logs beside another reader (make bench)",
        run: recordings::run,
    },
    Task { name: "watch", about: "what watching and judging cost (make bench)", run: watch::run },
    Task {
        name: "io-fidelity",
        about: "the lab server's I/O beside a real mongod's, as ratios",
        run: io_fidelity::run,
    },
    Task { name: "record-demo", about: "record the runs that 'fathom demo' shows", run: record_demo::run },
];

fn main() -> ExitCode {
    tasks::run_named("measure", TASKS)
}
