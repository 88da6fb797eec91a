//! The generators: each draws a value and appends its bytes.

use std::io::Write;

use bson::oid::ObjectId;
use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, RawBsonRef, RawDocument};
use fathom_wire::{ArrayWriter, DocumentWriter};

use super::dates::Moment;
use super::{Drawing, Template};
use crate::core_workload::Lengths;
use crate::keys::KeyNames;
use crate::values::append_random;

/// The most bytes that are taken for a value whose size another part of the file decides: a key.
const KEY_BYTES: u64 = 1024;

/// Draws a value.
#[derive(Clone, Debug)]
pub(in super::super) enum Generator {
    /// The number of the record, from a start on.
    Sequence { start: i64, step: i64 },
    /// The record's key, as YCSB names records.
    Key(KeyNames),
    /// A whole number of 32 bits: a base and what is drawn.
    Int { base: i64, above: Lengths },
    /// A whole number of 64 bits.
    Long { base: i64, above: Lengths },
    /// A number between two others, rounded to so many decimals if some are given.
    Double { from: f64, to: f64, decimals: Option<i32> },
    /// True with this probability.
    Bool(f64),
    /// Random text, or binary data.
    Text { lengths: Lengths, compressibility: f64, binary: bool },
    /// A time between two.
    Date { from: Moment, to: Moment },
    /// A new object id.
    ObjectId,
    /// One of several.
    Pick { values: Vec<Template>, by: Pick },
    /// So many values of a kind.
    Array { of: Template, lengths: Lengths },
    /// Texts and numbers in a row, as one text.
    Join(Vec<Template>),
    /// A value with this probability, else none at all.
    Optional { share: f64, value: Template },
    /// What a record that is there has in a field: the place of its description.
    Existing(usize),
    /// A value that the operation drew before, times a factor where it is a number.
    Variable { place: usize, times: Option<f64>, largest_bytes: u64, number: bool },
}

/// How one of several is chosen.
#[derive(Clone, Debug)]
pub(in super::super) enum Pick {
    /// By its place.
    Place(Lengths),
    /// By weights, of which each is added to those before it; the last is 1.
    Weights(Vec<f64>),
}

impl Generator {
    /// Appends a value; its type, or none if there is none this time.
    pub(super) fn append(&self, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
        Some(match self {
            Generator::Sequence { start, step } => {
                let number = i64::try_from(drawing.number).unwrap_or(i64::MAX);
                long(start.saturating_add(step.saturating_mul(number)), out)
            }
            Generator::Key(names) => text(out, |out| names.append(drawing.number, out)),
            Generator::Int { base, above } => {
                let value = drawn(*base, above, drawing);
                out.extend_from_slice(&i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes());
                ElementType::Int32
            }
            Generator::Long { base, above } => long(drawn(*base, above, drawing), out),
            Generator::Double { from, to, decimals } => {
                let value = from + (to - from) * drawing.random.uniform();
                double(decimals.map_or(value, |decimals| rounded(value, decimals)), out)
            }
            Generator::Bool(share) => {
                out.push(u8::from(drawing.random.uniform() < *share));
                ElementType::Boolean
            }
            Generator::Text { lengths, compressibility, binary } => {
                append_text(lengths, *compressibility, *binary, drawing, out)
            }
            Generator::Date { from, to } => {
                let (from, to) = (from.millis(), to.millis());
                let above = drawing.random.below(to.abs_diff(from).saturating_add(1));
                out.extend_from_slice(&from.min(to).saturating_add_unsigned(above).to_le_bytes());
                ElementType::DateTime
            }
            Generator::ObjectId => {
                out.extend_from_slice(&ObjectId::new().bytes());
                ElementType::ObjectId
            }
            Generator::Pick { values, by } => return by.one(values, drawing)?.append(drawing, out),
            Generator::Array { of, lengths } => {
                let mut array = ArrayWriter::new(out);
                (0..lengths.draw(drawing.random)).for_each(|_| of.append_item(drawing, &mut array));
                array.end();
                ElementType::Array
            }
            Generator::Join(parts) => text(out, |out| parts.iter().for_each(|part| join(part, drawing, out))),
            Generator::Optional { share, value } => {
                if drawing.random.uniform() >= *share {
                    return None;
                }
                return value.append(drawing, out);
            }
            Generator::Existing(place) => return append_existing(*place, drawing, out),
            Generator::Variable { place, times, .. } => {
                let (element_type, bytes) = drawing.variables.get(*place)?;
                match times {
                    Some(times) => multiplied(element_type, bytes, *times, out),
                    None => {
                        out.extend_from_slice(bytes);
                        element_type
                    }
                }
            }
        })
    }

