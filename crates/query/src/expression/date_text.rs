//! Operators for dates as text: `$dateToString: {date, format, timezone, onNull}` and
//! `$dateFromString: {dateString, format, timezone, onError, onNull}`.
//!
//! Without a format the second reads ISO 8601 dates with or without a time and a zone; the looser forms that MongoDB also
//! recognises ("last friday", month names) are refused as text that is not a date (241).

use std::fmt::Write;

use bson::{Bson, DateTime};

use super::calendar::{self, CalendarTime, DAY_MS};
use super::date_parts::moment;
use super::show::show;
use super::value::{OperatorSignature, Value};
use super::zone::{Zone, zone_offset};
use crate::{Code, Failure, Result};

pub(super) static TO_STRING: OperatorSignature = OperatorSignature {
    not_object: 18629,
    unknown: 18534,
    members: &[("date", Some(18628)), ("format", None), ("timezone", None), ("onNull", None)],
};

pub(super) fn to_string<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let Ok([date, format, zone, on_null]) = <[Option<Value<'e>>; 4]>::try_from(values) else {
        return Ok(Value::NULL);
    };
    let format = match &format {
        None => None,
        Some(value) if value.is_nullish() => return Ok(Value::NULL),
        Some(value) => Some(value.as_str().ok_or_else(|| {
            let (kind, shown) = (value.type_name(), show(value));
            let message =
                format!("$dateToString requires that 'format' be a string, found: {kind} with value {shown}");
            Failure::new(Code(18533), message)
        })?),
    };
    if let Some(format) = format {
        check_format(format)?;
    }
    if date.as_ref().is_none_or(Value::is_nullish) {
        return Ok(on_null.unwrap_or(Value::NULL));
    }
    let Some((moment, zone)) = moment(name, date.as_ref(), zone.as_ref())? else { return Ok(Value::NULL) };
    let default = if zone.minutes == 0 { "%Y-%m-%dT%H:%M:%S.%LZ" } else { "%Y-%m-%dT%H:%M:%S.%L" };
    write(format.unwrap_or(default), &moment, zone).map(|text| Value::Own(Bson::String(text)))
}

/// Refuses a format with an unknown letter.
fn check_format(format: &str) -> Result<()> {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.next() {
            Some(
                'd' | 'G' | 'H' | 'j' | 'L' | 'm' | 'M' | 'S' | 'u' | 'U' | 'V' | 'w' | 'Y' | 'z' | 'Z' | '%',
            ) => {}
            Some(other) => {
                let message = format!("Invalid format character '%{other}' in format string");
                return Err(Failure::new(Code(18536), message));
            }
            None => return Err(Failure::new(Code(18535), "Unmatched '%' at end of format string")),
        }
    }
    Ok(())
}

fn write(format: &str, moment: &CalendarTime, zone: Zone) -> Result<String> {
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match letters.next() {
            Some('d') => write!(text, "{:02}", moment.day),
            Some('G') => write!(text, "{:04}", year(calendar::iso_week(moment).0)?),
            Some('H') => write!(text, "{:02}", moment.hour),
            Some('j') => write!(text, "{:03}", calendar::day_of_year(moment)),
            Some('L') => write!(text, "{:03}", moment.millisecond),
            Some('m') => write!(text, "{:02}", moment.month),
            Some('M') => write!(text, "{:02}", moment.minute),
            Some('S') => write!(text, "{:02}", moment.second),
            Some('u') => write!(text, "{}", calendar::iso_weekday(moment.days)),
            Some('U') => write!(text, "{:02}", calendar::week(moment)),
            Some('V') => write!(text, "{:02}", calendar::iso_week(moment).1),
            Some('w') => write!(text, "{}", calendar::iso_weekday(moment.days) % 7 + 1),
            Some('Y') => write!(text, "{:04}", year(moment.year)?),
            Some('z') => {
                let sign = if zone.minutes < 0 { '-' } else { '+' };
                write!(text, "{sign}{:02}{:02}", zone.minutes.abs() / 60, zone.minutes.abs() % 60)
            }
            Some('Z') => write!(text, "{:+}", zone.minutes),
            _ => write!(text, "%"),
        };
    }
    Ok(text)
}

