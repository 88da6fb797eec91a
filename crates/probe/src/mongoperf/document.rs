//! The document that mongoperf reads: where it lies in the text, its fields in the order they were written, and the
//! line that echoes them.
//!
//! JSON5 covers unquoted keys, single quotes, comments and trailing commas; what scripts feed besides is dealt with
//! before it is parsed: what follows the last brace (a heredoc's newlines, `;`, Ctrl-Z, a zero byte), and the shell's
//! `NumberInt(16)`. A map would lose the order, and a JSON value the difference between NaN and null.
//!
//! It refuses deep nesting, which a recursive parser would answer by running out of stack.

use std::fmt;

use fathom_errors::{Error, Kind, Result};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A field's value, as far as an option can be one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Double(f64),
    Text(String),
    List,
    Document,
}

impl Value {
    /// What it is, for a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Double(_) => "a number",
            Value::Text(_) => "a text",
            Value::List => "a list",
            Value::Document => "a document",
        }
    }
}

impl fmt::Display for Value {
    /// As BSON documents were printed: `16`, `16.0`, `true`, `"text"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Double(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::List => f.write_str("[ ... ]"),
            Value::Document => f.write_str("{ ... }"),
        }
    }
}

/// The fields of a document, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) fields: Vec<(String, Value)>,
    /// What followed it and is no white space.
    pub(super) rest: Option<String>,
}

impl Document {
    /// Reads `text` up to the end of its first document.
    ///
    /// # Errors
    /// Where there is none, or it breaks the grammar.
    pub(super) fn parse(text: &str) -> Result<Document> {
        let text = text.trim_start_matches('\u{feff}');
        let extent = Extent::of(text)?;
        let fields: Fields = json5::from_str(&extent.document).map_err(|e| {
            Error::new(Kind::Malformed, "the document of options is no JSON")
                .because(e)
                .advise("write it like {nThreads:16, fileSizeMB:1000, r:true, w:true}")
        })?;
        Ok(Document { fields: fields.0, rest: extent.rest })
    }
}

impl fmt::Display for Document {
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

/// Keeps the order, and fields given twice.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(i128::try_from(value).map_or(Value::Double(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Double(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Document)
    }
}

/// Brackets within brackets; the document of options is flat.
const DEPTH_MAX: usize = 32;
/// What the shell may wrap a number in.
const WRAPPERS: [&str; 2] = ["NumberInt(", "NumberLong("];

/// The text between quotes, with line breaks escaped.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"?\"".into())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(text: &str) -> String {
        Document::parse(text).unwrap().to_string()
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
            assert_eq!(Document::parse(text).unwrap().rest, None, "{text}");
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
        assert_eq!(Document::parse("{r:true} {w:true}").unwrap().rest.as_deref(), Some("\"{w:true}\""));
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
            ("{nThreads 16}", "is no JSON"),
            ("{nThreads:16,,}", "is no JSON"),
            ("{nThreads:}", "is no JSON"),
            ("{a:[}", "has no end"),
            ("{a:]}", "is no JSON"),
            (&format!("{{a:{}", "[".repeat(100_000)), "nested too deeply"),
        ] {
            let error = Document::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Malformed);
            assert!(error.to_string().contains(word), "{text:.40}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
