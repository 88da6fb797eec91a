//! The recording brought as samplers bring it, only faster: each reading when its window has ended.

use std::time::{Duration, Instant};

use fathom_record::Reading;
use fathom_record::disk::Entry;

use super::recording::Recording;
use crate::verbs::watch::follow::Seen;
use crate::watching::Recent;

/// How long the last screen stays.
const HELD: Duration = Duration::from_secs(2);

/// A recording that is being shown.
pub(super) struct Replay<'r> {
    readings: Vec<Reading>,
    /// How many of them have come.
    come: usize,
    /// What the servers' logs said, with when.
    logged: Vec<(u64, &'r Entry)>,
    /// When the first reading begins.
    zero_ns: u64,
    last_ns: u64,
    speed: u32,
    begun: Instant,
    recent: Recent,
}

impl<'r> Replay<'r> {
    /// Starts now. Lines have columns for servers only, as beside somebody else's load: there the client's readings stay away.
    pub(super) fn start(recording: &'r Recording, speed: u32, has_client: bool) -> Replay<'r> {
        let is_shown = |reading: &&Reading| has_client || !reading.name.starts_with("client.");
        let evidence = &recording.explained.evidence;
        let mut recent = Recent::new(None, evidence.seed);
        recent.evidence.environment = evidence.environment.clone();
        recording.explained.notes.iter().for_each(|note| recent.note(note));
        let mut logged: Vec<(u64, &Entry)> =
            evidence.results.iter().filter_map(|entry| Some((time_ns(entry)?, entry))).collect();
        logged.sort_by_key(|(at_ns, _)| *at_ns);
        Replay {
            readings: recording.readings.iter().filter(is_shown).cloned().collect(),
            come: 0,
            logged,
            zero_ns: evidence.window_ns.0,
            last_ns: evidence.window_ns.1,
            speed,
            begun: Instant::now(),
            recent,
        }
    }

    /// The moment of the recording that is shown.
    fn now_ns(&self) -> u64 {
        let shown_ns = self.begun.elapsed().saturating_mul(self.speed).as_nanos();
        self.zero_ns.saturating_add(u64::try_from(shown_ns).unwrap_or(u64::MAX)).min(self.last_ns)
    }

    fn take(&mut self) {
        let now_ns = self.now_ns();
        let come = self.readings.partition_point(|reading| reading.end_ns <= now_ns);
        self.recent.readings(self.readings.get(self.come..come).unwrap_or_default());
        self.come = come;
        let come = self.logged.partition_point(|(at_ns, _)| *at_ns <= now_ns);
        self.recent.evidence.results.extend(self.logged.drain(..come).map(|(_, entry)| entry.clone()));
    }
}

/// When a server's log said it; what was measured as a whole is known only at the end.
fn time_ns(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::SlowOperation(slow) => Some(slow.ended_ns),
        Entry::ServerEvent(event) => Some(event.at_ns),
        _ => None,
    }
}

impl Seen for Replay<'_> {
    fn gather(&mut self, wait: Duration) {
        std::thread::sleep(wait);
        self.take();
    }

    fn recent(&self) -> &Recent {
        &self.recent
    }

    fn mark(&mut self) {
        let now_ns = self.now_ns();
        self.recent.readings(&[Reading::new("watch.mark", "1", (now_ns, now_ns), 1.0)]);
    }

    fn is_over(&self) -> bool {
        let length = Duration::from_nanos(self.last_ns.saturating_sub(self.zero_ns)) / self.speed;
        self.come == self.readings.len() && self.begun.elapsed() >= length + HELD
    }
}
