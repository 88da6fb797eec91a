//! Breaks sentences at spaces.

/// `text` in lines of at most `width` characters; the first line begins with `first`, the others with `rest`. A
/// word longer than a line (a path) gets a line of its own, whole.
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

/// A sentence in lines of at most `width` characters, for texts that are put together elsewhere.
pub fn wrapped(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    wrap(text, first, rest, width)
}
