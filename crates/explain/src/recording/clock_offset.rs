//! How far the clocks of two members of a set are apart, from their heartbeats (docs/methods.md#clocks-of-members).

use std::collections::BTreeMap;

use fathom_record::{HeartbeatTimes, PeerTimes};
use fathom_stats::quantile;
use serde::Serialize;

/// mongod's default of `heartbeatIntervalMillis`. Of sets with another one nothing is said.
const HEARTBEAT_INTERVAL_MS: i64 = 2000;
/// Two times that are closer than this, after the rough offset, are of the same heartbeat.
const MAX_MATCH_MS: i64 = HEARTBEAT_INTERVAL_MS / 2;
/// The two estimates of the rough offset may differ by this much. Samples are a second apart, and each estimate is off by a part of that.
const MAX_ROUGH_SPREAD_MS: u64 = 600;
/// Heartbeats in each direction that a period needs, and the share of them that must match.
const MIN_HEARTBEATS: usize = 10;
const MIN_MATCHED_SHARE: f64 = 0.5;
/// A bound holds for this share of a period's heartbeats: a few are noted late.
const MIN_BOUND_SHARE: f64 = 0.95;
/// Within a period the bounds cross by no more than this, or the clock was set in it.
const MAX_CROSSING_MS: i64 = 5;
/// Times are cut to whole milliseconds.
const ROUNDING_MS: i64 = 1;

/// By how much a member's clock is ahead of another's, in milliseconds: between these bounds in all periods that both recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    pub min_ms: i64,
    pub max_ms: i64,
}

impl ClockOffset {
    /// By how much the clock of `member` is ahead of that of `reference`, a member of the same set; `None` if their recordings do not say.
    pub fn between(reference: &HeartbeatTimes, member: &HeartbeatTimes) -> Option<ClockOffset> {
        let numbers = (reference.member?, member.member?);
        let is_default = |times: &HeartbeatTimes| {
            times.interval_ms.is_none_or(|interval_ms| interval_ms == HEARTBEAT_INTERVAL_MS)
        };
        if numbers.0 == numbers.1 || !is_default(reference) || !is_default(member) {
            return None;
        }
        let common = reference.periods.iter().filter_map(|(period, first)| {
            let second = member.periods.get(period)?;
            in_period(first, second, numbers)
        });
        common.reduce(|one, other| ClockOffset {
            min_ms: one.min_ms.min(other.min_ms),
            max_ms: one.max_ms.max(other.max_ms),
        })
    }
}

/// What two members recorded of each other in a period, which begins at the same time for both.
type Peers = BTreeMap<i64, PeerTimes>;

fn in_period(reference: &Peers, member: &Peers, (first, second): (i64, i64)) -> Option<ClockOffset> {
    let age_ms = |peers: &Peers, number| peers.get(&number)?.applied_age_ms;
    // How old each saw what the other, or it itself, had applied last: the difference is that of their clocks, but for the way of the news.
    let rough = |number| age_ms(member, number)?.checked_sub(age_ms(reference, number)?);
    let (low_ms, high_ms) = (rough(second)?, rough(first)?);
    if high_ms.abs_diff(low_ms) > MAX_ROUGH_SPREAD_MS {
        return None;
    }
    let rough_ms = low_ms + (high_ms - low_ms) / 2;
    let (of_member, of_reference) = (reference.get(&second)?, member.get(&first)?);
    // A heartbeat comes before its reply does.
    let lower = differences(&of_member.replies_ms, &of_reference.requests_ms, rough_ms)?;
    let upper = differences(&of_member.requests_ms, &of_reference.replies_ms, rough_ms)?;
    let min_ms = quantile(&lower, MIN_BOUND_SHARE)?.floor() as i64 - ROUNDING_MS;
    let max_ms = quantile(&upper, 1.0 - MIN_BOUND_SHARE)?.ceil() as i64 + ROUNDING_MS;
    let offset = ClockOffset { min_ms: min_ms.min(max_ms), max_ms: max_ms.max(min_ms) };
    (min_ms - max_ms <= MAX_CROSSING_MS).then_some(offset)
}

/// The difference of each time of the member from that of the same heartbeat on the reference's clock.
fn differences(reference_ms: &[i64], member_ms: &[i64], rough_ms: i64) -> Option<Vec<f64>> {
    let mut sorted = reference_ms.to_vec();
    sorted.sort_unstable();
    let difference = |time_ms: i64| {
        let expected_ms = time_ms.checked_sub(rough_ms)?;
        let next = sorted.partition_point(|time| *time < expected_ms);
        let near = sorted.get(next.saturating_sub(1)..(next + 1).min(sorted.len()))?;
        let found = near.iter().min_by_key(|time| time.abs_diff(expected_ms))?;
        let is_same = found.abs_diff(expected_ms) < MAX_MATCH_MS.unsigned_abs();
        is_same.then(|| (time_ms - found) as f64)
    };
    let found: Vec<f64> = member_ms.iter().filter_map(|time_ms| difference(*time_ms)).collect();
    let is_enough = found.len() >= MIN_HEARTBEATS
        && found.len() as f64 >= MIN_MATCHED_SHARE * reference_ms.len().max(member_ms.len()) as f64;
    is_enough.then_some(found)
}

