//! The proleptic Gregorian calendar for every date that BSON can hold (292 million years in either direction).
//!
//! Days are counted from 1970-01-01; a year begins in March here, so that the leap day is its last.

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Days of four centuries, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// A moment by its fields, without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalendarTime {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) millisecond: i64,
    /// The day, counted from 1970-01-01.
    pub(crate) days: i64,
}

/// The fields of a moment.
pub(crate) fn fields(millis: i64) -> CalendarTime {
    let days = millis.div_euclid(DAY_MS);
    let time = millis.rem_euclid(DAY_MS);
    let (year, month, day) = date(days);
    CalendarTime {
        year,
        month,
        day,
        hour: time / 3_600_000,
        minute: time / 60_000 % 60,
        second: time / 1000 % 60,
        millisecond: time % 1000,
        days,
    }
}

/// The date of a day.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + EPOCH_DAYS;
    let era = shifted.div_euclid(ERA_DAYS);
    let day = shifted.rem_euclid(ERA_DAYS);
    // 1460 days are four years, 36524 a century without its fourth leap day.
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, months of 31, 30, 31, 30, 31 days repeat: 153 days for five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day of a date. Months and days beyond their range carry over.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_DAYS + day - 1
}

/// Monday 1 to Sunday 7.
pub(crate) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The day of the year, from 1.
pub(crate) fn day_of_year(moment: &CalendarTime) -> i64 {
    moment.days - days(moment.year, 1, 1) + 1
}

/// Weeks that begin on Sunday; days before the first Sunday are in week 0.
pub(crate) fn week(moment: &CalendarTime) -> i64 {
    let sunday_based = iso_weekday(moment.days) % 7;
    (day_of_year(moment) + 6 - sunday_based) / 7
}

/// The ISO 8601 year and week: the week of a day is the week of its Thursday.
pub(crate) fn iso_week(moment: &CalendarTime) -> (i64, i64) {
    let thursday = moment.days - iso_weekday(moment.days) + 4;
    let (year, _, _) = date(thursday);
    (year, (thursday - days(year, 1, 1)) / 7 + 1)
}

/// The day of an ISO 8601 week date; weeks and days beyond their range carry over.
pub(crate) fn iso_days(year: i64, week: i64, weekday: i64) -> i64 {
    let fourth = days(year, 1, 4);
    fourth - iso_weekday(fourth) + 1 + (week - 1) * 7 + weekday - 1
}

/// The text `2026-11-21T12:00:00.000Z` of a time.
pub(crate) fn iso_text(millis: i64) -> String {
    let CalendarTime { year, month, day, hour, minute, second, millisecond, .. } = fields(millis);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_thousand_years_goes_there_and_back() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for number in days(1600, 1, 1)..days(2600, 1, 1) {
            assert_eq!(date(number), (year, month, day));
            assert_eq!(days(year, month, day), number);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, last) if last == length => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn weeks_follow_iso_8601() {
        for (date, expected) in [
            ((2005, 1, 1), (2004, 53)),
            ((2007, 1, 1), (2007, 1)),
            ((2008, 12, 29), (2009, 1)),
            ((2010, 1, 3), (2009, 53)),
            ((2026, 11, 21), (2026, 47)),
        ] {
            let moment = fields(days(date.0, date.1, date.2) * DAY_MS);
            assert_eq!(iso_week(&moment), expected, "{date:?}");
            assert_eq!(iso_days(expected.0, expected.1, iso_weekday(moment.days)), moment.days);
        }
    }

    #[test]
    fn the_ends_of_time_have_fields() {
        assert_eq!(iso_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_text(-1), "1969-12-31T23:59:59.999Z");
        for millis in [i64::MIN, i64::MAX] {
            let moment = fields(millis);
            assert_eq!(moment.days, days(moment.year, moment.month, moment.day));
        }
    }
}
