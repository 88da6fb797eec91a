//! Time zones: UTC and fixed offsets.
//!
//! Olson names other than UTC's are refused (40485): their rules need a database that the server does not carry.

use super::value::Value;
use crate::{Code, Failure, Result};

/// Minutes east of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) minutes: i64,
}

impl Zone {
    /// Milliseconds east of UTC.
    pub(super) fn millis(self) -> i64 {
        self.minutes * 60_000
    }

    /// A zone by its name or offset.
    pub(super) fn parse(text: &str) -> Result<Zone> {
        if matches!(
            text,
            "UTC" | "GMT" | "Etc/UTC" | "Etc/GMT" | "Etc/UCT" | "UCT" | "Zulu" | "Etc/Zulu" | "Z"
        ) {
            return Ok(Zone::default());
        }
        if let Some(zone) = zone_offset(text) {
            return Ok(zone);
        }
        let mut message = format!("unrecognized time zone identifier: \"{text}\"");
        if text.contains('/') {
            message.push_str("; this server knows UTC and fixed offsets such as \"+02:00\"");
        }
        Err(Failure::new(Code(40485), message))
    }

    /// The zone of an argument: UTC without one, `None` if it is null.
    pub(super) fn from_argument(name: &str, value: Option<&Value<'_>>) -> Result<Option<Zone>> {
        let Some(value) = value else { return Ok(Some(Zone::default())) };
        if value.is_nullish() {
            return Ok(None);
        }
        match value.as_str() {
            Some(text) => Zone::parse(text).map(Some),
            None => {
                let (kind, shown) = (value.type_name(), super::show::show(value));
                let message = format!(
                    "{name} requires a string for the timezone argument, but was given a {kind} ({shown})"
                );
                Err(Failure::new(Code(40533), message))
            }
        }
    }
}

/// `+hh`, `+hhmm` or `+hh:mm`.
pub(super) fn zone_offset(text: &str) -> Option<Zone> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':').filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    Some(Zone { minutes: sign * (number(hours)? * 60 + number(minutes)?) })
}
