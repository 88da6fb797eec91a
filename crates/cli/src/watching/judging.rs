//! Judging beside the watching: on a thread of its own, so that neither the screen nor the collecting ever waits for it.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_explain::{Evidence, Judgement, judge};

/// The pause between judgements, as a multiple of how long the last one took: at most a tenth of a processor.
const PAUSE: u32 = 9;

/// Judges whenever there is something new.
#[derive(Debug)]
pub(crate) struct Judging {
    ask: Sender<Evidence>,
    told: Receiver<(Judgement, Duration)>,
    period: Duration,
    asked: Option<Instant>,
    is_busy: bool,
    latest: Judgement,
}

impl Judging {
    /// Starts the thread; it judges once in `period` at most.
    pub(crate) fn start(period: Duration) -> Result<Judging> {
        let (ask, asked) = channel::<Evidence>();
        let (tell, told) = channel();
        let work = move || {
            for evidence in asked {
                let begun = Instant::now();
                let judgement = judge(&evidence);
                if tell.send((judgement, begun.elapsed())).is_err() {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("judge".to_owned()).spawn(work);
        spawned.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
        Ok(Judging { ask, told, period, asked: None, is_busy: false, latest: Judgement::default() })
    }

    /// The newest judgement; the next one is asked for where it is time.
    pub(crate) fn latest(&mut self, evidence: &Evidence) -> &Judgement {
        match self.told.try_recv() {
            Ok((judgement, took)) => {
                self.latest = judgement;
                self.period = self.period.max(took.saturating_mul(PAUSE));
                self.is_busy = false;
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() >= self.period);
        if is_due && !self.is_busy {
            self.asked = Some(Instant::now());
            self.is_busy = self.ask.send(evidence.clone()).is_ok();
        }
        &self.latest
    }
}
