//! Operators for the parts of dates: `$year` ... `$isoDayOfWeek`, `$dateToParts`, `$dateFromParts`.

use bson::{Bson, DateTime, RawBsonRef, doc};

use super::calendar::{self, CalendarTime, DAY_MS};
use super::node::ExpressionNode;
use super::number::Number;
use super::parse::Parser;
use super::show::show;
use super::value::{OperatorSignature, Value, malformed};
use super::zone::Zone;
use crate::{Code, Failure, Result};

/// A date operator: its argument is a date, an array of one, or `{date, timezone}`.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    if let RawBsonRef::Document(document) = value {
        let first = document.iter().next().transpose().map_err(malformed)?;
        if !first.is_some_and(|(key, _)| key.as_str().starts_with('$')) {
            let signature = OperatorSignature {
                not_object: 40539,
                unknown: 40535,
                members: &[("date", Some(40539)), ("timezone", None)],
            };
            return Ok(ExpressionNode::Named(name, part, parser.named(name, &signature, value)?));
        }
    }
    let [date] = parser.exactly(name, value)?;
    Ok(ExpressionNode::Named(name, part, vec![Some(date), None]))
}

/// The milliseconds of a value that can serve as a date; `None` for null.
pub(super) fn millis(value: &Value<'_>) -> Result<Option<i64>> {
    match value.as_raw() {
        Some(RawBsonRef::DateTime(moment)) => Ok(Some(moment.timestamp_millis())),
        Some(RawBsonRef::Timestamp(stamp)) => Ok(Some(i64::from(stamp.time) * 1000)),
        Some(RawBsonRef::ObjectId(id)) => Ok(Some(id.timestamp().timestamp_millis())),
        _ if value.is_nullish() => Ok(None),
        _ => Err(Failure::new(Code(16006), format!("can't convert from {} to Date", value.type_name()))),
    }
}

/// The fields of a date argument in a zone; `None` if either is null.
pub(super) fn moment(
    name: &str,
    date: Option<&Value<'_>>,
    zone: Option<&Value<'_>>,
) -> Result<Option<(CalendarTime, Zone)>> {
    let Some(zone) = Zone::from_argument(name, zone)? else { return Ok(None) };
    let Some(millis) = date.map_or(Ok(None), millis)? else { return Ok(None) };
    Ok(Some((calendar::fields(millis.saturating_add(zone.millis())), zone)))
}

fn part<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let [date, zone] = values.as_slice() else { return Ok(Value::NULL) };
    let Some((moment, _)) = moment(name, date.as_ref(), zone.as_ref())? else { return Ok(Value::NULL) };
    let number = match name {
        "$year" => moment.year,
        "$month" => moment.month,
        "$dayOfMonth" => moment.day,
        "$dayOfWeek" => calendar::iso_weekday(moment.days) % 7 + 1,
        "$dayOfYear" => calendar::day_of_year(&moment),
        "$hour" => moment.hour,
        "$minute" => moment.minute,
        "$second" => moment.second,
        "$millisecond" => moment.millisecond,
        "$week" => calendar::week(&moment),
        "$isoWeek" => calendar::iso_week(&moment).1,
        "$isoWeekYear" => return Ok(Value::Own(Bson::Int64(calendar::iso_week(&moment).0))),
        _ => calendar::iso_weekday(moment.days),
    };
    Ok(Value::Own(Number::integer(number).bson()))
}

pub(super) static TO_PARTS: OperatorSignature = OperatorSignature {
    not_object: 40524,
    unknown: 40520,
    members: &[("date", Some(40522)), ("timezone", None), ("iso8601", None)],
};

