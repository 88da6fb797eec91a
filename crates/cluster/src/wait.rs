//! Waits for a condition, up to a time limit and until a signal arrives.

use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::Signals;

/// The first pause between two attempts, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The subject of a wait, and its time limit.
pub(crate) struct WaitLimit<'a> {
    /// The sentence for the case that the condition is not met.
    pub(crate) what: String,
    pub(crate) until: Instant,
    pub(crate) signals: &'a Signals,
}

impl WaitLimit<'_> {
    /// Retries until it works; at the time limit, the last failure becomes the cause.
    pub(crate) fn until<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pause = FIRST_PAUSE;
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
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(Kind::Stopped, "interrupted by a signal")
}
