//! Tests that chunks of this crate's writer are read back, and that damaged ones are refused.
#![allow(clippy::unwrap_used, reason = "a test")]

mod second_decoder;

use std::io::Write;

use bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};
use fathom_errors::Kind;
use fathom_ftdc::{ChunkBuffer, ChunkWriter, MAX_SAMPLES, MetricChunk, MetricKind};
use flate2::{Compression, write::ZlibEncoder};
use proptest::prelude::*;

fn columns(payload: &[u8]) -> Vec<Vec<i64>> {
    let mut buffer = ChunkBuffer::default();
    let chunk = MetricChunk::parse(payload, &mut buffer).unwrap();
    let mut columns = Vec::new();
    chunk.columns(|_| true, |_, column| columns.push(column.to_vec())).unwrap();
    columns
}

fn chunk_of(samples: &[RawDocumentBuf]) -> Vec<u8> {
    let mut writer = ChunkWriter::default();
    for sample in samples {
        assert_eq!(writer.push(sample).unwrap(), None);
    }
    writer.finish().unwrap().unwrap()
}

/// A payload of this inflated chunk.
fn compressed(inflated: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new((inflated.len() as u32).to_le_bytes().to_vec(), Compression::fast());
    encoder.write_all(inflated).unwrap();
    encoder.finish().unwrap()
}

/// A sample with these counters.
fn sample(values: &[i64]) -> RawDocumentBuf {
    let mut sample = Document::new();
    for (at, value) in values.iter().enumerate() {
        sample.insert(format!("counter {at}"), *value);
    }
    RawDocumentBuf::try_from(&sample).unwrap()
}

proptest! {
    #[test]
    fn counters_come_back(
        rows in (1_usize..6, 1_usize..40).prop_flat_map(|(metrics, samples)| {
            let value = prop_oneof![3 => Just(0_i64), 3 => 0..300_i64, 1 => any::<i64>()];
            prop::collection::vec(prop::collection::vec(value, metrics), samples)
        })
    ) {
        let samples: Vec<RawDocumentBuf> = rows.iter().map(|row| sample(row)).collect();
        let payload = chunk_of(&samples);
        let expected: Vec<Vec<i64>> =
            (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at]).collect()).collect();
        prop_assert_eq!(&columns(&payload), &expected);
        prop_assert_eq!(second_decoder::columns(&payload), expected);
    }

    #[test]
    fn selected_columns_are_those_of_all(
        rows in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0_i64), any::<i64>()], 5), 1..30),
        wanted in prop::collection::vec(any::<bool>(), 5),
    ) {
        let samples: Vec<RawDocumentBuf> = rows.iter().map(|row| sample(row)).collect();
        let payload = chunk_of(&samples);
        let mut buffer = ChunkBuffer::default();
        let chunk = MetricChunk::parse(&payload, &mut buffer).unwrap();
        let mut selected = Vec::new();
        chunk.columns(|at| wanted[at], |at, column| selected.push((at, column.to_vec()))).unwrap();
        let all = columns(&payload).into_iter().enumerate().filter(|(at, _)| wanted[*at]);
        prop_assert_eq!(selected, all.collect::<Vec<_>>());
    }

    /// Bytes of any kind are refused or read, without a panic.
    #[test]
    fn damaged_chunks_do_not_panic(at in 0_usize..200, byte in any::<u8>(), cut in 0_usize..200) {
        let rows: Vec<RawDocumentBuf> = (0..9).map(|at| sample(&[at, 0, at * at])).collect();
        let payload = chunk_of(&rows);
        let mut buffer = ChunkBuffer::default();
        let mut damaged = payload.clone();
        if let Some(target) = damaged.get_mut(at) {
            *target = byte;
        }
        damaged.truncate(payload.len().saturating_sub(cut % 20));
        if let Ok(chunk) = MetricChunk::parse(&damaged, &mut buffer) {
            let _ = chunk.columns(|_| true, |_, _| {});
        }
    }
}