fn year(year: i64) -> Result<i64> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    let message = format!(
        "Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
    );
    Err(Failure::new(Code(18537), message))
}

pub(super) static FROM_STRING: OperatorSignature = OperatorSignature {
    not_object: 40540,
    unknown: 40541,
    members: &[
        ("dateString", Some(40542)),
        ("format", None),
        ("timezone", None),
        ("onError", None),
        ("onNull", None),
    ],
};

pub(super) fn from_string<'e>(name: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let Ok([text, format, zone, on_error, on_null]) = <[Option<Value<'e>>; 5]>::try_from(values) else {
        return Ok(Value::NULL);
    };
    let text = text.unwrap_or(Value::Missing);
    let format = match &format {
        None => None,
        Some(value) if value.is_nullish() => return Ok(Value::NULL),
        Some(value) => Some(value.as_str().ok_or_else(|| {
            let message = format!("{name} requires that 'format' be a string, found: {}", value.type_name());
            Failure::new(Code(40684), message)
        })?),
    };
    if let Some(format) = format {
        check_format(format)?;
    }
    if text.is_nullish() {
        return Ok(on_null.unwrap_or(Value::NULL));
    }
    let given = zone.is_some();
    let Some(zone) = Zone::from_argument(name, zone.as_ref())? else { return Ok(Value::NULL) };
    let zone = given.then_some(zone);
    let parsed = match (text.as_str(), format) {
        (None, _) => {
            let message = format!(
                "{name} requires that 'dateString' be a string, found: {} with value {}",
                text.type_name(),
                show(&text)
            );
            Err(Failure::new(Code::ConversionFailure, message))
        }
        (Some(text), None) => free_form(text, zone),
        (Some(text), Some(format)) => by_format(text, format, zone),
    };
    match (parsed, on_error) {
        (Err(failure), Some(instead)) if failure.code() == Code::ConversionFailure => Ok(instead),
        (result, _) => result.map(|millis| Value::Own(Bson::DateTime(DateTime::from_millis(millis)))),
    }
}

fn unreadable(text: &str, why: &str) -> Failure {
    Failure::new(Code::ConversionFailure, format!("Error parsing date string '{text}'; {why}"))
}

/// The parts of a date that were read so far.
#[derive(Default)]
struct DateParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso: [Option<i64>; 3],
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    zone: Option<Zone>,
}

impl DateParts {
    /// The moment, if its fields are in range and determine a day.
    fn millis(&self, text: &str, given: Option<Zone>) -> Result<i64> {
        if self.zone.is_some() && given.is_some() {
            let why = "you cannot pass in a date/time string with time zone information together with a timezone argument";
            return Err(unreadable(text, why));
        }
        let invalid = || unreadable(text, "The parsed date was invalid");
        let days = match (self.year, self.iso) {
            (Some(year), _) => {
                let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
                let days = calendar::days(year, month, day);
                let moment = calendar::fields(days * DAY_MS);
                if (moment.year, moment.month, moment.day) != (year, month, day) {
                    return Err(invalid());
                }
                self.day_of_year.map_or(days, |day| calendar::days(year, 1, 1) + day - 1)
            }
            (None, [Some(year), week, day]) => calendar::iso_days(year, week.unwrap_or(1), day.unwrap_or(1)),
            _ => return Err(unreadable(text, "an incomplete date/time string has been found")),
        };
        if self.hour > 24 || self.minute > 59 || self.second > 60 {
            return Err(invalid());
        }
        let time = ((self.hour * 60 + self.minute) * 60 + self.second) * 1000 + self.millisecond;
        Ok(days * DAY_MS + time - self.zone.or(given).unwrap_or_default().millis())
    }
}

/// Reads digits from a text.
struct DateTextReader<'t> {
    rest: &'t str,
}

