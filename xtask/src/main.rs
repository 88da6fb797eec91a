//! `cargo xtask TASK`: a task is one row of [`TASKS`].

use std::process::ExitCode;

use xtask::tasks::{self, Task};
use xtask::{proof, tidy};

static TASKS: &[Task] = &[
    Task {
        name: "proof",
        about: "the tests that are slow by nature, as one table (make proof)",
        run: proof::run,
    },
    Task { name: "tidy", about: "check the rules of the tree (CONTRIBUTING.md)", run: tidy::run },
];

fn main() -> ExitCode {
    tasks::run_named("xtask", TASKS)
}
