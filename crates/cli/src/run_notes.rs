//! The notes of a run: what could not be watched, kept among the facts of its environment.

use fathom_record::Manifest;

/// Notes stand in the manifest's environment under this word and a number.
pub(crate) const NOTE: &str = "note.";

/// The notes of a run, in the order in which they came.
pub(crate) fn notes_of(manifest: &Manifest) -> Vec<String> {
    let from = manifest.environment.range(NOTE.to_owned()..);
    let mut notes: Vec<String> = Vec::new();
    for (_, note) in from.take_while(|(key, _)| key.starts_with(NOTE)) {
        // Two servers of a run, watched one after the other, may have the same to say.
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}
