//! Text for a terminal: text of others is made safe, sentences break at spaces, and figures have the same format in all
//! tables.
//!
//! Characters that would move a cursor, change a colour or turn the direction of writing are shown as escapes.

use fathom_units::{Bytes, Nanos};

/// `text` with control characters and marks of direction as escapes (`\u{1b}`), and line breaks as blanks.
pub fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => clean.push(' '),
            c if c.is_control() || turns(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// Marks that turn the direction of writing, by which a name can be made to look like another (Unicode Standard Annex 9).
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// `text` cut to `width` characters, with an ellipsis if something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// `text` in lines of at most `width` characters; the first line begins with `first`, the others with `rest`. A
/// word longer than a line (a path) gets a line of its own, complete.
pub(crate) fn wrap(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// A sentence in lines of at most `width` characters, for texts that other crates compose.
pub fn wrapped(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    wrap(text, first, rest, width)
}

/// A time in microseconds, which may be negative if it is a difference.
pub(crate) fn time_us(us: f64) -> String {
    let sign = if us < 0.0 { "-" } else { "" };
    format!("{sign}{}", Nanos((us.abs() * 1000.0).round() as u64))
}

/// Bytes. Negative values count as 0.
pub(crate) fn bytes(value: f64) -> String {
    Bytes(value.max(0.0).round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\nd\u{9b}"), "a\\u{1b}[2Jb\\u{202e}c d\\u{9b}");
        assert_eq!(printable("plain µs …"), "plain µs …");
        assert_eq!((cut("abcdef", 6), cut("abc efg", 5)), ("abcdef".to_owned(), "abc…".to_owned()));
    }
}
