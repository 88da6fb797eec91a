//! `$dateToString: {date, format, timezone, onNull}`.

use std::fmt::Write;

use bson::Bson;

use super::calendar::{self, Moment};
use super::date_parts::moment;
use super::operators::Signature;
use super::show::show;
use super::value::Value;
use super::zone::Zone;
use crate::{Code, Failure, Result};

/// What it takes.
pub(super) static SIGNATURE: Signature = Signature {
    not_object: 18629,
    unknown: 18534,
    members: &[("date", Some(18628)), ("format", None), ("timezone", None), ("onNull", None)],
};

/// `$dateToString`.
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
        check(format)?;
    }
    if date.as_ref().is_none_or(Value::is_nullish) {
        return Ok(on_null.unwrap_or(Value::NULL));
    }
    let Some((moment, zone)) = moment(name, date.as_ref(), zone.as_ref())? else { return Ok(Value::NULL) };
    let default = if zone.minutes == 0 { "%Y-%m-%dT%H:%M:%S.%LZ" } else { "%Y-%m-%dT%H:%M:%S.%L" };
    write(format.unwrap_or(default), &moment, zone).map(|text| Value::Own(Bson::String(text)))
}

/// Refuses a format with a letter that means nothing.
pub(super) fn check(format: &str) -> Result<()> {
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

fn write(format: &str, moment: &Moment, zone: Zone) -> Result<String> {
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
