//! Parses the document that mongoperf reads: its position in the text, its fields in the order they were written, and the line that
//! echoes them.
//!
//! JSON5 covers unquoted keys, single quotes, comments and trailing commas; other input from scripts is handled before parsing:
//! text after the last brace (a heredoc's newlines, `;`, Ctrl-Z, a zero byte), and the shell's `NumberInt(16)`. A map would lose
//! the order, and a JSON value the difference between NaN and null.
//!
//! It refuses deep nesting, on which a recursive parser would overflow its stack.

use std::fmt;

use fathom_errors::{Error, Kind, Result};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A field's value, in the forms that an option can have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OptionValue {
    Null,
    Bool(bool),
    Integer(i128),
    Double(f64),
    Text(String),
    List,
    Document,
}

impl OptionValue {
    /// The name of its type, for a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            OptionValue::Null => "null",
            OptionValue::Bool(_) => "a boolean",
            OptionValue::Integer(_) | OptionValue::Double(_) => "a number",
            OptionValue::Text(_) => "a text",
            OptionValue::List => "a list",
            OptionValue::Document => "a document",
        }
    }
}

impl fmt::Display for OptionValue {
    /// As BSON documents were printed: `16`, `16.0`, `true`, `"text"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Null => f.write_str("null"),
            OptionValue::Bool(value) => write!(f, "{value}"),
            OptionValue::Integer(value) => write!(f, "{value}"),
            OptionValue::Double(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            OptionValue::Double(value) => write!(f, "{value:?}"),
            OptionValue::Text(text) => f.write_str(&quoted(text)),
            OptionValue::List => f.write_str("[ ... ]"),
            OptionValue::Document => f.write_str("{ ... }"),
        }
    }
}

/// The fields of a document, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MongoperfDocument {
    pub(super) fields: Vec<(String, OptionValue)>,
    /// Text after the document other than white space.
    pub(super) rest: Option<String>,
}

impl MongoperfDocument {
    /// Reads `text` up to the end of its first document.
    ///
    /// # Errors
    /// If there is none, or it breaks the grammar.
    pub(super) fn parse(text: &str) -> Result<MongoperfDocument> {
        let text = text.trim_start_matches('\u{feff}');
        let extent = Extent::parse(text)?;
        let fields: MongoperfFields = json5::from_str(&extent.document).map_err(|e| {
            Error::new(Kind::Malformed, "the options document is not JSON")
                .because(e)
                .advise("write it like {nThreads:16, fileSizeMB:1000, r:true, w:true}")
        })?;
        Ok(MongoperfDocument { fields: fields.0, rest: extent.rest })
    }
}

impl fmt::Display for MongoperfDocument {
    /// `{ nThreads: 16, r: true }`, on one line whatever the keys hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$');
        let plain = |key: &str| key.starts_with(first) && key.chars().all(|c| c.is_ascii_digit() || first(c));
        f.write_str("{")?;
        for (index, (key, value)) in self.fields.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let key = if plain(key) { key.clone() } else { quoted(key) };
            write!(f, "{comma} {key}: {value}")?;
        }
        f.write_str(if self.fields.is_empty() { "}" } else { " }" })
    }
}

/// Keeps the order of fields, and repeated fields.
struct MongoperfFields(Vec<(String, OptionValue)>);

