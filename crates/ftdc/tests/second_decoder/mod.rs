//! A second decoder of chunks. It is slow and follows mongod's description of the format step by step.

use std::io::Read;

use bson::{RawBsonRef, RawDocument};
use flate2::read::ZlibDecoder;

/// The columns of a compressed chunk.
pub(crate) fn columns(payload: &[u8]) -> Vec<Vec<i64>> {
    let mut inflated = Vec::new();
    ZlibDecoder::new(&payload[4..]).read_to_end(&mut inflated).unwrap();
    let length = number(&inflated, 0);
    let mut first = Vec::new();
    numbers(RawDocument::from_bytes(&inflated[..length]).unwrap(), &mut first);
    let (metrics, deltas) = (number(&inflated, length), number(&inflated, length + 4));
    assert_eq!(metrics, first.len());
    let mut values = all_deltas(&inflated[length + 8..]);
    values.resize(metrics * deltas, 0);
    let column = |at: usize| {
        let mut column = vec![first[at]];
        for delta in &values[at * deltas..(at + 1) * deltas] {
            column.push(column.last().unwrap().wrapping_add(*delta as i64));
        }
        column
    };
    (0..metrics).map(column).collect()
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn numbers(document: &RawDocument, found: &mut Vec<i64>) {
    for element in document.iter() {
        // A value that cannot be read is text that is not UTF-8.
        let Ok((_, value)) = element else { continue };
        match value {
            RawBsonRef::Double(value) if value.abs() < 9.2e18 => found.push(value as i64),
            RawBsonRef::Double(_) => found.push(0),
            RawBsonRef::Int32(value) => found.push(value.into()),
            RawBsonRef::Int64(value) => found.push(value),
            RawBsonRef::Boolean(value) => found.push(value.into()),
            RawBsonRef::DateTime(value) => found.push(value.timestamp_millis()),
            RawBsonRef::Timestamp(value) => found.extend([i64::from(value.time), i64::from(value.increment)]),
            RawBsonRef::Decimal128(value) => found.push(value.to_string().parse::<f64>().unwrap() as i64),
            RawBsonRef::Document(inner) => numbers(inner, found),
            RawBsonRef::Array(inner) => numbers(RawDocument::from_bytes(inner.as_bytes()).unwrap(), found),
            _ => {}
        }
    }
}

/// All deltas one after another, runs of zeros written out.
fn all_deltas(bytes: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0_u128, 0);
    for byte in bytes {
        value |= u128::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(value as u64);
            (value, shift) = (0, 0);
        }
    }
    let mut deltas = Vec::new();
    let mut numbers = numbers.into_iter();
    while let Some(number) = numbers.next() {
        deltas.push(number);
        if number == 0 {
            deltas.extend(std::iter::repeat_n(0, numbers.next().unwrap() as usize));
        }
    }
    deltas
}
