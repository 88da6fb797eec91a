//! Regular expressions of filters, which are PCRE's in MongoDB and are run by `fancy-regex` here.
//!
//! If both accept the same syntax with different meanings, the pattern is rewritten: `$` before a last line feed, classes
//! such as `\d` that are ASCII in PCRE, `\Q...\E`, literal braces, brackets within brackets. Everything else is unchanged, so
//! that the compiler refuses unknown syntax with MongoDB's code for an invalid expression.

use std::sync::Arc;

use bson::{RawBsonRef, RawRegexRef};
use fancy_regex::{Regex, RegexBuilder};

use crate::{Code, Failure, Result};

/// MongoDB's code of an expression that does not compile.
const INVALID: Code = Code(51091);

/// MongoDB's code of an unknown option.
const INVALID_OPTION: Code = Code(51108);

/// The most bytes of a compiled expression; PCRE's own limit is 64 KiB of its code.
const MAX_COMPILED_BYTES: usize = 4 << 20;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) struct RegexPattern {
    /// As the client wrote it.
    pub(crate) source: String,
    /// The options, of `imsux`, as the client wrote them.
    pub(crate) options: String,
    compiled: Arc<Regex>,
    /// The same expression with `$` matching before a last line feed, as in PCRE; only if that makes a difference.
    before_line_feed: Option<Arc<Regex>>,
}

impl RegexPattern {
    /// Compiles an expression with its options.
    pub(crate) fn new(source: &str, options: &str) -> Result<RegexPattern> {
        if source.contains('\0') {
            return Err(Failure::new(
                Code::BadValue,
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        if let Some(unknown) = options.chars().find(|option| !"imsux".contains(*option)) {
            return Err(Failure::new(INVALID_OPTION, format!("invalid flag in regex options: {unknown}")));
        }
        let extended = options.contains('x');
        let plain = translate(source, extended, Dollar::AtEnd);
        let before_line_feed = match options.contains('m') {
            true => None,
            false => Some(translate(source, extended, Dollar::BeforeLineFeed))
                .filter(|translated| *translated != plain),
        };
        Ok(RegexPattern {
            source: source.to_owned(),
            options: options.to_owned(),
            compiled: compile(&plain, options)?,
            before_line_feed: before_line_feed.map(|translated| compile(&translated, options)).transpose()?,
        })
    }

    /// Compiles a value of type regular expression.
    pub(crate) fn from_value(value: RawRegexRef<'_>) -> Result<RegexPattern> {
        RegexPattern::new(value.pattern.as_str(), value.options.as_str())
    }

    /// Whether a string matches, or the value is the same expression.
    pub(crate) fn holds(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => self.finds(text),
            RawBsonRef::RegularExpression(other) => {
                Ok(other.pattern.as_str() == self.source && other.options.as_str() == self.options)
            }
            _ => Ok(false),
        }
    }

    /// Whether it matches somewhere in a text.
    pub(crate) fn finds(&self, text: &str) -> Result<bool> {
        let regex = match &self.before_line_feed {
            Some(regex) if text.ends_with('\n') => regex,
            _ => &self.compiled,
        };
        regex.is_match(text).map_err(|error| {
            Failure::new(INVALID, format!("Regular expression /{}/ cannot be run: {error}", self.source))
        })
    }
}

/// Two patterns are equal if their source and options are equal.
impl PartialEq for RegexPattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.options == other.options
    }
}

fn compile(translated: &str, options: &str) -> Result<Arc<Regex>> {
    RegexBuilder::new(translated)
        .case_insensitive(options.contains('i'))
        .multi_line(options.contains('m'))
        .dot_matches_new_line(options.contains('s'))
        .ignore_whitespace(options.contains('x'))
        .delegate_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map(Arc::new)
        .map_err(|error| Failure::new(INVALID, format!("Regular expression is invalid: {error}")))
}

/// The translation of `$` outside a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dollar {
    /// Itself: the very end.
    AtEnd,
    /// The end, or before a last line feed.
    BeforeLineFeed,
}

/// Translates the pattern to the other dialect; `extended` if white space and comments in it are skipped (option `x`).
fn translate(pattern: &str, extended: bool, dollar: Dollar) -> String {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() + 8) };
    while let Some(next) = translator.next() {
        match next {
            '\\' => translator.escape(false),
            '[' => translator.class(),
            '$' if dollar == Dollar::BeforeLineFeed => translator.out.push_str(r"(?=\n?\z)"),
            '{' if !is_repetition(translator.rest) => translator.out.push_str(r"\{"),
            '#' if extended => translator.comment(),
            other => translator.out.push(other),
        }
    }
    translator.out
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

