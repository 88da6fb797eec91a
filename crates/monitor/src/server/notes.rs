//! Notes that are said once: a sampler meets the same lack every second.

use std::collections::HashSet;

use crate::Batch;

/// What was said already.
#[derive(Debug, Default)]
pub(crate) struct Notes(HashSet<String>);

impl Notes {
    /// Says it, unless it was said before.
    pub(crate) fn say(&mut self, batch: &mut Batch, note: String) {
        if self.0.insert(note.clone()) {
            batch.notes.push(note);
        }
    }
}