impl<'t> DateTextReader<'t> {
    /// A number of at least `least` and at most `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let digits = self.rest.get(..count).filter(|_| count >= least)?;
        self.rest = self.rest.get(count..)?;
        digits.parse().ok()
    }

    fn eat(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads the digits after the point; only three count.
    fn millisecond(&mut self) -> Option<i64> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = self.rest.get(..count).filter(|_| count > 0)?;
        self.rest = self.rest.get(count..)?;
        format!("{digits:0<3}").get(..3)?.parse().ok()
    }

    /// `Z`, `UTC` or an offset.
    fn zone(&mut self) -> Option<Zone> {
        for name in ["UTC", "GMT", "Z", "z"] {
            if let Some(rest) = self.rest.strip_prefix(name) {
                self.rest = rest;
                return Some(Zone::default());
            }
        }
        let length =
            self.rest.bytes().take_while(|byte| byte.is_ascii_digit() || b"+-:".contains(byte)).count();
        let zone = zone_offset(self.rest.get(..length)?)?;
        self.rest = self.rest.get(length..)?;
        Some(zone)
    }
}

/// An ISO 8601 date in milliseconds; `given` is the zone of a text that names none.
pub(super) fn free_form(text: &str, given: Option<Zone>) -> Result<i64> {
    let mut reader = DateTextReader { rest: text.trim() };
    let parts = iso_8601(&mut reader).filter(|_| reader.rest.is_empty());
    parts.ok_or_else(|| unreadable(text, "it is not an ISO 8601 date"))?.millis(text, given)
}

fn iso_8601(reader: &mut DateTextReader<'_>) -> Option<DateParts> {
    let mut parts = DateParts { year: Some(reader.number(4, 4)?), ..DateParts::default() };
    let dashes = reader.eat('-');
    parts.month = Some(reader.number(if dashes { 1 } else { 2 }, 2)?);
    if dashes && !reader.eat('-') {
        return None;
    }
    parts.day = Some(reader.number(if dashes { 1 } else { 2 }, 2)?);
    if reader.eat('T') || reader.eat('t') || reader.eat(' ') {
        parts.hour = reader.number(2, 2)?;
        let colons = reader.eat(':');
        parts.minute = reader.number(2, 2)?;
        if if colons { reader.eat(':') } else { reader.rest.starts_with(|c: char| c.is_ascii_digit()) } {
            parts.second = reader.number(2, 2)?;
            if reader.eat('.') || reader.eat(',') {
                parts.millisecond = reader.millisecond()?;
            }
        }
        reader.rest = reader.rest.trim_start();
    }
    if !reader.rest.is_empty() {
        parts.zone = Some(reader.zone()?);
    }
    Some(parts)
}

/// A date in the form that a format describes.
fn by_format(text: &str, format: &str, given: Option<Zone>) -> Result<i64> {
    let mut reader = DateTextReader { rest: text };
    let mut parts = DateParts::default();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        let read = if letter == '%' {
            letters.next().and_then(|letter| read_part(&mut reader, &mut parts, letter))
        } else {
            reader.eat(letter).then_some(())
        };
        if read.is_none() {
            return Err(unreadable(text, "the format does not match"));
        }
    }
    if !reader.rest.is_empty() {
        return Err(unreadable(text, "Trailing data"));
    }
    parts.millis(text, given)
}

fn read_part(reader: &mut DateTextReader<'_>, parts: &mut DateParts, letter: char) -> Option<()> {
    let [iso_year, iso_week, iso_day] = &mut parts.iso;
    match letter {
        'Y' => parts.year = Some(reader.number(4, 4)?),
        'm' => parts.month = Some(reader.number(1, 2)?),
        'd' => parts.day = Some(reader.number(1, 2)?),
        'j' => parts.day_of_year = Some(reader.number(1, 3)?),
        'H' => parts.hour = reader.number(1, 2)?,
        'M' => parts.minute = reader.number(1, 2)?,
        'S' => parts.second = reader.number(1, 2)?,
        'L' => parts.millisecond = reader.number(1, 3)?,
        'G' => *iso_year = Some(reader.number(4, 4)?),
        'V' => *iso_week = Some(reader.number(1, 2)?),
        'u' => *iso_day = Some(reader.number(1, 1)?),
        'z' => parts.zone = Some(reader.zone()?),
        'Z' => {
            let sign = if reader.eat('-') { -1 } else { i64::from(reader.eat('+')).max(1) };
            parts.zone = Some(Zone { minutes: sign * reader.number(1, 3)? });
        }
        '%' => reader.eat('%').then_some(())?,
        _ => return None,
    }
    Some(())
}
