//! Signals of a program that runs until it is told to stop: what they ask for comes out one by one.
//!
//! SIGTERM and SIGINT ask to stop; a second one ends the process at once, for the case that stopping hangs. SIGHUP and
//! SIGUSR1 ask to rotate the log. It refuses to run any code of ours inside a signal handler.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Stop cleanly.
    Stop,
    /// Begin a new log file.
    Rotate,
}

/// The signals of a service.
#[derive(Debug)]
pub struct ServiceSignals(Receiver<Ask>);

impl ServiceSignals {
    /// Starts answering signals.
    pub fn install() -> Result<ServiceSignals> {
        let refused = |e: io::Error| Error::new(Kind::Unsupported, "cannot answer signals").because(e);
        let mut incoming = iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(refused)?;
        let (sender, receiver) = mpsc::channel();
        let listen = move || {
            let mut stops = 0;
            for signal in incoming.forever() {
                let ask = if matches!(signal, SIGINT | SIGTERM) { Ask::Stop } else { Ask::Rotate };
                stops += u32::from(ask == Ask::Stop);
                if stops > 1 {
                    // Ends the process as if we had never answered the signal.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                // Nobody listens any more when the program is about to end.
                let _ = sender.send(ask);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listen).map_err(refused)?;
        Ok(ServiceSignals(receiver))
    }

    /// Waits `duration` at most for the next signal.
    pub fn wait(&self, duration: Duration) -> Option<Ask> {
        match self.0.recv_timeout(duration) {
            Ok(ask) => Some(ask),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(duration);
                None
            }
        }
    }
}
