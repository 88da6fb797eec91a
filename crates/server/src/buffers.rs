//! Buffers that a thread reuses from one operation to the next.
//!
//! A thread keeps only a few, and none that a large document has grown, so that an idle connection uses little memory.

use std::cell::RefCell;

/// The number of buffers that a thread keeps.
const MAX_KEPT_BUFFERS: usize = 4;
/// Larger buffers are returned to the allocator.
const MAX_KEPT_BYTES: usize = 16 << 10;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer; give it back by [`give`].
pub(crate) fn take() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a buffer back.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > MAX_KEPT_BYTES {
        return;
    }
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < MAX_KEPT_BUFFERS {
            buffers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_a_large_one_not_at_all() {
        let mut buffer = take();
        buffer.extend_from_slice(&[1; 100]);
        give(buffer);
        give(Vec::with_capacity(MAX_KEPT_BYTES + 1));
        let again = take();
        assert!(again.is_empty() && again.capacity() >= 100);
        assert_eq!(take().capacity(), 0);
    }
}