#[test]
fn all_numeric_types_are_metrics_and_text_is_none() {
    let sample = doc! {
        "start": DateTime::from_millis(1_700_000_000_123),
        "host": "db1",
        "inner": {
            "double": -2.9, "nan": f64::NAN, "no limit": 9.223_372_036_854_776e18, "int": -7_i32, "bool": true,
            "members": [{ "optime": Bson::Timestamp(Timestamp { time: 5, increment: 6 }) }, { "id": 3_i64 }],
        },
        "decimal": Bson::Decimal128("12.75".parse().unwrap()),
        "nothing": Bson::Null,
    };
    let sample = RawDocumentBuf::try_from(&sample).unwrap();
    let payload = chunk_of(std::slice::from_ref(&sample));
    let mut buffer = ChunkBuffer::default();
    let chunk = MetricChunk::parse(&payload, &mut buffer).unwrap();
    let found: Vec<(&str, MetricKind, i64)> =
        chunk.metrics().iter().map(|metric| (metric.path.as_str(), metric.kind, metric.first)).collect();
    let expected = [
        ("start", MetricKind::Date, 1_700_000_000_123),
        ("inner.double", MetricKind::Double, -2),
        ("inner.nan", MetricKind::Double, 0),
        ("inner.no limit", MetricKind::Double, 0),
        ("inner.int", MetricKind::Int32, -7),
        ("inner.bool", MetricKind::Bool, 1),
        ("inner.members.0.optime", MetricKind::TimestampSeconds, 5),
        ("inner.members.0.optime", MetricKind::TimestampIncrement, 6),
        ("inner.members.1.id", MetricKind::Int64, 3),
        ("decimal", MetricKind::Decimal128, 12),
    ];
    assert_eq!(found, expected);
    assert_eq!(chunk.reference(), &*sample);
    assert_eq!(chunk.samples(), 1);
}

/// A buffer keeps the names of the metrics from chunk to chunk: those of another server, of a damaged chunk, or fewer of them must not remain.
#[test]
fn a_buffer_reads_each_chunk_as_a_new_one_does() {
    let text = |name: &str, value: i64| RawDocumentBuf::try_from(&doc! { "a": value, name: 2_i32 }).unwrap();
    let other_type = RawDocumentBuf::try_from(&doc! { "a": 5_i64, "b": true }).unwrap();
    // Its second metric is a document that is cut off within.
    let mut damaged =
        RawDocumentBuf::try_from(&doc! { "a": 1_i64, "b": { "c": 7_i64 } }).unwrap().into_bytes();
    let at = damaged.len() - 2 - 8 - 2;
    damaged[at - 1] = 0x1f;
    let damaged = RawDocumentBuf::from_bytes(damaged).unwrap();
    let samples = [
        (text("b", 1), 1),
        (text("b", 9), 1),
        (text("c", 9), 2),
        (other_type, 3),
        (sample(&[4]), 4),
        (text("b", 1), 5),
        (text("b", 3), 5),
    ];
    let mut buffer = ChunkBuffer::default();
    for (sample, schema) in &samples {
        let payload = chunk_of(std::slice::from_ref(sample));
        let chunk = MetricChunk::parse(&payload, &mut buffer).unwrap();
        let mut own_buffer = ChunkBuffer::default();
        assert_eq!(chunk.metrics(), MetricChunk::parse(&payload, &mut own_buffer).unwrap().metrics());
        assert_eq!(chunk.schema(), *schema, "{sample:?}");
    }
    let payload = compressed(damaged.as_bytes());
    assert_eq!(MetricChunk::parse(&payload, &mut buffer).unwrap_err().kind(), Kind::Malformed);
    let payload = chunk_of(&[text("b", 3)]);
    let chunk = MetricChunk::parse(&payload, &mut buffer).unwrap();
    assert_eq!((chunk.metrics().len(), chunk.schema() > 6), (2, true));
    assert_eq!(chunk.inflated_bytes(), text("b", 3).as_bytes().len() + 8);
}

/// Real recordings have `mounts./data/db` twice in one document.
#[test]
fn duplicate_names_keep_their_columns() {
    let mut sample = RawDocumentBuf::new();
    for value in [1_i64, 2, 3] {
        sample.append(bson::cstr!("free"), value);
    }
    let payload = chunk_of(&[sample.clone(), sample]);
    assert_eq!(columns(&payload), [[1, 1], [2, 2], [3, 3]]);
}

/// A server that starts again feeds the interim's samples into its first chunk: the counters fall within it.
#[test]
fn counters_that_fall_or_jump_by_two_to_the_63rd_come_back() {
    let rows = [sample(&[900, i64::MIN]), sample(&[4, i64::MAX]), sample(&[5, -1])];
    assert_eq!(columns(&chunk_of(&rows)), [[900, 4, 5], [i64::MIN, i64::MAX, -1]]);
}

#[test]
fn text_that_is_no_utf8_is_passed_over() {
    let mut bytes = RawDocumentBuf::try_from(&doc! { "host": "abc", "n": 5_i64 }).unwrap().into_bytes();
    let at = bytes.windows(3).position(|window| window == b"abc").unwrap();
    bytes[at] = 0xff;
    let payload = chunk_of(&[RawDocumentBuf::from_bytes(bytes).unwrap()]);
    assert_eq!(columns(&payload), [[5]]);
}

