//! Text that others wrote, made safe for a terminal: what would move a cursor, change a colour or turn the direction of writing is
//! shown as what it is.

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

/// `text` cut to `width` characters, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
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
