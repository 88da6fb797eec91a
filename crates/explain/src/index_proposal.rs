//! Proposes the index that would serve the shape of a query: fields that are compared for equality, then the sort, then ranges.
//!
//! The order is that of MongoDB's guideline for compound indexes (mongodb.com/docs/manual/tutorial/equality-sort-range-guideline). A shape
//! holds no values, so how many documents a field selects is not known: the index is a proposal.

/// The fields of the index with their directions; `None` if the shape filters nothing, or by a condition that one index does not serve.
fn index_fields(shape: &str) -> Option<Vec<(String, &'static str)>> {
    let filter =
        ["filter: {", "query: {", "q: {", "$match: {"].iter().find_map(|begin| document(shape, begin));
    let (mut equal, mut ranges) = (Vec::new(), Vec::new());
    for (name, value) in filter.map(fields)?? {
        let is_equal = value.starts_with('?') || value.starts_with("{ $in:") || value.starts_with("{ $eq:");
        if is_equal { equal.push((name, "1")) } else { ranges.push((name, "1")) }
    }
    let sort = ["sort: {", "$sort: {"].iter().find_map(|begin| document(shape, begin));
    let sort = sort.and_then(fields).unwrap_or_default();
    let sorted = sort.into_iter().map(|(name, value)| (name, if value == "-1" { "-1" } else { "1" }));
    let mut all: Vec<(String, &'static str)> = Vec::new();
    for (name, direction) in equal.into_iter().chain(sorted).chain(ranges) {
        if !all.iter().any(|(one, _)| *one == name) {
            all.push((name, direction));
        }
    }
    (!all.is_empty() && all.first().is_none_or(|(name, _)| name != "_id")).then_some(all)
}

/// The text within the braces that open at the end of `begin`.
fn document<'s>(shape: &'s str, begin: &str) -> Option<&'s str> {
    let (_, rest) = shape.split_once(begin)?;
    let mut depth = 1_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest.get(..at);
        }
    }
    None
}

/// The fields of a document with their values; `None` if a name is an operator or not known.
fn fields(document: &str) -> Option<Vec<(String, String)>> {
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for letter in document.chars() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let field = |part: &String| {
        let (name, value) = part.trim().split_once(": ")?;
        let name = name.trim_matches('"');
        is_plain(name).then(|| (name.to_owned(), value.to_owned()))
    };
    parts.iter().filter(|part| !part.trim().is_empty()).map(field).collect()
}

/// Whether a name can be written into a command as it is.
fn is_plain(name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_of_name)
}

/// The command that makes the index for a shape on a collection, marked as a proposal. `None` if there is none to propose. It has the namespace
/// as one word, so that a page without names has no part of it.
pub(crate) fn index_command(namespace: &str, shape: &str) -> Option<String> {
    let is_collection = is_plain(namespace) && namespace.contains('.');
    let fields = index_fields(shape).filter(|_| is_collection)?;
    let keys: Vec<String> =
        fields.iter().map(|(name, direction)| format!("\"{name}\": {direction}")).collect();
    Some(format!(
        "mongosh --eval 'db.getMongo().getCollection(\"{namespace}\").createIndex({{{}}})'    # a proposal for {shape}: try it on a copy; the build takes the server's time too",
        keys.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(shape: &str) -> Option<String> {
        let command = index_command("shop.orders", shape)?;
        let keys = command.split_once("createIndex({")?.1.split_once("})")?.0;
        Some(keys.to_owned())
    }

    #[test]
    fn equal_fields_come_first_then_the_sort_then_ranges() {
        for (shape, expected) in [
            ("{ filter: { user: ? } }", "\"user\": 1"),
            (
                "{ filter: { at: { $gt: ? }, user: ? }, sort: { n: -1, at: 1 } }",
                "\"user\": 1, \"n\": -1, \"at\": 1",
            ),
            (
                "{ pipeline: [{ $match: { a: { $in: [?] }, b: { $lt: ? } } }, { $sort: { c: 1 } }, { $limit: ? }] }",
                "\"a\": 1, \"c\": 1, \"b\": 1",
            ),
            ("{ q: { a.b: ? }, u: { $set: ? } }", "\"a.b\": 1"),
        ] {
            assert_eq!(keys(shape).as_deref(), Some(expected), "{shape}");
        }
        let command = index_command("shop.orders", "{ filter: { user: ? } }").unwrap();
        assert!(command.contains("getCollection(\"shop.orders\").createIndex"), "{command}");
        assert!(command.contains("# a proposal for"), "{command}");
    }

    #[test]
    fn what_one_index_does_not_serve_gets_no_proposal() {
        for shape in [
            "",
            "{ filter: {} }",
            "{ filter: { $or: [{ a: ? }, { b: ? }] } }",
            "{ filter: { a.?: ? } }",
            "{ filter: { it's: ? } }",
            "{ filter: { _id: ? } }",
            "{ filter: { a: ?",
        ] {
            assert_eq!(keys(shape), None, "{shape}");
        }
        assert_eq!(index_command("shop.it's", "{ filter: { a: ? } }"), None);
    }
}
