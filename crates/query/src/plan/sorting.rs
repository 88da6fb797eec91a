//! Whether the keys of an index come in the order of a sort. Says no when unsure: then the documents are sorted.

use crate::{FieldKind, KeyPattern, Sort};

/// None if they do not; else whether the index must be walked from its end. `constant` tells of a field of the index whether all
/// keys of the plan have one value there. Only for an index in which each document has one key.
pub(super) fn order(pattern: &KeyPattern, sort: &Sort, constant: impl Fn(usize) -> bool) -> Option<bool> {
    let held = |path: &str| {
        pattern.fields.iter().enumerate().any(|(place, field)| field.path == path && constant(place))
    };
    let mut fields = pattern.fields.iter().enumerate();
    let mut backwards = None;
    for (path, descending) in &sort.fields {
        // What is the same in all documents sorts nothing.
        if held(path) {
            continue;
        }
        let (_, field) = fields.find(|(place, field)| field.path == *path || !constant(*place))?;
        let index_descends = match field.kind {
            FieldKind::Ascending => false,
            FieldKind::Descending => true,
            FieldKind::Hashed => return None,
        };
        if field.path != *path
            || *backwards.get_or_insert(index_descends != *descending) != (index_descends != *descending)
        {
            return None;
        }
    }
    Some(backwards.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn keys_come_in_order_forwards_or_backwards() {
        let pattern = KeyPattern::parse(&rawdoc! { "a": 1, "b": -1, "c": 1 }).unwrap();
        for (sort, constant, expected) in [
            (vec![("a", false)], 0, Some(false)),
            (vec![("a", true)], 0, Some(true)),
            (vec![("a", false), ("b", true)], 0, Some(false)),
            (vec![("a", true), ("b", false), ("c", true)], 0, Some(true)),
            (vec![("a", false), ("b", false)], 0, None),
            (vec![("b", true)], 0, None),
            (vec![("b", true)], 1, Some(false)),
            (vec![("b", false), ("a", true)], 1, Some(true)),
            (vec![("a", false), ("c", false)], 0, None),
            (vec![("c", true)], 2, Some(true)),
            (vec![("d", false)], 2, None),
            (vec![("c", false), ("d", false)], 2, None),
        ] {
            let sort =
                Sort { fields: sort.into_iter().map(|(path, down)| (path.to_owned(), down)).collect() };
            assert_eq!(order(&pattern, &sort, |place| place < constant), expected, "{sort:?} {constant}");
        }
    }
}
