//! Waiting for something to come true, for a while: never for ever, and never past a signal.

use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::Signals;

/// The first pause between two attempts, and the longest.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);

/// What is waited for, and how long.
pub(crate) struct Patience<'a> {
    /// The sentence for when it does not come true.
    pub(crate) what: String,
    pub(crate) until: Instant,
    pub(crate) signals: &'a Signals,
}

impl Patience<'_> {
    /// Tries until it works; the last failure is the cause when the time is over.
    pub(crate) fn until<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pause = FIRST;
        loop {
            if self.signals.stopped() {
                return Err(interrupted());
            }
            let error = match attempt() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if Instant::now() >= self.until {
                let error = Error::new(Kind::Busy, self.what.clone()).because(error);
                return Err(error.advise("give it more time with --timeout, or look into the logs"));
            }
            self.signals.wait(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// A signal came.
pub(crate) fn interrupted() -> Error {
    Error::new(Kind::Stopped, "interrupted by a signal")
}