    /// The most bytes that a value can have.
    pub(super) fn largest_bytes(&self) -> u64 {
        let most = |parts: &[Template]| parts.iter().map(Template::largest_bytes).max().unwrap_or(0);
        match self {
            Generator::Key(names) => names.prefix.len() as u64 + names.digits.max(20) as u64 + 5,
            Generator::Text { lengths, .. } => longest(lengths).saturating_add(6),
            Generator::Pick { values, .. } => most(values),
            Generator::Array { of, lengths } => {
                longest(lengths).saturating_mul(of.largest_bytes().saturating_add(10)).saturating_add(5)
            }
            Generator::Join(parts) => {
                parts.iter().fold(5, |sum, part| part.largest_bytes().saturating_add(24).saturating_add(sum))
            }
            Generator::Optional { value, .. } => value.largest_bytes(),
            Generator::Existing(_) => KEY_BYTES,
            Generator::Variable { largest_bytes, .. } => *largest_bytes,
            _ => 12,
        }
    }

    /// The templates within it.
    pub(super) fn parts(&self) -> &[Template] {
        match self {
            Generator::Pick { values, .. } => values,
            Generator::Join(parts) => parts,
            Generator::Array { of, .. } => std::slice::from_ref(of),
            Generator::Optional { value, .. } => std::slice::from_ref(value),
            _ => &[],
        }
    }

    pub(super) fn is_number(&self) -> bool {
        match self {
            Generator::Sequence { .. }
            | Generator::Int { .. }
            | Generator::Long { .. }
            | Generator::Double { .. } => true,
            Generator::Pick { values, .. } => values.iter().all(Template::is_number),
            Generator::Variable { number, .. } => *number,
            _ => false,
        }
    }
}

impl Pick {
    fn one<'t>(&self, values: &'t [Template], drawing: &mut Drawing<'_>) -> Option<&'t Template> {
        let place = match self {
            Pick::Place(places) => places.draw(drawing.random) as usize,
            Pick::Weights(sums) => {
                let drawn = drawing.random.uniform();
                sums.partition_point(|sum| *sum <= drawn)
            }
        };
        values.get(place).or(values.last())
    }
}

/// The longest of these lengths.
pub(super) fn longest(lengths: &Lengths) -> u64 {
    match lengths {
        Lengths::Constant(length) => *length,
        Lengths::Uniform { most, .. } => *most,
        Lengths::Zipfian { least, zipf } => least.saturating_add(zipf.items()),
        Lengths::Histogram { block, sums } => block.saturating_mul(sums.len() as u64),
    }
}

fn drawn(base: i64, above: &Lengths, drawing: &mut Drawing<'_>) -> i64 {
    base.saturating_add_unsigned(above.draw(drawing.random))
}

fn long(value: i64, out: &mut Vec<u8>) -> ElementType {
    out.extend_from_slice(&value.to_le_bytes());
    ElementType::Int64
}

