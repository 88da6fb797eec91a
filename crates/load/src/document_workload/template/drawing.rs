//! What a template draws from.

use std::ops::Range;

use bson::spec::ElementType;
use fathom_stats::Seeded;

use super::super::DocumentWorkload;
use super::super::shared::CollectionState;
use crate::generators::KeyChooser;

/// What a template draws from, while it is written.
#[derive(Debug)]
pub(in super::super) struct Drawing<'a> {
    pub(in super::super) random: &'a mut Seeded,
    pub(in super::super) workload: &'a DocumentWorkload,
    pub(in super::super) collections: &'a [CollectionState],
    /// One for each way to choose a record, where this phase chooses so.
    pub(in super::super) choosers: &'a mut [Option<KeyChooser>],
    pub(in super::super) variables: &'a Variables,
    /// The number of the record that is written.
    pub(in super::super) number: u64,
}

/// The values that an operation draws once and uses in several places.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Variables {
    bytes: Vec<u8>,
    values: Vec<Option<(ElementType, Range<usize>)>>,
}

impl Variables {
    /// Adds the value that was appended to [`Variables::bytes`] from a place on.
    pub(in super::super) fn add(&mut self, value: Option<ElementType>, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.values.push(value.map(|element_type| (element_type, start..self.bytes.len())));
    }

    /// The type and the bytes of a value; none if it was left out.
    pub(in super::super) fn get(&self, place: usize) -> Option<(ElementType, &[u8])> {
        let (element_type, range) = self.values.get(place)?.as_ref()?;
        Some((*element_type, self.bytes.get(range.clone())?))
    }
}