#[test]
fn a_chunk_ends_when_it_is_full_or_the_schema_changes() {
    let mut writer = ChunkWriter::default();
    let mut lengths = Vec::new();
    let mut note = |chunk: Option<Vec<u8>>| {
        lengths.extend(chunk.map(|chunk| (columns(&chunk).len(), columns(&chunk)[0].len())));
    };
    for at in 0..MAX_SAMPLES as i64 + 10 {
        note(writer.push(&sample(&[at])).unwrap());
    }
    // A disk without earlier requests appears.
    note(writer.push(&sample(&[0, 1])).unwrap());
    note(writer.finish().unwrap());
    note(writer.finish().unwrap());
    assert_eq!(lengths, [(1, MAX_SAMPLES), (1, 10), (2, 1)]);
}

#[test]
fn hostile_lengths_and_depths_are_refused() {
    let refused = |inflated: &[u8]| MetricChunk::parse_inflated(inflated).unwrap_err();
    // A metric with four billion samples in a run of zeros.
    let mut bytes = sample(&[1]).into_bytes();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    assert_eq!(refused(&bytes).kind(), Kind::Malformed);
    assert!(refused(&bytes).to_string().contains("too large"), "{}", refused(&bytes));
    // Another number of metrics than the first sample has.
    let mut bytes = sample(&[1]).into_bytes();
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    assert!(refused(&bytes).to_string().contains("2 metrics"), "{}", refused(&bytes));
    let mut deep = doc! { "n": 1 };
    for _ in 0..100 {
        deep = doc! { "d": deep };
    }
    let mut bytes = RawDocumentBuf::try_from(&deep).unwrap().into_bytes();
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(refused(&bytes).to_string().contains("within each other"), "{}", refused(&bytes));
    // Deltas that end early: the columns before are read.
    let mut bytes = sample(&[1, 2]).into_bytes();
    bytes.extend([2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1]);
    let chunk = MetricChunk::parse_inflated(&bytes).unwrap();
    let mut seen = Vec::new();
    let error = chunk.columns(|_| true, |_, column| seen.push(column.to_vec())).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
    assert_eq!(seen, [[1, 2, 3]]);
}

#[test]
fn each_damage_of_a_chunk_is_named() {
    let refused = |payload: &[u8]| {
        let mut buffer = ChunkBuffer::default();
        MetricChunk::parse(payload, &mut buffer).unwrap_err().to_string()
    };
    let whole = sample(&[1]).into_bytes();
    let longer = |payload: &[u8], length: u32| [&length.to_le_bytes()[..], &payload[4..]].concat();
    let good = compressed(&[&whole[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
    let mut no_zero = whole.clone();
    *no_zero.last_mut().unwrap() = 7;
    let long_array = {
        let mut bytes = RawDocumentBuf::try_from(&doc! { "list": [1_i32] }).unwrap().into_bytes();
        let at = bytes.windows(5).position(|window| window == b"list\0").unwrap() + 5;
        // The zero at the end of the array.
        let end = at + 4 + 1 + 2 + 4;
        bytes[end] = 3;
        bytes
    };
    for (payload, words) in [
        (vec![1, 2, 3], "without its length"),
        (longer(&good, 65 << 20), "too large"),
        (longer(&good, 7), "in place of 7"),
        (longer(&good, 2000), "in place of 2000"),
        ([&good[..4], b"no zlib at all"].concat(), "zlib cannot inflate"),
        (compressed(&[]), "no BSON"),
        (compressed(&[200, 0, 0, 0, 1]), "without its first sample"),
        (compressed(&no_zero), "no BSON"),
        (compressed(&whole), "without its counts"),
        (compressed(&long_array), "no BSON"),
    ] {
        assert!(refused(&payload).contains(words), "{words}: {}", refused(&payload));
    }
    let mut buffer = ChunkBuffer::default();
    assert_eq!(MetricChunk::parse(&good, &mut buffer).unwrap().samples(), 1);
}

#[test]
fn a_chunk_takes_another_first_sample_only_with_the_same_values() {
    let payload = chunk_of(&[sample(&[1, 2]), sample(&[3, 5])]);
    let mut buffer = ChunkBuffer::default();
    let chunk = MetricChunk::parse(&payload, &mut buffer).unwrap();
    let renamed = RawDocumentBuf::try_from(&doc! { "x": 1_i64, "y": 2_i64 }).unwrap();
    let replaced = chunk.with_reference(&renamed).unwrap();
    let mut other_buffer = ChunkBuffer::default();
    let other = MetricChunk::parse(&replaced, &mut other_buffer).unwrap();
    assert_eq!((other.metrics()[1].path.as_str(), columns(&replaced)), ("y", columns(&payload)));
    for other in [sample(&[1, 3]), sample(&[1])] {
        let refused = chunk.with_reference(&other).unwrap_err().to_string();
        assert!(refused.contains("other metrics"), "{refused}");
    }
    // No column is wanted: none is read.
    chunk.columns(|_| false, |_, _| panic!("an unwanted column")).unwrap();
}
