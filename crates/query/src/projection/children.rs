//! The children of one level of a projection's tree, found by name.
//!
//! A projection is parsed anew for each find and asked once for each field of each document, so a few names, which is what
//! most projections have, lie in one piece and are told apart by a number. Many names go into a tree: nobody may have a
//! long list walked for each of a document's fields.

use std::collections::BTreeMap;

use super::tree::Child;

/// The most names that are walked one by one.
const FEW: usize = 16;

/// Names with what they stand for.
#[derive(Clone, Debug)]
pub(super) enum Children {
    Few(Few),
    Many(BTreeMap<Vec<u8>, Child>),
}

/// Up to [`FEW`] names, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Few {
    /// All names, one behind the other.
    names: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    digest: u64,
    start: usize,
    end: usize,
    child: Child,
}

impl Default for Children {
    fn default() -> Self {
        Children::Few(Few::default())
    }
}

/// A number that differs for most names that differ: the first and the last eight bytes, and the length.
fn digest(name: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    };
    let first = name.first_chunk::<8>().map_or_else(|| word(name), |bytes| u64::from_le_bytes(*bytes));
    let last = name.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    first ^ last.rotate_left(24) ^ (name.len() as u64).rotate_left(56)
}

impl Few {
    fn place(&self, name: &[u8]) -> Option<usize> {
        let digest = digest(name);
        let same = |entry: &Entry| entry.digest == digest && self.name(entry) == name;
        self.entries.iter().position(same)
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        self.names.get(entry.start..entry.end).unwrap_or_default()
    }

    fn push(&mut self, name: &[u8], child: Child) {
        if self.entries.is_empty() {
            // One piece of memory each for what most projections have.
            self.entries.reserve(FEW);
            self.names.reserve(8 * FEW);
        }
        let start = self.names.len();
        self.names.extend_from_slice(name);
        self.entries.push(Entry { digest: digest(name), start, end: self.names.len(), child });
    }
}

impl Children {
    pub(super) fn get(&self, name: &[u8]) -> Option<&Child> {
        match self {
            Children::Few(few) => few.entries.get(few.place(name)?).map(|entry| &entry.child),
            Children::Many(many) => many.get(name),
        }
    }

    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Child> {
        match self {
            Children::Few(few) => {
                let place = few.place(name)?;
                few.entries.get_mut(place).map(|entry| &mut entry.child)
            }
            Children::Many(many) => many.get_mut(name),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Children::Few(few) => few.entries.len(),
            Children::Many(many) => many.len(),
        }
    }

    /// Adds a name; false if it is there.
    pub(super) fn add(&mut self, name: &[u8], child: Child) -> bool {
        let is_new = self.get(name).is_none();
        if is_new {
            self.insert(name, child);
        }
        is_new
    }

    /// Adds a name that is not there yet.
    fn insert(&mut self, name: &[u8], child: Child) {
        match self {
            Children::Few(few) if few.entries.len() < FEW => few.push(name, child),
            Children::Few(few) => {
                let Few { names, entries } = std::mem::take(few);
                let name_of = |entry: &Entry| names.get(entry.start..entry.end).unwrap_or_default().to_vec();
                let mut many: BTreeMap<_, _> =
                    entries.into_iter().map(|entry| (name_of(&entry), entry.child)).collect();
                many.insert(name.to_vec(), child);
                *self = Children::Many(many);
            }
            Children::Many(many) => {
                many.insert(name.to_vec(), child);
            }
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        match self {
            Children::Few(few) => {
                if let Some(place) = few.place(name) {
                    few.entries.remove(place);
                }
            }
            Children::Many(many) => {
                many.remove(name);
            }
        }
    }

    /// Each name with what it stands for; ends when `each` says so.
    pub(super) fn all(&self, mut each: impl FnMut(&[u8], &Child) -> bool) -> bool {
        match self {
            Children::Few(few) => few.entries.iter().all(|entry| each(few.name(entry), &entry.child)),
            Children::Many(many) => many.iter().all(|(name, child)| each(name, child)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_whatever_their_number() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            let names: Vec<String> = (0..count).map(|place| format!("a long name, number {place}")).collect();
            let mut children = Children::default();
            for name in &names {
                assert!(children.get(name.as_bytes()).is_none());
                children.insert(name.as_bytes(), Child::Named);
            }
            assert_eq!(children.len(), count);
            assert!(names.iter().all(|name| children.get(name.as_bytes()).is_some()));
            assert!(names.iter().all(|name| children.get_mut(name.as_bytes()).is_some()));
            let mut seen = 0;
            assert!(children.all(|name, _| {
                seen += usize::from(names.iter().any(|one| one.as_bytes() == name));
                true
            }));
            assert_eq!(seen, count);
            if let Some(name) = names.get(count / 2) {
                children.remove(name.as_bytes());
                assert!(children.get(name.as_bytes()).is_none());
                assert_eq!(children.len(), count - 1);
            }
        }
    }

    #[test]
    fn names_of_one_digest_are_told_apart() {
        // The first and the last eight bytes are the same, and so is the length.
        let (one, other) = (b"12345678-12345678", b"12345678+12345678");
        assert_eq!(digest(one), digest(other));
        let mut children = Children::default();
        children.insert(one, Child::Named);
        assert!(children.get(other).is_none());
    }

    #[test]
    fn short_names_have_digests_of_their_own() {
        let names: [&[u8]; 6] = [b"", b"a", b"b", b"ab", b"field0", b"field1"];
        for (place, one) in names.iter().enumerate() {
            assert!(names.iter().skip(place + 1).all(|other| digest(one) != digest(other)));
        }
    }
}
