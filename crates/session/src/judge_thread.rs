//! A thread that renews the judgement while samplers run, so that neither the screen nor the samplers wait for it.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_explain::{Evidence, Judgement, judge};

/// The pause between judgements, as a multiple of how long the last one took: at most a tenth of a processor.
const PAUSE_TO_JUDGEMENT: u32 = 9;

/// The thread, and the newest judgement.
#[derive(Debug)]
pub struct JudgeThread {
    requests: Sender<Evidence>,
    replies: Receiver<(Judgement, Duration)>,
    period: Duration,
    requested: Option<Instant>,
    is_busy: bool,
    latest: Judgement,
}

impl JudgeThread {
    /// Starts the thread, which judges at most once in `period`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(period: Duration) -> Result<JudgeThread> {
        let (requests, received) = channel::<Evidence>();
        let (reply, replies) = channel();
        let work = move || {
            for evidence in received {
                let begun = Instant::now();
                let judgement = judge(&evidence);
                if reply.send((judgement, begun.elapsed())).is_err() {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("judge".to_owned()).spawn(work);
        spawned.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
        Ok(JudgeThread {
            requests,
            replies,
            period,
            requested: None,
            is_busy: false,
            latest: Judgement::default(),
        })
    }

    /// The newest judgement. Requests the next one of `evidence` when it is due.
    pub fn latest(&mut self, evidence: &Evidence) -> &Judgement {
        match self.replies.try_recv() {
            Ok((judgement, took)) => {
                self.latest = judgement;
                self.period = self.period.max(took.saturating_mul(PAUSE_TO_JUDGEMENT));
                self.is_busy = false;
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        let is_due = self.requested.is_none_or(|requested| requested.elapsed() >= self.period);
        if is_due && !self.is_busy {
            self.requested = Some(Instant::now());
            self.is_busy = self.requests.send(evidence.clone()).is_ok();
        }
        &self.latest
    }
}