impl<'de> Deserialize<'de> for MongoperfFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = MongoperfFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MongoperfFields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(MongoperfFields(fields))
    }
}

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = OptionValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<OptionValue, E> {
        Ok(OptionValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<OptionValue, E> {
        Ok(OptionValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OptionValue, E> {
        Ok(OptionValue::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OptionValue, E> {
        Ok(OptionValue::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<OptionValue, E> {
        Ok(OptionValue::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<OptionValue, E> {
        Ok(i128::try_from(value).map_or(OptionValue::Double(value as f64), OptionValue::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OptionValue, E> {
        Ok(OptionValue::Double(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<OptionValue, E> {
        Ok(OptionValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OptionValue, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(OptionValue::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptionValue, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(OptionValue::Document)
    }
}

/// The largest nesting depth; the document of options is flat.
const MAX_DEPTH: usize = 32;
/// The functions that the shell may wrap a number in.
const WRAPPERS: [&str; 2] = ["NumberInt(", "NumberLong("];

/// The text between quotes, with line breaks escaped.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"?\"".into())
}

/// The position of the document in the text.
pub(super) struct Extent {
    /// The document, for a parser of JSON5.
    pub(super) document: String,
    /// The beginning of the non-blank text after it, quoted.
    pub(super) rest: Option<String>,
}

impl Extent {
    /// Finds the document in `text`.
    ///
    /// # Errors
    /// If no document begins, or the document has no end.
    pub(super) fn parse(text: &str) -> Result<Extent> {
        let mut scan = JsonScanner { text, at: 0 };
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

/// A scanner that recognises only strings and comments.
struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonScanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The length of a comment that begins here; an unterminated one ends with the text.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        if rest.starts_with("//") {
            return Some(rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len()));
        }
        let inside = rest.strip_prefix("/*")?;
        Some(inside.find("*/").map_or(rest.len(), |end| end + 4))
    }

    /// Skips white space, comments, and the characters that shells and DOS leave at the end.
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

    /// Scans one document and returns it without the shell's wrappers around numbers.
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
            if depth > MAX_DEPTH {
                return Err(Error::new(Kind::Malformed, "the document of options is nested too deeply"));
            }
        }
        let what = "the document of options has no end";
        Err(Error::new(Kind::Malformed, what).advise("close every brace, quote and comment in it"))
    }
}

/// Bytes of the string at the start of `text`, quotes included; an unterminated one ends with the text.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(text: &str) -> String {
        MongoperfDocument::parse(text).unwrap().to_string()
    }

    #[test]
    fn what_old_scripts_feed_is_read() {
        for text in [
            "{nThreads:16,r:true}",
            "{ \"nThreads\" : 16, 'r' : true, }\n\n",
            "\u{feff}// my disk\n{nThreads:16, /* reads } */ r:true} // done\n",
            "{nThreads:NumberInt(16),r:true};\r\n\u{1a}",
            "\n\n  {\n\tnThreads: +16,\n\tr: true\n}\n\0\0",
            "{nThreads:0x10,r:true}",
        ] {
            assert_eq!(echo(text), "{ nThreads: 16, r: true }", "{text}");
            assert_eq!(MongoperfDocument::parse(text).unwrap().rest, None, "{text}");
        }
    }

    #[test]
    fn the_echo_keeps_order_and_form() {
        assert_eq!(
            echo("{w:1,'2':0,'a b':'x\\ny',recSizeKB:8.0,n:null,q:[1,[2]],d:{a:1},e:1e30}"),
            r#"{ w: 1, "2": 0, "a b": "x\ny", recSizeKB: 8.0, n: null, q: [ ... ], d: { ... }, e: 1e30 }"#
        );
        assert_eq!(echo("{}"), "{}");
    }

    #[test]
    fn what_follows_is_told() {
        assert_eq!(
            MongoperfDocument::parse("{r:true} {w:true}").unwrap().rest.as_deref(),
            Some("\"{w:true}\"")
        );
        assert_eq!(echo("{r:'}\\'}'} x"), r#"{ r: "}'}" }"#);
    }

    #[test]
    fn what_is_no_document_is_refused_in_a_sentence() {
        for (text, word) in [
            ("", "there is no document"),
            (" \n\0\u{1a}// nothing\n", "there is no document"),
            ("nThreads=16", "begins with \"nThreads=16\""),
            ("{nThreads:16", "has no end"),
            ("{nThreads:'16}", "has no end"),
            ("{nThreads:16 /* }", "has no end"),
            ("{nThreads 16}", "is not JSON"),
            ("{nThreads:16,,}", "is not JSON"),
            ("{nThreads:}", "is not JSON"),
            ("{a:[}", "has no end"),
            ("{a:]}", "is not JSON"),
            (&format!("{{a:{}", "[".repeat(100_000)), "nested too deeply"),
        ] {
            let error = MongoperfDocument::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Malformed);
            assert!(error.to_string().contains(word), "{text:.40}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
