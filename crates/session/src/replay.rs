//! Replays recorded readings as samplers deliver them, in the order of time, but faster.

use std::time::{Duration, Instant};

use fathom_explain::Evidence;
use fathom_record::Reading;
use fathom_record::disk::Entry;

use crate::monitor_session::{Feed, mark};
use crate::recent_window::RecentWindow;

/// The time that the last screen stays.
const LAST_SCREEN_TIME: Duration = Duration::from_secs(2);

/// A recording that is being replayed: each reading arrives when its window has ended.
pub struct Replay {
    readings: Vec<Reading>,
    /// The number of readings that have arrived.
    come: usize,
    /// The lines of the servers' logs, with their times.
    logged: Vec<(u64, Entry)>,
    /// The moment of the recording at which the replay begins.
    zero_ns: u64,
    last_ns: u64,
    speed: u32,
    begun: Instant,
    window: RecentWindow,
}

impl Replay {
    /// Starts now, with the first reading. `evidence` has the facts of the recording and the lines of logs; `readings` are replayed.
    pub fn start(
        evidence: &Evidence,
        notes: &[String],
        mut readings: Vec<Reading>,
        speed: u32,
        hindsight: Option<Duration>,
    ) -> Replay {
        let mut window = RecentWindow::new(hindsight, evidence.seed);
        window.evidence.environment = evidence.environment.clone();
        notes.iter().for_each(|note| window.note(note));
        let mut logged: Vec<(u64, Entry)> =
            evidence.results.iter().filter_map(|entry| Some((time_ns(entry)?, entry.clone()))).collect();
        logged.sort_by_key(|(at_ns, _)| *at_ns);
        readings.sort_by_key(|reading| reading.end_ns);
        Replay {
            readings,
            come: 0,
            logged,
            zero_ns: evidence.window_ns.0,
            last_ns: evidence.window_ns.1,
            speed: speed.max(1),
            begun: Instant::now(),
            window,
        }
    }

    /// The same from a later time on; earlier readings are shown at once.
    #[must_use]
    pub fn from_moment(mut self, zero_ns: u64) -> Replay {
        self.zero_ns = zero_ns.clamp(self.zero_ns, self.last_ns);
        self
    }

    /// The moment of the recording that is shown.
    fn now_ns(&self) -> u64 {
        let shown_ns = self.begun.elapsed().saturating_mul(self.speed).as_nanos();
        self.zero_ns.saturating_add(u64::try_from(shown_ns).unwrap_or(u64::MAX)).min(self.last_ns)
    }

    fn take(&mut self) {
        let now_ns = self.now_ns();
        let come = self.readings.partition_point(|reading| reading.end_ns <= now_ns);
        self.window.readings(self.readings.get(self.come..come).unwrap_or_default());
        self.come = come;
        self.window.pass(now_ns);
        let come = self.logged.partition_point(|(at_ns, _)| *at_ns <= now_ns);
        self.window.evidence.results.extend(self.logged.drain(..come).map(|(_, entry)| entry));
    }
}

/// The time of an entry from a server's log; `None` for results of a whole measurement, known only at the end.
fn time_ns(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::SlowOperation(slow) => Some(slow.ended_ns),
        Entry::ServerEvent(event) => Some(event.at_ns),
        Entry::ServerWork(work) => Some(work.end_ns),
        _ => None,
    }
}

impl Feed for Replay {
    fn gather(&mut self, wait: Duration) {
        std::thread::sleep(wait);
        self.take();
    }

    fn window(&self) -> &RecentWindow {
        &self.window
    }

    fn mark(&mut self) {
        let now_ns = self.now_ns();
        self.window.readings(&[mark(now_ns)]);
    }

    fn is_over(&self) -> bool {
        let length = Duration::from_nanos(self.last_ns.saturating_sub(self.zero_ns)) / self.speed;
        self.come == self.readings.len() && self.begun.elapsed() >= length + LAST_SCREEN_TIME
    }
}