fn double(value: f64, out: &mut Vec<u8>) -> ElementType {
    out.extend_from_slice(&value.to_le_bytes());
    ElementType::Double
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// A text whose bytes are appended by a function.
fn text(out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) -> ElementType {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    append(out);
    out.push(0);
    put_length(out, start, 4);
    ElementType::String
}

/// Puts in the length of what lies behind the place of the length and `header_bytes` there.
fn put_length(out: &mut [u8], start: usize, header_bytes: usize) {
    let length = i32::try_from(out.len().saturating_sub(start + header_bytes)).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut::<4>()) {
        *place = length.to_le_bytes();
    }
}

fn append_text(
    lengths: &Lengths,
    compressibility: f64,
    binary: bool,
    drawing: &mut Drawing<'_>,
    out: &mut Vec<u8>,
) -> ElementType {
    let bytes = usize::try_from(lengths.draw(drawing.random)).unwrap_or(usize::MAX);
    let random_bytes = (bytes as f64 / compressibility).ceil() as usize;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if binary {
        out.push(BinarySubtype::Generic.into());
    }
    let first = out.len();
    append_random(drawing.random, random_bytes.min(bytes), out);
    out.resize(first + bytes, b'a');
    if binary {
        put_length(out, start, 5);
        return ElementType::Binary;
    }
    out.push(0);
    put_length(out, start, 4);
    ElementType::String
}

/// Appends what a part says, as text.
fn join(part: &Template, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) {
    // A document with the value alone in it, at the end of the text that it is to become.
    let start = out.len();
    let mut alone = DocumentWriter::new(out);
    part.append_field("", drawing, &mut alone);
    alone.end();
    let bytes = out.split_off(start);
    let value = RawDocument::from_bytes(&bytes).ok().and_then(|alone| alone.iter().flatten().next());
    // Writing into memory does not fail.
    let _ = match value {
        Some((_, RawBsonRef::String(text))) => out.write_all(text.as_bytes()),
        Some((_, RawBsonRef::Int32(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Int64(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Double(number))) => write!(out, "{number}"),
        Some((_, RawBsonRef::Boolean(truth))) => write!(out, "{truth}"),
        Some((_, RawBsonRef::ObjectId(id))) => write!(out, "{id}"),
        Some((_, value)) => match Bson::try_from(value) {
            Ok(value) => write!(out, "{value}"),
            Err(_) => Ok(()),
        },
        None => Ok(()),
    };
}

fn append_existing(place: usize, drawing: &mut Drawing<'_>, out: &mut Vec<u8>) -> Option<ElementType> {
    let existing = drawing.workload.existing.get(place)?;
    let newest = drawing.collections.get(existing.collection)?.acknowledged.newest();
    let chooser = drawing.choosers.get_mut(existing.chooser)?.as_mut()?;
    let number = chooser.draw(drawing.random, newest);
    let own = std::mem::replace(&mut drawing.number, number);
    let element_type = existing.value.append(drawing, out);
    drawing.number = own;
    element_type
}

fn multiplied(element_type: ElementType, bytes: &[u8], times: f64, out: &mut Vec<u8>) -> ElementType {
    let whole = times.fract() == 0.0;
    match (element_type, bytes.first_chunk::<4>(), bytes.first_chunk::<8>()) {
        (ElementType::Int32, Some(bytes), _) if whole => {
            let value = i64::from(i32::from_le_bytes(*bytes)).saturating_mul(times as i64);
            match i32::try_from(value) {
                Ok(value) => {
                    out.extend_from_slice(&value.to_le_bytes());
                    ElementType::Int32
                }
                Err(_) => long(value, out),
            }
        }
        (ElementType::Int32, Some(bytes), _) => double(f64::from(i32::from_le_bytes(*bytes)) * times, out),
        (ElementType::Int64, _, Some(bytes)) if whole => {
            long(i64::from_le_bytes(*bytes).saturating_mul(times as i64), out)
        }
        (ElementType::Int64, _, Some(bytes)) => double(i64::from_le_bytes(*bytes) as f64 * times, out),
        (ElementType::Double, _, Some(bytes)) => double(f64::from_le_bytes(*bytes) * times, out),
        _ => {
            out.extend_from_slice(bytes);
            element_type
        }
    }
}
