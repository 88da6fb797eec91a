//! Where the document lies in the text, looked for before it is parsed.
//!
//! What scripts feed besides JSON5 is dealt with here: what follows the last brace (a heredoc's newlines, `;`,
//! Ctrl-Z, a zero byte), and the shell's `NumberInt(16)`. It refuses deep nesting, which a recursive parser would
//! answer by running out of stack.

use fathom_errors::{Error, Kind, Result};

use super::document::quoted;

/// Brackets within brackets; the document of options is flat.
const DEPTH_MAX: usize = 32;
/// What the shell may wrap a number in.
const WRAPPERS: [&str; 2] = ["NumberInt(", "NumberLong("];

/// Where the document lies in the text.
pub(super) struct Extent {
    /// The document, for a parser of JSON5.
    pub(super) document: String,
    /// The beginning of what follows it and is no blank, quoted.
    pub(super) rest: Option<String>,
}

impl Extent {
    /// Looks at `text`.
    ///
    /// # Errors
    /// Where no document begins, or one has no end.
    pub(super) fn of(text: &str) -> Result<Extent> {
        let mut scan = Scan { text, at: 0 };
        scan.skip_blank();
        if scan.rest().is_empty() {
            let what = "there is no document of options";
            return Err(Error::new(Kind::Malformed, what)
                .advise("feed one like {nThreads:16, fileSizeMB:1000, r:true, w:true}"));
        }
        if !scan.rest().starts_with('{') {
            let found: String = scan.rest().chars().take(20).collect();
            let what = format!("the document of options begins with {} and not with '{{'", quoted(&found));
            return Err(Error::new(Kind::Malformed, what));
        }
        let document = scan.document()?;
        scan.skip_blank();
        let rest: String = scan.rest().chars().take(40).collect();
        Ok(Extent { document, rest: (!rest.is_empty()).then(|| quoted(&rest)) })
    }
}

/// A look at the text that knows strings and comments, and nothing else.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The length of a comment that begins here; an open one ends with the text.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        if rest.starts_with("//") {
            return Some(rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len()));
        }
        let inside = rest.strip_prefix("/*")?;
        Some(inside.find("*/").map_or(rest.len(), |end| end + 4))
    }

    /// Passes white space, comments, and what shells and DOS leave at the end.
    fn skip_blank(&mut self) {
        loop {
            let blank = |c: char| c.is_whitespace() || matches!(c, ';' | '\0' | '\u{1a}' | '\u{feff}');
            self.at = self.text.len() - self.rest().trim_start_matches(blank).len();
            match self.comment() {
                Some(len) => self.at += len,
                None => return,
            }
        }
    }

    /// Passes one document and gives it back without the shell's wrappers around numbers.
    fn document(&mut self) -> Result<String> {
        let (mut out, mut depth, mut wrapped) = (String::new(), 0, false);
        while let Some(c) = self.rest().chars().next() {
            let (from, mut keep) = (self.at, true);
            self.at += match c {
                '"' | '\'' => string_len(self.rest(), c),
                '/' => self.comment().unwrap_or(1),
                'N' => {
                    let wrapper = WRAPPERS.iter().find(|wrapper| self.rest().starts_with(**wrapper));
                    (keep, wrapped) = (wrapper.is_none(), wrapped || wrapper.is_some());
                    wrapper.map_or(1, |wrapper| wrapper.len())
                }
                ')' if wrapped => {
                    (keep, wrapped) = (false, false);
                    1
                }
                _ => c.len_utf8(),
            };
            if keep {
                out.push_str(self.text.get(from..self.at).unwrap_or_default());
            }
            match c {
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(out);
            }
            if depth > DEPTH_MAX {
                return Err(Error::new(Kind::Malformed, "the document of options is nested too deeply"));
            }
        }
        let what = "the document of options has no end";
        Err(Error::new(Kind::Malformed, what).advise("close every brace, quote and comment in it"))
    }
}

/// Bytes of the string at the start of `text`, quotes included; an open one ends with the text.
fn string_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
