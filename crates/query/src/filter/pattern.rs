//! Regular expressions of filters: MongoDB's are PCRE's, ours are run by `fancy-regex`. What means something else there is
//! rewritten ([`super::dialect`]); what it cannot do is refused with MongoDB's code for an invalid expression.

use std::sync::Arc;

use bson::{RawBsonRef, RawRegexRef};
use fancy_regex::{Regex, RegexBuilder};

use super::dialect;
use crate::{Code, Failure, Result};

/// MongoDB's code of an expression that does not compile.
const INVALID: Code = Code(51091);

/// MongoDB's code of an unknown option.
const INVALID_OPTION: Code = Code(51108);

/// How many bytes a compiled expression may take; PCRE's own limit is 64 KiB of its code.
const COMPILED_LIMIT_BYTES: usize = 4 << 20;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As the client wrote it.
    pub(crate) source: String,
    /// Of `imsux`, as the client wrote them.
    pub(crate) options: String,
    compiled: Arc<Regex>,
    /// The same with `$` standing before a last line feed, as it may in PCRE; only where it makes a difference.
    before_line_feed: Option<Arc<Regex>>,
}

impl Pattern {
    /// Compiles an expression with its options.
    pub(crate) fn new(source: &str, options: &str) -> Result<Pattern> {
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
        let plain = dialect::translate(source, extended, dialect::Dollar::AtEnd);
        let before_line_feed = match options.contains('m') {
            true => None,
            false => Some(dialect::translate(source, extended, dialect::Dollar::BeforeLineFeed))
                .filter(|translated| *translated != plain),
        };
        Ok(Pattern {
            source: source.to_owned(),
            options: options.to_owned(),
            compiled: compile(&plain, options)?,
            before_line_feed: before_line_feed.map(|translated| compile(&translated, options)).transpose()?,
        })
    }

    /// Compiles a value of type regular expression.
    pub(crate) fn of(value: RawRegexRef<'_>) -> Result<Pattern> {
        Pattern::new(value.pattern.as_str(), value.options.as_str())
    }

    /// Whether a string matches, or the value is this very expression.
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

/// Two patterns are the same when they were written the same.
impl PartialEq for Pattern {
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
        .delegate_size_limit(COMPILED_LIMIT_BYTES)
        .build()
        .map(Arc::new)
        .map_err(|error| Failure::new(INVALID, format!("Regular expression is invalid: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(source: &str, options: &str, text: &str) -> bool {
        Pattern::new(source, options).unwrap().finds(text).unwrap()
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
        assert_eq!(Pattern::new("(", "").unwrap_err().code(), INVALID);
        assert_eq!(Pattern::new("a", "g").unwrap_err().code(), INVALID_OPTION);
        assert_eq!(Pattern::new("a\0b", "").unwrap_err().code(), Code::BadValue);
    }
}
