//! The log of requests to a device since the probe began: their cumulative count over time, warm-ups and rests included.
//!
//! The figures of a step leave out requests that ended before and after its window. A token bucket counts them.

use fathom_stats::Passage;

/// The requests of a probe over time.
#[derive(Debug, Default)]
pub(crate) struct PassageLog {
    /// Nanoseconds since the run's start, and the requests that had ended by then; in order.
    marks: Vec<(u64, u64)>,
}

impl PassageLog {
    /// Notes that this many more had ended by `now_ns`.
    pub(crate) fn add(&mut self, now_ns: u64, requests: u64) {
        let total = self.total() + requests;
        match self.marks.last_mut() {
            Some((last_ns, last)) if *last_ns >= now_ns => *last = total,
            _ => self.marks.push((now_ns, total)),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.marks.last().map_or(0, |(_, total)| *total)
    }

    /// The stretches of time between notes up to `end_ns`, from the first note on.
    pub(crate) fn passages_until(&self, end_ns: u64) -> Vec<Passage> {
        let marks = self.marks.iter().take_while(|(at_ns, _)| *at_ns <= end_ns);
        let next = self.marks.iter().skip(1);
        let stretch = |((from_ns, before), (to_ns, after)): (&(u64, u64), &(u64, u64))| {
            (*to_ns <= end_ns).then(|| Passage {
                seconds: (to_ns - from_ns) as f64 / 1e9,
                requests: (after - before) as f64,
            })
        };
        marks.zip(next).filter_map(stretch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_those_between_notes() {
        let mut log = PassageLog::default();
        for (second, requests) in [(1, 0), (2, 50), (2, 7), (4, 100), (9, 0)] {
            log.add(second * 1_000_000_000, requests);
        }
        assert_eq!(log.total(), 157);
        let stretch = |seconds, requests| Passage { seconds, requests };
        assert_eq!(log.passages_until(4_000_000_000), [stretch(1.0, 57.0), stretch(2.0, 100.0)]);
        assert_eq!(log.passages_until(u64::MAX).len(), 3);
        assert_eq!(log.passages_until(1_500_000_000), []);
    }
}
