//! `$sample`: so many rows, chosen at random, each as likely as any other (Vitter's algorithm R).

use bson::{RawBsonRef, RawDocumentBuf};

use super::Rows;
use super::context::Context;
use super::memory::Memory;
use super::options::{members, object, refused, whole};
use super::parse::Limits;
use super::stages::Stage;
use crate::Result;

/// `$sample: {size: n}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 28745, "the $sample stage specification must be an object")?;
    let [size] = members(document, ["size"], (28748, "unrecognized option to $sample"))?;
    let Some(size) = size else { return refused(28749, "$sample stage must specify a size") };
    let Some(whole) = whole(size) else { return refused(28746, "size argument to $sample must be a number") };
    match usize::try_from(whole) {
        Ok(size) => Ok(vec![Stage::Sample(size)]),
        Err(_) => refused(28747, "size argument to $sample must not be negative"),
    }
}

pub(super) fn run(size: usize, rows: Rows, context: &Context) -> Result<Rows> {
    let host = &context.host;
    let below = |count: usize| ((host.random() * count as f64) as usize).min(count.saturating_sub(1));
    let mut memory = Memory::of("$sample");
    let mut chosen: Vec<RawDocumentBuf> = Vec::new();
    for (seen, row) in rows.enumerate() {
        let row = row?;
        if chosen.len() < size {
            memory.take(row.as_bytes().len())?;
            chosen.push(row);
        } else if let Some(place) = chosen.get_mut(below(seen + 1)) {
            memory.take(row.as_bytes().len().saturating_sub(place.as_bytes().len()))?;
            *place = row;
        }
    }
    // Places in the reservoir are not random yet.
    for place in (1..chosen.len()).rev() {
        chosen.swap(place, below(place + 1));
    }
    Ok(Box::new(chosen.into_iter().map(Ok)))
}
