//! Parses the bytes of a trace ring into events of block requests (the layout of records: perf_event_open(2)).
//!
//! A record that is too short for its fields, or of a kind that was not requested, is skipped.

use super::tracepoint::{RecordField, Tracepoint, Tracepoints};

/// The stage that a request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    Queued,
    Issued,
    Done,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Flush,
    /// Discards, zeroing and other kinds.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    /// The time of `CLOCK_MONOTONIC`, in nanoseconds.
    pub(crate) at_ns: u64,
    pub(crate) stage: RequestStage,
    /// The kernel's number of the device: 12 bits of major, 20 of minor.
    pub(crate) device: u32,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    pub(crate) operation: RequestKind,
}

const HEADER_BYTES: usize = 8;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// Adds the events in `bytes` to `events`, and returns the number of events that the kernel dropped for lack of space.
pub(crate) fn parse(mut bytes: &[u8], points: &Tracepoints, events: &mut Vec<TraceEvent>) -> u64 {
    let mut lost: u64 = 0;
    while let Some((kind, length)) = header(bytes) {
        // A length below that of the header would make no progress.
        let Some(record) = bytes.get(..length).filter(|_| length >= HEADER_BYTES) else { break };
        let body = record.get(HEADER_BYTES..).unwrap_or_default();
        match kind {
            RECORD_LOST => {
                lost = lost.saturating_add(number(body, RecordField { offset: 8, bytes: 8 }).unwrap_or(0))
            }
            RECORD_SAMPLE => events.extend(sample(body, points)),
            _ => {}
        }
        bytes = bytes.get(length..).unwrap_or_default();
    }
    lost
}

fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let kind = number(bytes, RecordField { offset: 0, bytes: 4 })?;
    let length = number(bytes, RecordField { offset: 6, bytes: 2 })?;
    Some((u32::try_from(kind).ok()?, usize::try_from(length).ok()?))
}

/// The time, the length of the raw record, and the raw record, which begins with the tracepoint's number.
fn sample(body: &[u8], points: &Tracepoints) -> Option<TraceEvent> {
    let at_ns = number(body, RecordField { offset: 0, bytes: 8 })?;
    let raw = body.get(12..)?;
    let id = number(raw, RecordField { offset: 0, bytes: 2 })?;
    let of = |point: &Tracepoint, stage| {
        if point.id != id {
            return None;
        }
        Some(TraceEvent {
            at_ns,
            stage,
            device: u32::try_from(number(raw, point.device)?).ok()?,
            sector: number(raw, point.sector)?,
            sectors: u32::try_from(number(raw, point.sectors)?).ok()?,
            operation: operation(raw.get(point.letters.offset..)?.get(..point.letters.bytes)?),
        })
    };
    of(&points.queue, RequestStage::Queued)
        .or_else(|| of(&points.issue, RequestStage::Issued))
        .or_else(|| of(&points.complete, RequestStage::Done))
}

/// An unsigned number of up to eight bytes, in the machine's byte order.
fn number(bytes: &[u8], field: RecordField) -> Option<u64> {
    let part = bytes.get(field.offset..)?.get(..field.bytes)?;
    Some(match *part {
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// An `F` before the operation's letter requests a flush first and is not an operation; `FF` is the flush itself.
fn operation(letters: &[u8]) -> RequestKind {
    let letter = match letters {
        [b'F', letter, ..] => letter,
        [letter, ..] => letter,
        [] => return RequestKind::Other,
    };
    match letter {
        b'R' => RequestKind::Read,
        b'W' => RequestKind::Write,
        b'F' => RequestKind::Flush,
        _ => RequestKind::Other,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three tracepoints of one layout.
    pub(crate) fn points() -> Tracepoints {
        let field = |offset, bytes| RecordField { offset, bytes };
        let queue = Tracepoint {
            id: 1,
            device: field(8, 4),
            sector: field(16, 8),
            sectors: field(24, 4),
            letters: field(28, 8),
        };
        let (issue, complete) =
            (Tracepoint { id: 2, ..queue.clone() }, Tracepoint { id: 3, ..queue.clone() });
        Tracepoints { queue, issue, complete }
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(HEADER_BYTES + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &[0, 0], &length.to_ne_bytes(), body].concat()
    }

    fn event_bytes(id: u16, letters: &[u8; 8]) -> Vec<u8> {
        let raw = [
            &id.to_ne_bytes()[..],
            &[0; 6],
            &7_340_033_u32.to_ne_bytes(),
            &[0; 4],
            &4096_u64.to_ne_bytes(),
            &8_u32.to_ne_bytes(),
            letters,
            &[0; 4],
        ]
        .concat();
        [&55_u64.to_ne_bytes()[..], &(raw.len() as u32).to_ne_bytes(), &raw].concat()
    }

    #[test]
    fn records_of_all_kinds_are_distinguished() {
        let lost = [7_u64.to_ne_bytes(), 12_u64.to_ne_bytes()].concat();
        let bytes = [
            record(RECORD_SAMPLE, &event_bytes(2, b"WS\0\0\0\0\0\0")),
            record(RECORD_LOST, &lost),
            record(77, &[1; 16]),
            record(RECORD_SAMPLE, &event_bytes(9, b"R\0\0\0\0\0\0\0")),
            record(RECORD_SAMPLE, &event_bytes(3, b"FF\0\0\0\0\0\0")),
            vec![1, 2, 3],
        ]
        .concat();
        let mut events = Vec::new();
        assert_eq!(parse(&bytes, &points(), &mut events), 12);
        let first = TraceEvent {
            at_ns: 55,
            stage: RequestStage::Issued,
            device: 7_340_033,
            sector: 4096,
            sectors: 8,
            operation: RequestKind::Write,
        };
        assert_eq!(
            events,
            [first, TraceEvent { stage: RequestStage::Done, operation: RequestKind::Flush, ..first }]
        );
        assert_eq!(
            (operation(b"FWS\0"), operation(b"RA\0"), operation(b"DS")),
            (RequestKind::Write, RequestKind::Read, RequestKind::Other)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in prop::sample::select(vec![2_u8, 9]), length in 0_u8..80) {
            let mut bytes = bytes;
            bytes.splice(0..0, [kind, 0, 0, 0, 0, 0, length, 0]);
            parse(&bytes, &points(), &mut Vec::new());
        }
    }
}
