//! A program of tasks, one row of a table each: `cargo xtask` and `cargo measure` are such programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::tidy::FLOORS;

/// One task of a program.
pub struct Task {
    /// The name on the command line.
    pub name: &'static str,
    /// For the list of tasks.
    pub about: &'static str,
    /// Takes the root of the tree and the arguments after the task's name; returns `false` if it found a fault.
    pub run: fn(PathBuf, &[String]) -> Result<bool>,
}

/// Runs the task that the command line names. The exit code is 1 if the task found a fault, 2 if there is no such task, and 3 if
/// the task could not be done.
pub fn run_named(program: &str, tasks: &[Task]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    let Some(task) = tasks.iter().find(|task| task.name == name) else {
        return usage(program, tasks, name);
    };
    match root().and_then(|root| (task.run)(root, rest)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{program} {name}: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn usage(program: &str, tasks: &[Task], name: &str) -> ExitCode {
    let asked = matches!(name, "help" | "--help" | "-h");
    let mut text = if asked { String::new() } else { format!("{program}: there is no task '{name}'\n") };
    text.push_str(&format!("Usage: cargo {program} TASK\n\nTasks:\n"));
    for task in tasks {
        text.push_str(&format!("  {:12} {}\n", task.name, task.about));
    }
    // A closed output needs no message.
    let _ =
        if asked { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
    ExitCode::from(if asked { 0 } else { 2 })
}

/// The root of the tree that contains the working folder. It is not the path at build time, since one build may serve several clones.
fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot tell the current directory")?;
    let root = here.ancestors().find(|folder| folder.join(FLOORS).is_file());
    root.map(PathBuf::from).with_context(|| format!("{} is not inside the Fathom tree", here.display()))
}
