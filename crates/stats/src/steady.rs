//! Judges whether a device has settled, by the steady-state rule of SNIA's Solid State Storage Performance Test Specification.
//!
//! A fresh or idle SSD is fast for a while. The specification takes a measurement window of five rounds and asks
//! that the rounds stay together (data excursion: largest minus smallest at most 20 % of the average) and that
//! their straight-line fit stays level (slope excursion: its rise or fall across the window at most 10 % of the
//! average). It refuses to answer from fewer than five rounds. Attained here means that these rounds are steady,
//! not that the drive was preconditioned: that also needs its capacity written (docs/methods.md#steady-state).

/// Rounds in the measurement window.
pub const STEADY_WINDOW_ROUNDS: usize = 5;
/// The largest data excursion, as a share of the window's average.
pub const MAX_STEADY_EXCURSION: f64 = 0.20;
/// The largest slope excursion, as a share of the window's average.
pub const MAX_STEADY_SLOPE_EXCURSION: f64 = 0.10;

/// The verdict on the last five rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// Whether both excursions are within their limits.
    pub attained: bool,
    /// (largest - smallest) / average.
    pub excursion: f64,
    /// |least-squares slope| x (rounds - 1) / average.
    pub slope_excursion: f64,
}

/// Judges the last [`STEADY_WINDOW_ROUNDS`] of `rounds` (throughput or latency per round, oldest first). `None` if there are fewer, one is
/// not finite, or their average is not positive.
pub fn steady_state(rounds: &[f64]) -> Option<SteadyState> {
    let window = rounds.get(rounds.len().checked_sub(STEADY_WINDOW_ROUNDS)?..)?;
    let average = crate::mean(window)?;
    if average <= 0.0 {
        return None;
    }
    let largest = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = window.iter().copied().fold(f64::INFINITY, f64::min);
    let excursion = (largest - smallest) / average;
    let slope_excursion = least_squares_slope(window).abs() * (STEADY_WINDOW_ROUNDS - 1) as f64 / average;
    Some(SteadyState {
        attained: excursion <= MAX_STEADY_EXCURSION && slope_excursion <= MAX_STEADY_SLOPE_EXCURSION,
        excursion,
        slope_excursion,
    })
}

/// The slope of the least-squares line through values at 0, 1, 2 …
fn least_squares_slope(values: &[f64]) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut cross, mut square) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let x = index as f64 - middle;
        cross += x * value;
        square += x * x;
    }
    cross / square
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy.polyfit over 0..5 for the slope.
    #[test]
    fn excursions_are_those_of_the_last_five_rounds() {
        let state = steady_state(&[9000.0, 400.0, 410.0, 395.0, 405.0, 420.0]).unwrap();
        assert!((state.excursion - 25.0 / 406.0).abs() < 1e-12);
        assert!((state.slope_excursion - 3.5 * 4.0 / 406.0).abs() < 1e-9);
        assert!(state.attained);
    }

    #[test]
    fn a_slide_and_a_bounce_are_not_steady() {
        let slide = steady_state(&[106.0, 103.0, 100.0, 97.0, 94.0]).unwrap();
        assert!(!slide.attained && slide.excursion < MAX_STEADY_EXCURSION && slide.slope_excursion > 0.1);
        let bounce = steady_state(&[90.0, 112.0, 100.0, 112.0, 90.0]).unwrap();
        assert!(!bounce.attained && bounce.slope_excursion < 1e-9);
    }

    #[test]
    fn too_little_is_not_judged() {
        assert_eq!(steady_state(&[1.0; 4]), None);
        assert_eq!(steady_state(&[0.0; 5]), None);
        assert_eq!(steady_state(&[1.0, 1.0, f64::NAN, 1.0, 1.0]), None);
    }
}
