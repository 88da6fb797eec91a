//! Dotted paths of updates: their parts, their syntax, and their order and conflicts.
use super::storage::{MAX_DEPTH, dollar_prefixed, too_deep};
use crate::{Code, Failure, Result};
use std::cmp::Ordering;

/// The meaning of a part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathPart<'a> {
    /// A field or an index.
    Name(&'a str),
    /// `$`: the element that the filter matched.
    Matched,
    /// `$[]`, which means every element.
    Every,
    /// `$[identifier]`: the elements that an array filter matches.
    Filtered(&'a str),
}

impl<'a> PathPart<'a> {
    pub(super) fn from_text(text: &'a str) -> PathPart<'a> {
        match text {
            "$" => PathPart::Matched,
            "$[]" => PathPart::Every,
            _ => match text.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
                Some(identifier) => PathPart::Filtered(identifier),
                None => PathPart::Name(text),
            },
        }
    }

    fn is_array_part(self) -> bool {
        matches!(self, PathPart::Every | PathPart::Filtered(_))
    }
}

/// Whether the path has a part other than names, so that it depends on the document.
pub(super) fn is_dynamic(path: &str) -> bool {
    path.contains('$') && path.split('.').any(|part| !matches!(PathPart::from_text(part), PathPart::Name(_)))
}

/// An array index: digits without needless zeros.
pub(super) fn index_of(part: &str) -> Option<usize> {
    let plain = part == "0" || !part.starts_with('0');
    (plain && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok()).flatten()
}

/// Compares part by part, so that a path comes directly before those that it leads to.
pub(super) fn order(left: &str, right: &str) -> Ordering {
    left.split('.').cmp(right.split('.'))
}

/// Whether `path` is `longer` or leads to it.
pub(super) fn leads_to(path: &str, longer: &str) -> bool {
    longer.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The path as indexes name it: without positions in arrays.
pub(super) fn indexed_path(path: &str) -> String {
    if !path.contains('.') {
        return path.to_string();
    }
    let names = path.split('.').enumerate().filter(|(depth, part)| {
        *depth == 0 || (matches!(PathPart::from_text(part), PathPart::Name(_)) && index_of(part).is_none())
    });
    names.map(|(_, part)| part).collect::<Vec<_>>().join(".")
}

/// Checks the path of an operator; `writes` is false where the path is only taken away.
pub(super) fn check(path: &str, writes: bool) -> Result<()> {
    // The common case, a plain name, needs no further check.
    if !path.is_empty() && !path.bytes().any(|byte| byte == b'.' || byte == b'$') {
        return Ok(());
    }
    if path.is_empty() {
        return Err(Failure::new(Code::EmptyFieldName, "An empty update path is not valid."));
    }
    let mut positions = 0;
    for (depth, text) in path.split('.').enumerate() {
        let part = PathPart::from_text(text);
        if text.is_empty() {
            let message =
                format!("The update path '{path}' contains an empty field name, which is not allowed.");
            return Err(Failure::new(Code::EmptyFieldName, message));
        }
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        positions += usize::from(part == PathPart::Matched);
        if positions > 1 {
            let message = format!("Too many positional (i.e. '$') elements found in path '{path}'");
            return Err(Failure::new(Code::BadValue, message));
        }
        if depth == 0 && !matches!(part, PathPart::Name(_)) {
            let what = match part.is_array_part() {
                true => "array filter identifier (i.e. '$[<id>]')",
                false => "positional (i.e. '$')",
            };
            let message = format!("Cannot have {what} element in the first position in path '{path}'");
            return Err(Failure::new(Code::BadValue, message));
        }
        let reference = depth > 0 && matches!(text, "$ref" | "$id" | "$db");
        if writes && matches!(part, PathPart::Name(_)) && text.starts_with('$') && !reference {
            return Err(dollar_prefixed(text, path));
        }
    }
    Ok(())
}

/// Checks that no two paths write the same field. `sorted` has the paths in their order, each with its place in the update.
pub(super) fn check_conflicts(sorted: &[(&str, usize)]) -> Result<()> {
    let mut first: Option<(usize, String)> = None;
    for pair in sorted.windows(2) {
        let [(left, left_place), (right, right_place)] = pair else { continue };
        let Some(conflict) = conflict(left, right) else { continue };
        let (later, later_place) =
            if left_place > right_place { (left, *left_place) } else { (right, *right_place) };
        if first.as_ref().is_none_or(|(place, _)| later_place < *place) {
            let message = format!("Updating the path '{later}' would create a conflict at '{conflict}'");
            first = Some((later_place, message));
        }
    }
    match first {
        Some((_, message)) => Err(Failure::new(Code::ConflictingUpdateOperators, message)),
        None => Ok(()),
    }
}

/// The path at which two paths conflict, if they do; `left` comes first in order.
fn conflict<'a>(left: &'a str, right: &str) -> Option<&'a str> {
    if leads_to(left, right) {
        return Some(left);
    }
    let mut shared = 0;
    for (left_part, right_part) in left.split('.').zip(right.split('.')) {
        if left_part != right_part {
            // One path would enter an array by filter, the other by name.
            let mixed = PathPart::from_text(left_part).is_array_part()
                != PathPart::from_text(right_part).is_array_part();
            return mixed.then(|| left.get(..shared)).flatten().map(|parent| parent.trim_end_matches('.'));
        }
        shared += left_part.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_indexes() {
        assert_eq!(PathPart::from_text("$[x]"), PathPart::Filtered("x"));
        assert_eq!(PathPart::from_text("$[]"), PathPart::Every);
        assert_eq!(PathPart::from_text("$["), PathPart::Name("$["));
        assert_eq!(index_of("10"), Some(10));
        assert_eq!((index_of("01"), index_of(""), index_of("-1"), index_of("1a")), (None, None, None, None));
        assert_eq!(indexed_path("a.$[].b.3.c"), "a.b.c");
        assert_eq!(indexed_path("0.a"), "0.a");
    }

    #[test]
    fn order_puts_a_path_right_before_what_it_leads_to() {
        let mut paths = ["a.b", "a-b", "a", "a.b.c", "b"];
        paths.sort_by(|left, right| order(left, right));
        assert_eq!(paths, ["a", "a.b", "a.b.c", "a-b", "b"]);
        assert!(leads_to("a", "a.b") && leads_to("a", "a") && !leads_to("a", "ab"));
    }

    #[test]
    fn conflicts_name_the_shorter_path() {
        let message = |paths: &[(&str, usize)]| check_conflicts(paths).unwrap_err().message().to_string();
        assert_eq!(message(&[("a", 1), ("a.b", 0)]), "Updating the path 'a' would create a conflict at 'a'");
        assert_eq!(
            message(&[("a.b", 0), ("a.b.c", 1)]),
            "Updating the path 'a.b.c' would create a conflict at 'a.b'"
        );
        assert_eq!(
            message(&[("a.$[]", 1), ("a.b", 0)]),
            "Updating the path 'a.$[]' would create a conflict at 'a'"
        );
        assert!(check_conflicts(&[("a.b", 0), ("a.c", 1), ("ab", 2)]).is_ok());
    }
}
