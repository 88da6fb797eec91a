//! `cargo xtask TASK`: a task is one row of [`TASKS`].

use std::process::ExitCode;

use xtask::tasks::{self, Task};
use xtask::{proof, quarantine, quick, tidy};

static TASKS: &[Task] = &[
    Task {
        name: "proof",
        about: "the tests that are slow by nature, as one table (make proof)",
        run: proof::run,
    },
    Task {
        name: "quarantine",
        about: "the configuration of cargo-nextest that repeats the tests in quarantine",
        run: quarantine::run,
    },
    Task {
        name: "refresh",
        about: "lower the limits of the tree that improved, and order the changelog (make refresh)",
        run: tidy::refresh,
    },
    Task {
        name: "quick",
        about: "tidy, and the tests of what changed since a revision (make quick)",
        run: quick::run,
    },
    Task { name: "tidy", about: "check the rules of the tree (CONTRIBUTING.md)", run: tidy::run },
];

fn main() -> ExitCode {
    tasks::run_named("xtask", TASKS)
}
