//! A responder that does no work, in a separate process like the servers that it is compared with.
//!
//! It is this program again: a task that measures against it runs [`respond`] for the word [`RESPOND`].

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use bson::RawDocument;
use fathom_testkit::NullResponder;

/// The word that makes a task of this program the responder.
pub(crate) const RESPOND: &str = "--respond";

/// Answers each find with the document until standard input ends, which it does when the bench ends. The port is the only
/// line printed.
pub(crate) fn respond(document: &RawDocument) -> Result<bool> {
    let responder = NullResponder::start(document)?;
    writeln!(io::stdout(), "{}", responder.port())?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(true)
}

/// A running responder; it ends when dropped.
pub(crate) struct Responder {
    child: Child,
    port: u16,
}

impl Responder {
    /// Starts the responder of this task.
    pub(crate) fn start(task: &str) -> Result<Responder> {
        let own = std::env::current_exe().context("cannot tell where this program is")?;
        let mut command = Command::new(own);
        command.args([task, RESPOND]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the responder")?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let mut responder = Responder { child, port: 0 };
        read.transpose()?;
        responder.port = line.trim().parse().unwrap_or(0);
        ensure!(responder.port != 0, "the responder did not come up");
        Ok(responder)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Keeps it to one processor; its threads to come inherit it.
    pub(crate) fn pin(&self, cpu: usize) -> Result<()> {
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(cpu);
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let id: i32 = task?.file_name().to_string_lossy().parse()?;
            rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(id), &cpus)?;
        }
        Ok(())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
