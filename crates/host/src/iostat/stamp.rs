//! Dates and the head line in the forms that sysstat prints in the C locale, or ISO 8601 on request.

use jiff::Zoned;

use crate::View;
use crate::environment::cpu_count;

/// A moment as text, in the local time zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The date for the head line.
    pub date: String,
    /// Date and time for `-t`.
    pub timestamp: String,
}

impl Stamp {
    /// Now; `iso` is what `S_TIME_FORMAT=ISO` asks for.
    pub fn now(iso: bool) -> Self {
        Stamp::of(&Zoned::now(), iso)
    }

    fn of(time: &Zoned, iso: bool) -> Self {
        let (date, timestamp) =
            if iso { ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z") } else { ("%m/%d/%y", "%m/%d/%y %H:%M:%S") };
        Stamp { date: time.strftime(date).to_string(), timestamp: time.strftime(timestamp).to_string() }
    }
}

/// What the first line says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The kernel's version.
    pub release: String,
    /// The host's name.
    pub nodename: String,
    /// The hardware's name (`x86_64`).
    pub machine: String,
    /// How many CPUs exist.
    pub cpus: usize,
    /// The date.
    pub date: String,
}

impl Header {
    /// Reads the running machine's.
    pub fn read(view: &View, stamp: &Stamp) -> Self {
        let setting = |name: &str| view.value(&format!("proc/sys/kernel/{name}")).unwrap_or_default();
        Header {
            release: setting("osrelease"),
            nodename: setting("hostname"),
            machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
            cpus: cpu_count(view).unwrap_or(1),
            date: stamp.date.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let time = jiff::Timestamp::from_second(1_700_000_000).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        let plain = Stamp::of(&time, false);
        assert_eq!((plain.date.as_str(), plain.timestamp.as_str()), ("11/14/23", "11/14/23 22:13:20"));
        assert_eq!(Stamp::of(&time, true).timestamp, "2023-11-14T22:13:20+0000");
    }
}
