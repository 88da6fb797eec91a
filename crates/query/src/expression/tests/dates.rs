//! Tests of dates: parts, text, zones.

use bson::{Bson, DateTime, bson};

use super::{MOMENT, check, check_codes};

fn date(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}

#[test]
fn dates_have_parts() {
    check(&[
        (bson!({ "$year": "$date" }), bson!(2017)),
        (bson!({ "$month": "$date" }), bson!(6)),
        (bson!({ "$dayOfMonth": ["$date"] }), bson!(19)),
        (bson!({ "$dayOfWeek": "$date" }), bson!(2)),
        (bson!({ "$dayOfYear": "$date" }), bson!(170)),
        (bson!({ "$hour": { "date": "$date", "timezone": "+09:30" } }), bson!(0)),
        (bson!({ "$dayOfMonth": { "date": "$date", "timezone": "+0930" } }), bson!(20)),
        (bson!({ "$hour": { "date": "$date", "timezone": "UTC" } }), bson!(15)),
        (bson!({ "$minute": "$date" }), bson!(13)),
        (bson!({ "$second": "$date" }), bson!(25)),
        (bson!({ "$millisecond": "$date" }), bson!(713)),
        (bson!({ "$week": "$date" }), bson!(25)),
        (bson!({ "$isoWeek": "$date" }), bson!(25)),
        (bson!({ "$isoWeekYear": "$date" }), bson!(2017_i64)),
        (bson!({ "$isoDayOfWeek": "$date" }), bson!(1)),
        (bson!({ "$year": "$null" }), Bson::Null),
        (bson!({ "$year": { "date": "$date", "timezone": null } }), Bson::Null),
        (
            bson!({ "$dateToParts": { "date": "$date" } }),
            bson!({ "year": 2017, "month": 6, "day": 19, "hour": 15, "minute": 13, "second": 25, "millisecond": 713 }),
        ),
        (
            bson!({ "$dateToParts": { "date": "$date", "iso8601": true } }),
            bson!({ "isoWeekYear": 2017, "isoWeek": 25, "isoDayOfWeek": 1, "hour": 15, "minute": 13, "second": 25, "millisecond": 713 }),
        ),
        (
            bson!({ "$dateFromParts": { "year": 2017, "month": 6, "day": 19, "hour": 15, "minute": 13, "second": 25, "millisecond": 713 } }),
            date(MOMENT),
        ),
        (bson!({ "$dateFromParts": { "year": 2017, "month": 14, "day": 0 } }), date(1_517_356_800_000)),
        (
            bson!({ "$dateFromParts": { "isoWeekYear": 2017, "isoWeek": 25, "hour": 1, "timezone": "+01" } }),
            date(1_497_830_400_000),
        ),
        (bson!({ "$dateFromParts": { "year": null } }), Bson::Null),
    ]);
}

#[test]
fn dates_are_written_and_read() {
    check(&[
        (bson!({ "$dateToString": { "date": "$date" } }), bson!("2017-06-19T15:13:25.713Z")),
        (
            bson!({ "$dateToString": { "date": "$date", "format": "%d/%m/%Y %H:%M:%S.%L %j %u %U %V %w %G %z %Z %%", "timezone": "-01:30" } }),
            bson!("19/06/2017 13:43:25.713 170 1 25 25 2 2017 -0130 -90 %"),
        ),
        (bson!({ "$dateToString": { "date": null, "onNull": "?" } }), bson!("?")),
        (bson!({ "$dateToString": { "date": "$nothing" } }), Bson::Null),
        (bson!({ "$dateFromString": { "dateString": "2017-06-19T15:13:25.713Z" } }), date(MOMENT)),
        (bson!({ "$dateFromString": { "dateString": "2017-06-19T16:13:25.713+01:00" } }), date(MOMENT)),
        (bson!({ "$dateFromString": { "dateString": "2017-06-19" } }), date(1_497_830_400_000)),
        (
            bson!({ "$dateFromString": { "dateString": "2017-06-19 01:00", "timezone": "+01:00" } }),
            date(1_497_830_400_000),
        ),
        (
            bson!({ "$dateFromString": { "dateString": "19.06.2017", "format": "%d.%m.%Y" } }),
            date(1_497_830_400_000),
        ),
        (bson!({ "$dateFromString": { "dateString": "x", "onError": 1 } }), bson!(1)),
        (bson!({ "$dateFromString": { "dateString": null, "onNull": 2 } }), bson!(2)),
    ]);
}

#[test]
fn dates_are_refused_where_they_do_not_fit() {
    check_codes(&[
        (bson!({ "$year": "x" }), 16006),
        (bson!({ "$year": { "timezone": "UTC" } }), 40539),
        (bson!({ "$year": { "date": "$date", "x": 1 } }), 40535),
        (bson!({ "$year": { "date": "$date", "timezone": 1 } }), 40533),
        (bson!({ "$year": { "date": "$date", "timezone": "Europe/Berlin" } }), 40485),
        (bson!({ "$dateToString": 1 }), 18629),
        (bson!({ "$dateToString": { "format": "%Y" } }), 18628),
        (bson!({ "$dateToString": { "date": "$date", "format": 1 } }), 18533),
        (bson!({ "$dateToString": { "date": "$date", "x": 1 } }), 18534),
        (bson!({ "$dateToString": { "date": "$date", "format": "%" } }), 18535),
        (bson!({ "$dateToString": { "date": "$date", "format": "%q" } }), 18536),
        (bson!({ "$dateToString": { "date": { "$literal": date(i64::MAX) } } }), 18537),
        (bson!({ "$dateFromString": 1 }), 40540),
        (bson!({ "$dateFromString": { "x": 1 } }), 40541),
        (bson!({ "$dateFromString": { "format": "x" } }), 40542),
        (bson!({ "$dateFromString": { "dateString": 1 } }), 241),
        (bson!({ "$dateFromString": { "dateString": "2017-02-30" } }), 241),
        (bson!({ "$dateFromString": { "dateString": "last friday" } }), 241),
        (bson!({ "$dateFromString": { "dateString": "2017-06-19T15:13:25Z", "timezone": "+01" } }), 241),
        (bson!({ "$dateFromString": { "dateString": "x", "format": 1 } }), 40684),
        (bson!({ "$dateFromParts": 1 }), 40519),
        (bson!({ "$dateFromParts": { "month": 1 } }), 40516),
        (bson!({ "$dateFromParts": { "year": 1, "isoWeek": 1 } }), 40489),
        (bson!({ "$dateFromParts": { "year": "x" } }), 40515),
        (bson!({ "$dateFromParts": { "year": 0 } }), 40523),
        (bson!({ "$dateFromParts": { "year": 1, "day": 99999 } }), 31034),
        (bson!({ "$dateFromParts": { "year": 1, "x": 99999 } }), 40518),
        (bson!({ "$dateToParts": 1 }), 40524),
        (bson!({ "$dateToParts": { "date": "$date", "iso8601": 1 } }), 40521),
    ]);
}
