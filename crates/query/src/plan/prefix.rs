//! The text that every match of a regular expression begins with, so that an index of strings can be walked between two of them.

use crate::filter::pattern::Pattern;

/// The prefix, if the expression is anchored and begins with plain characters.
pub(super) fn of(pattern: &Pattern) -> Option<String> {
    let (rest, at_line) = match pattern.source.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern.source.strip_prefix(r"\A")?, false),
    };
    let elsewhere = pattern.options.chars().any(|option| match option {
        'i' | 'x' => true,
        'm' => at_line,
        _ => false,
    });
    // With an alternative the anchor holds for one side only; an escaped bar costs no more than the index.
    if elsewhere || rest.contains('|') {
        return None;
    }
    let mut prefix = String::new();
    let mut characters = rest.chars();
    while let Some(next) = characters.next() {
        match next {
            // What these follow may be missing.
            '*' | '?' | '{' => {
                prefix.pop();
                break;
            }
            '\\' => match characters.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                _ => break,
            },
            '^' | '$' | '.' | '[' | '(' | ')' | '+' => break,
            plain => prefix.push(plain),
        }
    }
    (!prefix.is_empty()).then_some(prefix)
}

/// The least string that is greater than every string with the prefix; none if there is none.
pub(super) fn end(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // Characters are ordered in UTF-8 as by number; between two of them lie the surrogates, which are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_what_every_match_begins_with() {
        for (source, options, expected) in [
            ("^abc", "", Some("abc")),
            ("^abc", "s", Some("abc")),
            ("abc", "", None),
            ("^abc", "i", None),
            ("^abc", "m", None),
            (r"\Aabc", "m", Some("abc")),
            ("^abc*", "", Some("ab")),
            ("^a?", "", None),
            ("^ab{0,2}", "", Some("a")),
            ("^ab+c", "", Some("ab")),
            ("^ab.c", "", Some("ab")),
            (r"^a\.b", "", Some("a.b")),
            (r"^a\d", "", Some("a")),
            ("^ab|c", "", None),
            ("^ab(c|d)", "", None),
            ("^user1$", "", Some("user1")),
        ] {
            let pattern = Pattern::new(source, options).unwrap();
            assert_eq!(of(&pattern).as_deref(), expected, "/{source}/{options}");
        }
    }

    #[test]
    fn ends_are_beyond_the_prefix() {
        assert_eq!(end("abc").as_deref(), Some("abd"));
        assert_eq!(end("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(end("\u{10ffff}"), None);
    }
}
