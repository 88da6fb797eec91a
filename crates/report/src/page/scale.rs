//! Converts values to positions on a chart: linear and logarithmic, with ticks at round numbers.

/// The margin at the ends of an axis of ratios, as a ratio.
const AXIS_MARGIN: f64 = 1.002;
/// The ratio between its ends up to which an axis of ratios has ticks at equal steps, and the ratio from which on it has them only at decades.
const MAX_EQUAL_STEPS_RATIO: f64 = 3.0;
const MIN_DECADES_RATIO: f64 = 100.0;

/// An axis of a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// From 0 to a round number at or above the highest value.
    pub(super) fn from_zero(highest: f64) -> Scale {
        let highest = if highest.is_finite() && highest > 0.0 { highest.min(1e300) } else { 1.0 };
        let step = round_up(highest / 4.0);
        Scale { low: 0.0, high: (highest / step).ceil() * step, is_log: false }
    }

    /// Round numbers around these values; the axis need not begin at 0.
    pub(super) fn around(lowest: f64, highest: f64) -> Scale {
        let span = highest - lowest;
        if !span.is_finite() || span <= 0.0 {
            return Scale::from_zero(highest);
        }
        let step = round_up(span / 4.0);
        Scale { low: (lowest / step).floor() * step, high: (highest / step).ceil() * step, is_log: false }
    }

    /// A scale with exactly these ends.
    pub(super) fn between(low: f64, high: f64) -> Scale {
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_log: false }
    }

    /// A scale with exactly these ends, which are above 0; equal ratios are equally far apart.
    pub(super) fn between_ratios(low: f64, high: f64) -> Scale {
        let [low, high] = [low, high].map(|end| end.max(f64::MIN_POSITIVE).log10());
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_log: true }
    }

    /// A scale around these values, which are above 0; equal ratios are equally far apart. It begins and ends at a tick, even if they are close
    /// together.
    pub(super) fn around_ratios(lowest: f64, highest: f64) -> (Scale, Vec<f64>) {
        let is_usable = lowest.is_finite() && highest.is_finite() && lowest > 0.0 && highest >= lowest;
        let (lowest, highest) = if is_usable { (lowest, highest) } else { (1.0, 1.0) };
        let (low, high) = (lowest / AXIS_MARGIN, highest * AXIS_MARGIN);
        if high / low <= MAX_EQUAL_STEPS_RATIO {
            let step = round_up((high - low) / 8.0);
            let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
            let ticks: Vec<f64> = (first..=last).map(|at| at as f64 * step).collect();
            return (Scale::between_ratios(first as f64 * step, last as f64 * step), ticks);
        }
        let scale = match high / low < MIN_DECADES_RATIO {
            // The round number below is the reciprocal of the one above the reciprocal.
            true => Scale::between_ratios(1.0 / round_up(1.0 / low), round_up(high)),
            false => Scale::decades(low, high),
        };
        (scale, scale.ticks())
    }

    /// Whole decades around these values, which are above 0.
    pub(super) fn decades(lowest: f64, highest: f64) -> Scale {
        let low = lowest.max(f64::MIN_POSITIVE).log10().floor();
        let high = highest.max(f64::MIN_POSITIVE).log10().ceil();
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_log: true }
    }

    /// The values at both ends, and whether equal ratios are equally far apart.
    pub(super) fn ends(&self) -> (f64, f64, bool) {
        match self.is_log {
            true => (10f64.powf(self.low), 10f64.powf(self.high), true),
            false => (self.low, self.high, false),
        }
    }

    /// The position of a value, from 0 to 1; values beyond the ends are placed at the ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round values along it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let decades = self.low.floor() as i32..=self.high.ceil() as i32;
            // If the ends are no decades and there are few of these, each decade has ticks at 2 and 5 as well.
            let is_whole = self.low.fract() == 0.0 && self.high.fract() == 0.0;
            let is_long = is_whole || self.high - self.low > 2.5;
            let digits: &[f64] = if is_long { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = decades.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
            let within = |tick: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.log10());
            return all.filter(within).collect();
        }
        let step = round_up((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).max(0.0) as usize;
        (0..=count).map(|at| (first + at as f64) * step).collect()
    }
}

/// The next of 1, 2, 5, 10, 20, … at or above a number.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = value / power;
    let digit = if digit <= 1.0 {
        1.0
    } else if digit <= 2.0 {
        2.0
    } else if digit <= 5.0 {
        5.0
    } else {
        10.0
    };
    digit * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Scale::from_zero(87.0).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::decades(30.0, 5000.0).ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(Scale::between_ratios(5.0, 120.0).ticks(), [5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Scale::between(0.0, 60.0).ticks(), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(Scale::around(19_120.0, 20_480.0).ticks(), [19_000.0, 19_500.0, 20_000.0, 20_500.0]);
        assert_eq!(Scale::around(7.0, 7.0), Scale::from_zero(7.0));
        for odd in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!(Scale::from_zero(odd).ticks().len() > 1, "{odd}");
        }
    }

    #[test]
    fn ratios_have_two_ticks_at_least_however_close_they_lie() {
        for (lowest, highest) in
            [(0.98, 1.03), (1.0, 1.0), (2.2, 6.4), (0.06, 1.0), (260.0, 10_400.0), (1e-3, 3e6)]
        {
            let (scale, ticks) = Scale::around_ratios(lowest, highest);
            assert!((2..=12).contains(&ticks.len()), "{lowest} to {highest}: {ticks:?}");
            let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
            assert!(first <= lowest && highest <= last, "{lowest} to {highest}: {ticks:?}");
            assert!(scale.place(lowest) > 0.0 && scale.place(highest) < 1.0, "{lowest} to {highest}");
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
        }
        assert_eq!(Scale::around_ratios(0.93, 1.18).1.len(), 7, "0.9 to 1.2 by 0.05");
        let (_, odd) = Scale::around_ratios(f64::NAN, 0.0);
        assert!(odd.len() > 1);
    }

    #[test]
    fn places_are_within_the_chart() {
        let scale = Scale::decades(1.0, 100.0);
        assert!((scale.place(10.0) - 0.5).abs() < 1e-12);
        assert_eq!((scale.place(0.0), scale.place(1e9)), (0.0, 1.0));
        assert_eq!(Scale::from_zero(100.0).place(50.0), 0.5);
    }
}