#[cfg(test)]
mod tests {
    use fathom_stats::SeededRandom;

    use super::*;

    /// A second member whose clock is ahead by an offset that depends on the time in seconds, and heartbeats that take up to `way_ms` each way.
    struct MemberPair {
        offset_ms: fn(f64) -> f64,
        base_ms: f64,
        way_ms: f64,
        seconds: u32,
    }

    impl MemberPair {
        fn offset_at(&self, ms: f64) -> f64 {
            self.base_ms + (self.offset_ms)(ms / 1e3)
        }

        /// The recordings of both.
        fn recorded(&self, random: &mut SeededRandom) -> [HeartbeatTimes; 2] {
            let begin_ms = 1.7e12;
            let mut members =
                [0, 1].map(|number| HeartbeatTimes { member: Some(number), ..HeartbeatTimes::default() });
            let clock = |member: usize, ms: f64| {
                (begin_ms + ms + if member == 1 { self.offset_at(ms) } else { 0.0 }) as i64
            };
            let period = |ms: f64| ((begin_ms + ms) as i64).div_euclid(HeartbeatTimes::PERIOD_MS);
            for (from, to) in [(0_usize, 1_usize), (1, 0)] {
                let mut sent = 2000.0 * random.uniform();
                while sent < f64::from(self.seconds) * 1e3 {
                    let came = sent + 0.2 + self.way_ms * random.uniform();
                    let replied = came + 0.2 + self.way_ms * random.uniform();
                    for (member, other, ms) in [(from, to, replied), (to, from, came)] {
                        let peers = members[member].periods.entry(period(ms)).or_default();
                        for (of, delay) in [(member, 0.0), (other, 100.0)] {
                            let times = peers.entry(of as i64).or_default();
                            // A member shows what it applied itself in its next sample, and what the other did a little later.
                            let late = delay + 250.0 * random.uniform();
                            let age = (late + if member == 1 { self.offset_at(ms) } else { 0.0 }) as i64;
                            times.applied_age_ms = Some(times.applied_age_ms.map_or(age, |one| one.min(age)));
                        }
                        let times = peers.entry(other as i64).or_default();
                        let list =
                            if member == from { &mut times.replies_ms } else { &mut times.requests_ms };
                        list.push(clock(member, ms));
                    }
                    sent = replied + 2000.0;
                }
            }
            members
        }
    }

    fn steady(base_ms: f64, way_ms: f64, seconds: u32) -> MemberPair {
        MemberPair { offset_ms: |_| 0.0, base_ms, way_ms, seconds }
    }

    #[test]
    fn a_known_offset_lies_within_the_bounds() {
        for seed in 0..200 {
            let mut random = SeededRandom::from_seed(seed);
            // Also whole multiples of the interval, at which other heartbeats match as well.
            let base_ms = match seed % 4 {
                0 => 2000.0 * (seed as f64 - 100.0),
                _ => 600_000.0 * (2.0 * random.uniform() - 1.0),
            };
            let way_ms = 0.2 + 20.0 * random.uniform();
            let [first, second] = steady(base_ms, way_ms, 600).recorded(&mut random);
            let found = ClockOffset::between(&first, &second).unwrap();
            assert!(found.min_ms as f64 <= base_ms && base_ms <= found.max_ms as f64, "{base_ms}: {found:?}");
            assert!((found.max_ms - found.min_ms) as f64 <= 0.5 * way_ms + 5.0, "{found:?}, {way_ms}");
            let back = ClockOffset::between(&second, &first).unwrap();
            assert!((back.min_ms + found.max_ms).abs() <= 2 && (back.max_ms + found.min_ms).abs() <= 2);
        }
    }

    #[test]
    fn bounds_cover_a_clock_that_drifts_or_is_set() {
        let mut random = SeededRandom::from_seed(1);
        // 30 parts in a million.
        let drift = MemberPair { offset_ms: |seconds| 0.03 * seconds, ..steady(0.0, 1.0, 3600) };
        let [first, second] = drift.recorded(&mut random);
        let found = ClockOffset::between(&first, &second).unwrap();
        assert!(found.min_ms < 5 && found.max_ms > 100, "{found:?}");
        let set = MemberPair {
            offset_ms: |seconds| if seconds < 1800.0 { 0.0 } else { -7000.0 },
            ..steady(0.0, 1.0, 3600)
        };
        let [first, second] = set.recorded(&mut random);
        let found = ClockOffset::between(&first, &second).unwrap();
        assert!((-7010..=-7000).contains(&found.min_ms) && (0..10).contains(&found.max_ms), "{found:?}");
    }

    #[test]
    fn recordings_that_do_not_say_have_no_offset() {
        let mut random = SeededRandom::from_seed(2);
        let [first, second] = steady(5.0, 1.0, 600).recorded(&mut random);
        assert!(ClockOffset::between(&first, &second).is_some());
        assert_eq!(ClockOffset::between(&first, &first), None);
        assert_eq!(ClockOffset::between(&first, &HeartbeatTimes::default()), None);
        let other = HeartbeatTimes { interval_ms: Some(500), ..second };
        assert_eq!(ClockOffset::between(&first, &other), None);
        let [first, second] = steady(5.0, 1.0, 15).recorded(&mut random);
        assert_eq!(ClockOffset::between(&first, &second), None);
    }
}
