//! Times as status lines have them: the wall clock, and how long a run still takes.

use std::time::{Duration, SystemTime};

use jiff::{Timestamp, Zoned, tz::TimeZone};

/// What YCSB's status thread shows while nothing was done yet: Java's largest number of seconds.
const NEVER_S: u64 = i64::MAX as u64;

const DAY_S: u64 = 86_400;
const HOUR_S: u64 = 3_600;
const MINUTE_S: u64 = 60;

/// A moment as `yyyy-MM-dd HH:mm:ss:SSS`, in the local time zone.
pub fn wall_clock(moment: SystemTime) -> String {
    // A clock beyond the calendar's years is a broken one; its lines still have a time.
    let moment = Timestamp::try_from(moment).unwrap_or_default();
    zoned(&moment.to_zoned(TimeZone::system()))
}

fn zoned(moment: &Zoned) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S:%3f").to_string()
}

/// Seconds that the operations left will take at the rate so far, rounded up; without any done, longer than anyone waits. None if
/// nothing is left.
pub fn seconds_left(operations: u64, left: u64, elapsed: Duration) -> Option<u64> {
    match (operations, left) {
        (_, 0) => None,
        (0, _) => Some(NEVER_S),
        _ => {
            let seconds = left as f64 * elapsed.as_secs_f64() / operations as f64;
            Some((seconds.ceil() as u64).min(NEVER_S))
        }
    }
}

/// Seconds in words, as YCSB rounds them: days and hours, hours and minutes, or seconds, of which any single digit is singular.
pub fn eta(seconds: u64) -> String {
    let (days, hours) = (seconds / DAY_S, seconds % DAY_S / HOUR_S);
    let minutes = if days == 0 { seconds % HOUR_S / MINUTE_S } else { 0 };
    let parts = [(days, "day"), (hours, "hour"), (minutes, "minute")];
    let counted = |(count, unit): (u64, &str)| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    let words: Vec<String> = parts.into_iter().filter(|(count, _)| *count > 0).map(counted).collect();
    if words.is_empty() {
        let unit = if seconds < 10 { "second" } else { "seconds" };
        return format!("{seconds} {unit}");
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_in_words() {
        for (seconds, words) in [
            (0, "0 second"),
            (1, "1 second"),
            (9, "9 second"),
            (10, "10 seconds"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (3_599, "59 minutes"),
            (3_600, "1 hour"),
            (7_325, "2 hours 2 minutes"),
            (86_400, "1 day"),
            (86_400 + 59 * 60, "1 day"),
            (2 * 86_400 + 3_600, "2 days 1 hour"),
            (NEVER_S, "106751991167300 days 15 hours"),
        ] {
            assert_eq!(eta(seconds), words);
        }
    }

    #[test]
    fn the_rest_follows_from_the_rate() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(seconds_left(0, 5, elapsed), Some(NEVER_S));
        assert_eq!(seconds_left(1000, 0, elapsed), None);
        assert_eq!(seconds_left(1000, 101, elapsed), Some(2));
        assert_eq!(seconds_left(1, u64::MAX, Duration::MAX), Some(NEVER_S));
    }

    #[test]
    fn moments_have_milliseconds_behind_a_colon() {
        let moment = Timestamp::from_millisecond(1_700_000_000_007).unwrap().to_zoned(TimeZone::UTC);
        assert_eq!(zoned(&moment), "2023-11-14 22:13:20:007");
        assert_eq!(wall_clock(SystemTime::now()).len(), "2023-11-14 22:13:20:007".len());
    }
}
