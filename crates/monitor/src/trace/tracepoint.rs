//! The tracepoints of block requests: their numbers and the offsets of their fields, read from the running kernel's `format`
//! files, because both differ between kernels (the letters of `rwbs` are 8 bytes on older ones and 10 today).

use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use super::perf_event::own_mounts;

/// A stretch of bytes in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordField {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    pub(crate) id: u64,
    /// The device's number, major in the upper 12 bits.
    pub(crate) device: RecordField,
    pub(crate) sector: RecordField,
    pub(crate) sectors: RecordField,
    /// The kind of request, in letters.
    pub(crate) letters: RecordField,
}

/// The three tracepoints of a request: queued, issued to the driver, and completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoints {
    pub(crate) queue: Tracepoint,
    pub(crate) issue: Tracepoint,
    pub(crate) complete: Tracepoint,
}

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracepoints {
    /// Reads them from a mounted tracefs, else through a mount that only a short-lived thread of this process sees.
    ///
    /// # Errors When they may not be read, or the kernel has no such tracepoints.
    pub(crate) fn find() -> Result<Tracepoints> {
        if let Some(place) = PLACES.iter().find(|place| Path::new(place).join("events").exists()) {
            return Tracepoints::read(Path::new(place));
        }
        std::thread::spawn(Tracepoints::find_with_own_mounts)
            .join()
            .unwrap_or_else(|_| Err(Error::new(Kind::Unsupported, "cannot look for tracefs")))
    }

    /// To be called only in a thread that ends afterwards.
    fn find_with_own_mounts() -> Result<Tracepoints> {
        let [place, _] = PLACES;
        let refused = |e: std::io::Error| {
            Error::io("mount tracefs at", place, e)
                .advise("run as root, or mount it: mount -t tracefs tracefs /sys/kernel/tracing")
        };
        own_mounts().map_err(refused)?;
        // Mounts below must not be visible outside.
        let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", flags).map_err(|e| refused(e.into()))?;
        match mount("tracefs", place, "tracefs", MountFlags::empty(), None) {
            // It is mounted there already.
            Ok(()) | Err(rustix::io::Errno::BUSY) => Tracepoints::read(Path::new(place)),
            Err(e) => Err(refused(e.into())),
        }
    }

    fn read(place: &Path) -> Result<Tracepoints> {
        let point = |name: &str| {
            let path = place.join("events/block").join(name).join("format");
            let text = fs::read_to_string(&path)
                .map_err(|e| Error::io("read", &path, e).advise("run as root to trace block requests"))?;
            parse(&text).ok_or_else(|| {
                Error::new(Kind::Malformed, format!("{} lacks a field that is needed", path.display()))
            })
        };
        Ok(Tracepoints {
            queue: point("block_bio_queue")?,
            issue: point("block_rq_issue")?,
            complete: point("block_rq_complete")?,
        })
    }
}

/// Parses a `format` file.
pub(crate) fn parse(text: &str) -> Option<Tracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
    let field = |name: &str| text.lines().find_map(|line| parse_field(line, name));
    Some(Tracepoint {
        id,
        device: field("dev").filter(|field| field.bytes == 4)?,
        sector: field("sector").filter(|field| field.bytes == 8)?,
        sectors: field("nr_sector").filter(|field| field.bytes == 4)?,
        letters: field("rwbs").filter(|field| (1..=64).contains(&field.bytes))?,
    })
}

/// `field:sector_t sector; offset:16; size:8; signed:0;`, with tabs between.
fn parse_field(line: &str, name: &str) -> Option<RecordField> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?.rsplit(char::is_whitespace).next()?;
    if declared.split('[').next() != Some(name) {
        return None;
    }
    let (mut offset, mut bytes) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => bytes = value.parse().ok(),
            _ => {}
        }
    }
    // A record is shorter than 64 KiB, as its length has 16 bits.
    Some(RecordField { offset: offset.filter(|offset| *offset < 1 << 16)?, bytes: bytes? })
}

#[cfg(test)]
mod tests {
    use fathom_testkit::{Need, OrSkip, assert_eq, need_root, test};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "name: block_rq_issue\nID: 2104\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";
        let point = parse(text).unwrap();
        assert_eq!(point.id, 2104);
        assert_eq!(point.device, RecordField { offset: 8, bytes: 4 });
        assert_eq!(point.letters, RecordField { offset: 34, bytes: 10 });
        assert_eq!(parse(&text.replace("size:8", "size:4")), None);
    }

    #[test]
    fn a_mount_of_our_own_shows_the_same() {
        need_root();
        let seen = Tracepoints::find().or_skip(Need::Kernel);
        let own = std::thread::spawn(Tracepoints::find_with_own_mounts).join().unwrap();
        assert_eq!(own.unwrap(), seen);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(ID: [0-9]{1,22}\n)?(\tfield:|dev_t dev|char rwbs\\[8\\]|;|offset:|size:|[0-9]{1,21}|\n|.){0,30}") {
            parse(&text);
        }
    }
}
