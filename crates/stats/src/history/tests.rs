//! Series whose truth is known.

use super::*;

const LEVEL_VALUE: f64 = 1000.0;
const SPREAD: f64 = 50.0;
/// Holm multiplies the smallest p that these can give by the tests of a series, of which there are three and more.
const SURROGATES: usize = 999;

/// `n` values around 1000 with a spread of 5 % and this memory.
fn correlated(rho: f64, n: usize, stream: &mut Seeded) -> Vec<f64> {
    let mut value = stream.normal();
    let scale = (1.0 - rho * rho).sqrt();
    let mut next = || {
        value = rho * value + scale * stream.normal();
        LEVEL_VALUE + SPREAD * value
    };
    (0..n).map(|_| next()).collect()
}

/// How many of `series` series of `n` values have a change told, after one of `size` standard deviations was put into the middle.
fn told(rho: f64, n: usize, size: f64, series: u64) -> usize {
    let found = |index: &u64| {
        let mut stream = Seeded::from_seed(9).split(*index);
        let mut values = correlated(rho, n, &mut stream);
        values.iter_mut().skip(n / 2).for_each(|value| *value -= size * SPREAD);
        !level_changes(&values, 0.0, SURROGATES, &mut stream).unwrap().changes.is_empty()
    };
    (0..series).filter(found).count()
}

/// analysis.md, A9: 1 % at n = 60. A true 2 % gives more than 12 of 200 with probability below 0.001; a published detector raises
/// 4, 23 and 64 %.
#[test]
fn no_more_false_alarms_than_said() {
    for rho in [0.0, 0.3, 0.6] {
        let false_alarms = told(rho, 60, 0.0, 200);
        println!("rho {rho}: {false_alarms} of 200");
        assert!(false_alarms <= 12, "{false_alarms} of 200 at rho {rho}");
    }
}

/// analysis.md, A9: power 0.95 to 1 for 3 standard deviations in the middle of 60 values, 0.49 to 0.96 for 1.5.
#[test]
fn changes_are_told() {
    let cases = [(0.0, 3.0, 57), (0.3, 3.0, 54), (0.6, 3.0, 30), (0.0, 1.5, 27)];
    let found = cases.map(|(rho, size, _)| told(rho, 60, size, 60));
    println!("{found:?} of 60");
    for ((rho, size, least), found) in cases.into_iter().zip(found) {
        assert!(found >= least, "{found} of 60 of {size} standard deviations at rho {rho}");
    }
}

#[test]
fn what_is_told_depends_on_how_much_there_is() {
    let mut stream = Seeded::from_seed(5);
    let mut values = correlated(0.0, 60, &mut stream);
    values.iter_mut().skip(30).for_each(|value| *value -= 6.0 * SPREAD);
    let reach = |values: &[f64], stream: &mut Seeded| {
        let verdict = level_changes(values, 0.0, SURROGATES, stream).unwrap();
        (verdict.reach, verdict.changes.len())
    };
    assert_eq!(reach(&values, &mut stream), (HistoryReach::Judgement, 1));
    assert_eq!(reach(&values[16..44], &mut stream), (HistoryReach::Suspicion, 1));
    assert_eq!(reach(&values[26..35], &mut stream), (HistoryReach::TooFew, 0));
    values[3] = f64::NAN;
    assert_eq!(level_changes(&values, 0.0, 99, &mut stream), None);
}

#[test]
fn two_changes_are_told_apart_and_placed() {
    let mut stream = Seeded::from_seed(11);
    let mut values = correlated(0.2, 120, &mut stream);
    values.iter_mut().skip(40).for_each(|value| *value -= 5.0 * SPREAD);
    values.iter_mut().skip(80).for_each(|value| *value += 9.0 * SPREAD);
    let verdict = level_changes(&values, 0.0, SURROGATES, &mut stream).unwrap();
    let places: Vec<usize> = verdict.changes.iter().map(|change| change.index).collect();
    assert_eq!(places, [40, 80]);
    let [down, up] = [verdict.changes[0], verdict.changes[1]];
    assert!((down.before - 1000.0).abs() < 30.0 && (down.after - 750.0).abs() < 30.0, "{down:?}");
    assert!((up.after - 1200.0).abs() < 30.0 && up.superiority > 0.99, "{up:?}");
}

/// A step inside the noise floor, one outlier, a visit of two values, and a constant.
#[test]
fn what_does_not_matter_or_last_is_not_told() {
    let mut stream = Seeded::from_seed(2);
    let small: Vec<f64> = (0..60).map(|n| if n < 30 { 1000.0 } else { 1015.0 } + stream.normal()).collect();
    assert!(level_changes(&small, 0.0, SURROGATES, &mut stream).unwrap().changes.is_empty());
    let told = level_changes(&small, 0.0, SURROGATES, &mut stream).unwrap().smallest_p;
    assert!(told <= 0.01, "it is real, but small: {told}");
    let mut spike = correlated(0.0, 60, &mut stream);
    spike[30] *= 20.0;
    spike[31] *= 20.0;
    assert!(level_changes(&spike, 0.0, SURROGATES, &mut stream).unwrap().changes.is_empty());
    assert!(level_changes(&[7.0; 60], 0.0, 99, &mut stream).unwrap().changes.is_empty());
    let wide = level_changes(&small, 0.5, 99, &mut stream).unwrap();
    assert_eq!(wide.noise_floor, 0.5);
}

/// More noise is no other level: the spread trebles, the median stays.
#[test]
fn a_change_of_noise_or_a_second_mode_is_not_a_change_of_level() {
    let mut alarms = 0;
    for index in 0..60 {
        let mut stream = Seeded::from_seed(31).split(index);
        let mut values = correlated(0.0, 60, &mut stream);
        for (place, value) in values.iter_mut().enumerate() {
            let wide = if place >= 30 { 3.0 } else { 1.0 };
            let mode = if index % 2 == 0 && stream.uniform() < 0.5 { 150.0 } else { 0.0 };
            *value = LEVEL_VALUE + wide * (*value - LEVEL_VALUE) + mode;
        }
        alarms +=
            usize::from(!level_changes(&values, 0.0, SURROGATES, &mut stream).unwrap().changes.is_empty());
    }
    assert!(alarms <= 4, "{alarms} of 60");
}