pub(super) fn to_parts<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let [date, zone, iso] = values.as_slice() else { return Ok(Value::NULL) };
    let iso = match iso.as_ref().map(|iso| (iso.as_raw(), iso)) {
        None => false,
        Some((Some(RawBsonRef::Boolean(iso)), _)) => iso,
        Some((_, iso)) if iso.is_nullish() => return Ok(Value::NULL),
        Some((_, iso)) => {
            let message = format!("{name} iso8601 must evaluate to a bool, found {}", iso.type_name());
            return Err(Failure::new(Code(40521), message));
        }
    };
    let Some((moment, _)) = moment(name, date.as_ref(), zone.as_ref())? else { return Ok(Value::NULL) };
    let number = |value: i64| Number::integer(value).bson();
    let mut parts = if iso {
        let (year, week) = calendar::iso_week(&moment);
        doc! {
            "isoWeekYear": number(year),
            "isoWeek": number(week),
            "isoDayOfWeek": number(calendar::iso_weekday(moment.days)),
        }
    } else {
        doc! { "year": number(moment.year), "month": number(moment.month), "day": number(moment.day) }
    };
    parts.extend(doc! {
        "hour": number(moment.hour),
        "minute": number(moment.minute),
        "second": number(moment.second),
        "millisecond": number(moment.millisecond),
    });
    Ok(Value::Own(Bson::Document(parts)))
}

pub(super) static FROM_PARTS: OperatorSignature = OperatorSignature {
    not_object: 40519,
    unknown: 40518,
    members: &[
        ("year", None),
        ("month", None),
        ("day", None),
        ("isoWeekYear", None),
        ("isoWeek", None),
        ("isoDayOfWeek", None),
        ("hour", None),
        ("minute", None),
        ("second", None),
        ("millisecond", None),
        ("timezone", None),
    ],
};

/// `$dateFromParts`; parts beyond their range carry over.
pub(super) fn from_parts<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let Ok(values) = <[Option<Value<'e>>; 11]>::try_from(values) else { return Ok(Value::NULL) };
    let [year, month, day, iso_year, iso_week, iso_day, hour, minute, second, millisecond, zone] = &values;
    let refuse = |code: i32, message: &'static str| Err(Failure::new(Code(code), message));
    let natural = year.is_some() || month.is_some() || day.is_some();
    let iso = iso_year.is_some() || iso_week.is_some() || iso_day.is_some();
    if year.is_none() && iso_year.is_none() {
        return refuse(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
    }
    if natural && iso {
        let code = if year.is_some() { 40489 } else { 40525 };
        return refuse(code, "$dateFromParts does not allow mixing natural dates with ISO dates");
    }
    let Some(zone) = Zone::from_argument(name, zone.as_ref())? else { return Ok(Value::NULL) };
    let (main, second_part, third_part) =
        if iso { (iso_year, iso_week, iso_day) } else { (year, month, day) };
    let names = if iso { ["isoWeekYear", "isoWeek", "isoDayOfWeek"] } else { ["year", "month", "day"] };
    let [main_name, second_name, third_name] = names;
    let parts = [
        part_of(main_name, main, 1)?,
        part_of(second_name, second_part, 1)?,
        part_of(third_name, third_part, 1)?,
        part_of("hour", hour, 0)?,
        part_of("minute", minute, 0)?,
        part_of("second", second, 0)?,
        part_of("millisecond", millisecond, 0)?,
    ];
    let [Some(main), Some(two), Some(three), Some(hour), Some(minute), Some(second), Some(millisecond)] =
        parts
    else {
        return Ok(Value::NULL);
    };
    let days = if iso { calendar::iso_days(main, two, three) } else { calendar::days(main, two, three) };
    let time = ((hour * 60 + minute) * 60 + second) * 1000 + millisecond;
    Ok(Value::Own(Bson::DateTime(DateTime::from_millis(days * DAY_MS + time - zone.millis()))))
}

/// A part of `$dateFromParts`; `None` for null. Years are 1 to 9999, the rest 16-bit integers.
fn part_of(name: &str, value: &Option<Value<'_>>, default: i64) -> Result<Option<i64>> {
    let Some(value) = value else { return Ok(Some(default)) };
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(number) = Number::from_value(value).and_then(Number::exact_long) else {
        let (kind, shown) = (value.type_name(), show(value));
        let message = format!("'{name}' must evaluate to an integer, found {kind} with value {shown}");
        return Err(Failure::new(Code(40515), message));
    };
    if name.ends_with("ear") {
        if !(1..=9999).contains(&number) {
            let message =
                format!("'{name}' must evaluate to an integer in the range 1 to 9999, found {number}");
            return Err(Failure::new(Code(40523), message));
        }
    } else if i16::try_from(number).is_err() {
        let message = format!(
            "'{name}' must evaluate to a value in the range [-32768, 32767]; value {number} is not in range"
        );
        return Err(Failure::new(Code(31034), message));
    }
    Ok(Some(number))
}
