//! Changes of parts of a value, in the form that WiredTiger logs instead of the whole.
//!
//! The server's splices speak of the old value; WiredTiger applies its entries one after another. Going from the end to the start
//! makes the two the same, as long as the splices are in order and apart. It refuses what is not, and what is not worth it: the
//! whole value is then written.

use fathom_engine::Splice;

/// The most parts that mongod logs; more is written as a whole.
pub(crate) const PARTS_MAX: usize = 16;

/// Offset, bytes to remove, and what takes their place.
pub(crate) type Part<'s> = (usize, usize, &'s [u8]);

/// Splices as parts in WiredTiger's order; how many of the buffer are used. None if the whole value is to be written.
///
/// As mongod does: bytes that replace as many bytes (its in-place damages) up to half of the value, other changes up to a
/// tenth of it.
pub(crate) fn parts<'s>(
    splices: &'s [Splice],
    value_bytes: usize,
    buffer: &mut [Part<'s>; PARTS_MAX],
) -> Option<usize> {
    if splices.is_empty() || splices.len() > PARTS_MAX {
        return None;
    }
    let removed: usize = splices.iter().map(|splice| splice.remove).sum();
    let added: usize = splices.iter().map(|splice| splice.data.len()).sum();
    let in_place = splices.iter().all(|splice| splice.remove == splice.data.len());
    let worth = if in_place { added * 2 <= value_bytes } else { (added + removed) * 10 <= value_bytes };
    let old_bytes = (value_bytes + removed).checked_sub(added)?;
    let mut reached = 0;
    for splice in splices {
        if splice.offset < reached {
            return None;
        }
        reached = splice.offset.checked_add(splice.remove)?;
    }
    if !worth || reached > old_bytes {
        return None;
    }
    for (part, splice) in buffer.iter_mut().zip(splices.iter().rev()) {
        *part = (splice.offset, splice.remove, &splice.data);
    }
    Some(splices.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splice(offset: usize, remove: usize, data: &[u8]) -> Splice {
        Splice { offset, remove, data: data.to_vec() }
    }

    fn count(splices: &[Splice], value_bytes: usize) -> Option<usize> {
        parts(splices, value_bytes, &mut [(0, 0, &[][..]); PARTS_MAX])
    }

    #[test]
    fn parts_come_from_the_end_to_the_start() {
        let splices = [splice(3, 1, b"x"), splice(10, 0, b"yy")];
        let mut buffer = [(0, 0, &[][..]); PARTS_MAX];
        assert_eq!(parts(&splices, 100, &mut buffer), Some(2));
        assert_eq!(buffer[..2], [(10, 0, &b"yy"[..]), (3, 1, &b"x"[..])]);
    }

    #[test]
    fn what_is_not_worth_it_or_not_in_order_is_written_whole() {
        assert_eq!(count(&[], 100), None);
        assert_eq!(count(&[splice(0, 60, &[7; 60])], 100), None, "most of the value");
        assert_eq!(count(&[splice(0, 40, &[7; 40])], 100), Some(1), "in place");
        assert_eq!(count(&[splice(0, 20, &[7; 21])], 100), None, "not in place, more than a tenth");
        assert_eq!(count(&[splice(5, 2, b"ab"), splice(6, 1, b"c")], 100), None, "overlapping");
        assert_eq!(count(&[splice(99, 2, b"ab")], 100), None, "beyond the end");
        assert_eq!(count(&vec![splice(0, 0, b""); 17], 1000), None, "too many");
        assert_eq!(count(&[splice(usize::MAX, 1, b"a")], 100), None);
    }
}
