//! What is missing is said once, not each second.

use std::collections::HashSet;

use crate::Batch;

/// The notes that a sampler has made.
#[derive(Debug, Default)]
pub struct Notes {
    said: HashSet<String>,
}

impl Notes {
    /// Adds a note, unless it was made before.
    pub fn once(&mut self, batch: &mut Batch, what: impl Into<String>) {
        let what = what.into();
        if self.said.insert(what.clone()) {
            batch.notes.push(what);
        }
    }
}
