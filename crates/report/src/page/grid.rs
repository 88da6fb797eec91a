//! The steps of time that all charts of a page share, and series laid on them.
//!
//! A step is a second, or longer where a run is so long that nobody could tell seconds apart. A value is the mean of what was read
//! within the step; a step without a reading is a gap and stays one.

use fathom_record::Point;

use super::chart::{Across, figure};

/// The most steps of a page.
const MOST: u64 = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// The steps, from the run's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Length of a step, in nanoseconds.
    step_ns: u64,
    /// How many.
    count: usize,
}

impl Grid {
    /// Whole seconds up to `end_ns`, as many to a step as are needed.
    pub(super) fn until(end_ns: u64) -> Grid {
        let seconds = end_ns.div_ceil(SECOND_NS);
        let step_s = seconds.div_ceil(MOST).max(1);
        Grid { step_ns: step_s.saturating_mul(SECOND_NS), count: seconds.div_ceil(step_s) as usize }
    }

    /// The steps as the x axis of a chart.
    pub(super) fn across(&self) -> Across {
        seconds((0..self.count).map(|at| self.end_s(at)))
    }

    /// The time that they cover, in words.
    pub(super) fn window(&self) -> String {
        let end_s = self.count.checked_sub(1).map_or(0.0, |last| self.end_s(last));
        format!("0 to {} s, in steps of {} s", figure(end_s), figure(self.step_ns as f64 / 1e9))
    }

    /// When a step ends, in seconds since the run's start.
    fn end_s(&self, at: usize) -> f64 {
        (at as f64 + 1.0) * self.step_ns as f64 / 1e9
    }

    /// The mean of the values whose windows end in each step.
    pub(super) fn means(&self, points: impl IntoIterator<Item = Point>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.count];
        for point in points.into_iter().filter(|point| point.value.is_finite()) {
            let at = (point.end_ns.saturating_sub(1) / self.step_ns) as usize;
            if let Some((sum, count)) = sums.get_mut(at) {
                *sum += point.value;
                *count += 1;
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }
}

/// Moments in seconds since the run's start as the x axis of a chart.
pub(super) fn seconds(places: impl Iterator<Item = f64>) -> Across {
    Across { name: "second", places: places.collect(), ticks: Vec::new(), is_log: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(end_ns: u64, value: f64) -> Point {
        Point { begin_ns: 0, end_ns, value }
    }

    #[test]
    fn a_long_run_has_longer_steps_and_gaps_stay() {
        assert_eq!(Grid::until(90 * SECOND_NS), Grid { step_ns: SECOND_NS, count: 90 });
        assert_eq!(Grid::until(7200 * SECOND_NS), Grid { step_ns: 2 * SECOND_NS, count: 3600 });
        assert_eq!(Grid::until(0).count, 0);
        let grid = Grid::until(3 * SECOND_NS);
        let points = [point(1, 1.0), point(SECOND_NS, 3.0), point(3 * SECOND_NS, 7.0), point(u64::MAX, 9.0)];
        assert_eq!(grid.means(points), [Some(2.0), None, Some(7.0)]);
        assert!((grid.end_s(2) - 3.0).abs() < 1e-12);
    }
}
