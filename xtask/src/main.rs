//! The house's own program: `cargo xtask TASK`, for work on the tree itself that no user of Fathom needs.
//!
//! A task is one row of [`TASKS`]. Nothing in the product may import this package.

mod bench;
mod bench_load;
mod bench_router;
mod bench_server;
mod bench_watch;
mod io_fidelity;
mod lab;
mod proof;
mod record_demo;
mod tidy;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

struct Task {
    name: &'static str,
    about: &'static str,
    /// Gets the root of the tree and the arguments after the task's name; `false` means it found something.
    run: fn(PathBuf, &[String]) -> Result<bool>,
}

static TASKS: &[Task] = &[
    Task {
        name: "proof",
        about: "the tests that are slow by nature, as one table (make proof)",
        run: proof::run,
    },
    Task { name: "tidy", about: "check the rules of the house (CONTRIBUTING.md)", run: tidy::run },
    Task { name: "bench", about: "fathom disk beside fio, as ratios (make bench)", run: bench::run },
    Task {
        name: "bench-server",
        about: "the lab server's speed as ratios (make bench)",
        run: bench_server::run,
    },
    Task {
        name: "bench-load",
        about: "the load generator's cost as ratios (make bench)",
        run: bench_load::run,
    },
    Task {
        name: "bench-router",
        about: "what a read costs through the router, as a ratio (make bench)",
        run: bench_router::run,
    },
    Task { name: "bench-watch", about: "what watching and judging cost (make bench)", run: bench_watch::run },
    Task {
        name: "io-fidelity",
        about: "the lab server's I/O beside a real mongod's, as ratios",
        run: io_fidelity::run,
    },
    Task { name: "record-demo", about: "record the run that 'fathom demo' shows", run: record_demo::run },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    let Some(task) = TASKS.iter().find(|task| task.name == name) else { return usage(name) };
    match root().and_then(|root| (task.run)(root, rest)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask {name}: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn usage(name: &str) -> ExitCode {
    let asked = matches!(name, "help" | "--help" | "-h");
    let mut text = if asked { String::new() } else { format!("xtask: there is no task '{name}'\n") };
    text.push_str("Usage: cargo xtask TASK\n\nTasks:\n");
    for task in TASKS {
        text.push_str(&format!("  {:12} {}\n", task.name, task.about));
    }
    // A reader that went away is not worth a message.
    let _ =
        if asked { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
    ExitCode::from(if asked { 0 } else { 2 })
}

/// The root of the tree that we stand in. Not the path known at build time: one build may serve several clones.
fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot tell the current directory")?;
    let root = here.ancestors().find(|folder| folder.join(tidy::FLOORS).is_file());
    root.map(PathBuf::from).with_context(|| format!("{} is not inside the Fathom tree", here.display()))
}
