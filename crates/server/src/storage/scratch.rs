//! Memory that a thread uses again from write to write, so that the keys of a document cost no allocation.

use std::cell::RefCell;

use fathom_query::IndexKeys;

/// An entry larger than this is not kept: keys have no limit of length, and a thread may live for days.
const KEPT_BYTES: usize = 64 << 10;

/// The keys of a document before and after, and the bytes of one entry.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) old: IndexKeys,
    pub(super) new: IndexKeys,
    pub(super) entry: Vec<u8>,
}

thread_local! {
    static OWN: RefCell<Scratch> = RefCell::default();
}

/// Lends the thread's memory. What runs within must not ask for it again; if it does, it gets memory of its own.
pub(super) fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    OWN.with(|own| match own.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            let bytes = |keys: &IndexKeys| keys.keys.iter().map(|key| key.bytes.capacity()).sum::<usize>();
            if scratch.entry.capacity() + bytes(&scratch.old) + bytes(&scratch.new) > KEPT_BYTES {
                *scratch = Scratch::default();
            }
            result
        }
        Err(_) => work(&mut Scratch::default()),
    })
}
