//! The syntax of Java's property files (java.util.Properties.load).
//!
//! Text is ISO-8859-1, as in Java. A line that begins with `#` or `!` is a comment, and a backslash at its end continues a line.
//! Key and value are separated by `=`, `:` or blanks. Blanks before a value are dropped and those after it are kept. The only
//! possible error is a `\u` without four hexadecimal digits.

use fathom_errors::{Error, Kind};

/// One entry of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PropertyEntry {
    pub(super) key: String,
    pub(super) value: String,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
}

/// Reads the entries of a file in their order; a key may occur several times.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<PropertyEntry>, Error> {
    logical_lines(bytes)
        .into_iter()
        .map(|(line, text)| {
            let end = key_end(&text);
            let (key, rest) = text.split_at(end);
            Ok(PropertyEntry {
                key: unescape(key, line)?,
                value: unescape(behind_separator(rest), line)?,
                line,
            })
        })
        .collect()
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\x0c')
}

/// The lines with content, with continued ones joined, each with its number.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, Vec<char>)> {
    let text: Vec<char> = bytes.iter().map(|byte| char::from(*byte)).collect();
    let mut lines = Vec::new();
    // The text of the continued lines so far, and the number of their first line.
    let mut open: Option<(usize, Vec<char>)> = None;
    for (number, line) in natural_lines(&text).into_iter().enumerate() {
        let blanks = line.iter().take_while(|character| is_blank(**character)).count();
        let line = line.get(blanks..).unwrap_or_default();
        if open.is_none() && matches!(line.first(), None | Some('#' | '!')) {
            continue;
        }
        let (begun, mut joined) = open.take().unwrap_or((number + 1, Vec::new()));
        let backslashes = line.iter().rev().take_while(|character| **character == '\\').count();
        if backslashes % 2 == 1 {
            joined.extend(line.get(..line.len() - 1).unwrap_or_default());
            open = Some((begun, joined));
        } else {
            joined.extend(line);
            lines.push((begun, joined));
        }
    }
    // A file may end in the middle of a continued line.
    lines.extend(open);
    lines
}

/// The lines as in the file; a line ends with a carriage return, a line feed, or both.
fn natural_lines(text: &[char]) -> Vec<&[char]> {
    let mut lines: Vec<&[char]> = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.iter().position(|character| matches!(character, '\n' | '\r')) {
        let (line, behind) = rest.split_at(end);
        lines.push(line);
        let ending = if behind.starts_with(&['\r', '\n']) { 2 } else { 1 };
        rest = behind.get(ending..).unwrap_or_default();
    }
    lines.push(rest);
    lines
}

/// The end of the key: the first `=`, `:` or blank that no backslash precedes.
fn key_end(text: &[char]) -> usize {
    let mut escaped = false;
    for (place, &character) in text.iter().enumerate() {
        if !escaped && (matches!(character, '=' | ':') || is_blank(character)) {
            return place;
        }
        escaped = character == '\\' && !escaped;
    }
    text.len()
}

/// The text after blanks, one `=` or `:`, and blanks.
fn behind_separator(rest: &[char]) -> &[char] {
    let skip = |text: &'_ [char]| text.iter().take_while(|character| is_blank(**character)).count();
    let rest = rest.get(skip(rest)..).unwrap_or_default();
    let rest = match rest.split_first() {
        Some(('=' | ':', behind)) => behind,
        _ => rest,
    };
    rest.get(skip(rest)..).unwrap_or_default()
}

fn unescape(text: &[char], line: usize) -> Result<String, Error> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&character) = rest.next() {
        let plain = if character == '\\' {
            match rest.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    units.push(unit_of(&digits, line)?);
                    continue;
                }
                Some(&other) => other,
            }
        } else {
            character
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Ok(String::from_utf16_lossy(&units))
}

fn unit_of(digits: &str, line: usize) -> Result<u16, Error> {
    let is_hexadecimal = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal).ok_or_else(|| {
        Error::new(
            Kind::Usage,
            format!("line {line}: '\\u{digits}' is not a character; \\u takes four hexadecimal digits"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text.as_bytes()).unwrap().into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut all = pairs(text);
        assert_eq!(all.len(), 1, "{text:?}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn keys_and_values_are_parted_as_in_java() {
        for text in [
            "a=b",
            "a:b",
            "a b",
            "a = b",
            "  a\t:\tb",
            "a=b\n",
            "# x\n! y\n\n \ta=b\r\n",
            "a=\\\n   b",
            "\\u0061=\\u0062",
        ] {
            assert_eq!(one(text), ("a".to_owned(), "b".to_owned()), "{text:?}");
        }
        for (text, key, value) in [
            ("a=b=c", "a", "b=c"),
            ("a==b", "a", "=b"),
            ("a", "a", ""),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("threadcount=32 ", "threadcount", "32 "),
            ("a\\ b\\==c", "a b=", "c"),
            ("a=b\\\\\n", "a", "b\\"),
            ("a=1,\\\n   2,\\\n 3", "a", "1,2,3"),
            ("a=b\\\n# no comment", "a", "b# no comment"),
            ("a=\\tx\\ny\\qz", "a", "\tx\nyqz"),
            ("path=c:\\\\temp", "path", "c:\\temp"),
            ("a=b\\", "a", "b"),
        ] {
            assert_eq!(one(text), (key.to_owned(), value.to_owned()), "{text:?}");
        }
        assert_eq!(parse(b"a=\xe9").unwrap()[0].value, "é");
        assert!(pairs("#a=b\\\n").is_empty());
    }

    #[test]
    fn lines_are_counted() {
        let entries = parse(b"# one\na=1\r\n\r\nb=2\\\n  3\nc=4").unwrap();
        let lines: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.line)).collect();
        assert_eq!(lines, [("a", 2), ("b", 4), ("c", 6)]);
    }

    #[test]
    fn a_character_that_is_none_is_an_error_with_its_line() {
        for text in ["\n\na=\\u12", "\n\na=\\u12g4", "\n\na=\\u+123"] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("line 3"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