impl Translator<'_> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    /// Translates the characters after a backslash.
    fn escape(&mut self, in_class: bool) {
        let Some(next) = self.next() else {
            self.out.push('\\');
            return;
        };
        // Within a class the members are listed; a negated class becomes a nested class.
        let (open, close) = if in_class { ("", "") } else { ("[", "]") };
        match next {
            'd' => self.out.extend([open, "0-9", close]),
            'w' => self.out.extend([open, "0-9A-Za-z_", close]),
            's' => self.out.extend([open, r" \t\n\x0b\x0c\r", close]),
            'h' => self.out.extend([open, r" \t\x{a0}", close]),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str(r"[^ \t\n\x0b\x0c\r]"),
            'H' => self.out.push_str(r"[^ \t\x{a0}]"),
            'e' => self.out.push_str(r"\x1b"),
            'Q' => self.quoted(),
            'E' => {}
            other => self.out.extend(['\\', other]),
        }
    }

    /// Translates the literal characters from `\Q` to `\E` or the end.
    fn quoted(&mut self) {
        let (text, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
        for character in text.chars() {
            if character.is_ascii_punctuation() || character == ' ' {
                self.out.push('\\');
            }
            self.out.push(character);
        }
        self.rest = rest;
    }

    /// Translates a class, after its opening bracket.
    fn class(&mut self) {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.out.push('^');
            self.rest = rest;
        }
        if let Some(rest) = self.rest.strip_prefix(']') {
            self.out.push_str(r"\]");
            self.rest = rest;
        }
        while let Some(next) = self.next() {
            match next {
                ']' => {
                    self.out.push(']');
                    return;
                }
                '[' if self.rest.starts_with(':') => match self.rest.split_once(":]") {
                    Some((name, rest)) => {
                        self.out.extend(["[", name, ":]"]);
                        self.rest = rest;
                    }
                    None => self.out.push_str(r"\["),
                },
                '\\' => self.escape(true),
                '[' | '&' | '~' | '#' | ' ' => self.out.extend(['\\', next]),
                other => self.out.push(other),
            }
        }
    }

    /// Skips a comment to the end of the line.
    fn comment(&mut self) {
        let (_, rest) = self.rest.split_once('\n').unwrap_or(("", ""));
        self.rest = rest;
    }
}

/// Whether what follows an opening brace makes it a count: `3}`, `3,}`, `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((counts, _)) = rest.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(source: &str, options: &str, text: &str) -> bool {
        RegexPattern::new(source, options).unwrap().finds(text).unwrap()
    }

    #[test]
    fn options_mean_what_pcre_means() {
        assert!(!finds("ABC", "", "abc"));
        assert!(finds("ABC", "i", "xabcx"));
        assert!(!finds("^b", "", "a\nb"));
        assert!(finds("^b", "m", "a\nb"));
        assert!(!finds("a.b", "", "a\nb"));
        assert!(finds("a.b", "s", "a\nb"));
        assert!(finds("a b # both\n c", "x", "abc"));
        assert!(!finds("a b", "", "ab"));
    }

    #[test]
    fn pcre_syntax_that_means_something_else_elsewhere_is_rewritten() {
        for (source, text, expected) in [
            ("a$", "a\n", true),
            ("a$", "a\n\n", false),
            (r"a\z", "a\n", false),
            (r"[$]", "$\n", true),
            (r"\d", "٣", false),
            (r"\w", "é", false),
            (r"[\w-]+$", "a-b", true),
            (r"[^\d]", "7", false),
            (r"[\D]", "7", false),
            (r"[\D]", "x", true),
            (r"[[a]", "[", true),
            (r"[a&&b]", "&", true),
            (r"[]a]", "]", true),
            (r"[^]a]", "]", false),
            (r"[[:digit:]]", "5", true),
            (r"\Qa.b\E+", "a.bb", true),
            (r"\Qa.b\E", "axb", false),
            (r"a{", "a{", true),
            (r"a{,3}", "a{,3}", true),
            (r"a{2}", "aa", true),
            (r"\h", "\t", true),
            (r"(?<=a)b", "ab", true),
            (r"(a)\1", "aa", true),
            (r"^(?:x|y)++z", "xyz", true),
            (r"\/", "/", true),
        ] {
            assert_eq!(finds(source, "", text), expected, "/{source}/ in {text:?}");
        }
    }

    #[test]
    fn what_cannot_be_compiled_is_refused() {
        assert_eq!(RegexPattern::new("(", "").unwrap_err().code(), INVALID);
        assert_eq!(RegexPattern::new("a", "g").unwrap_err().code(), INVALID_OPTION);
        assert_eq!(RegexPattern::new("a\0b", "").unwrap_err().code(), Code::BadValue);
    }
}
