//! Documents as the shells of MongoDB print them: JSON, extended JSON, and the forms of the old and the new shell (`NumberLong("3")`, `ISODate(...)`,
//! names without quotes, `[Object]`).
//!
//! The text is untrusted and may be cut off. A document that cannot be read whole is passed over.

use bson::{Bson, DateTime, Document, Timestamp};

/// The nesting depth of values.
const MAX_DEPTH: usize = 64;

/// The documents and arrays that begin a line of a text, in their order. Other lines are headings of the script that printed it.
pub(crate) fn documents(text: &str) -> Vec<Bson> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = rest.trim_start();
        if line.starts_with(['{', '[']) {
            let mut reader = ShellReader { rest: line };
            if let Some(value) = reader.value(0) {
                found.push(value);
                rest = reader.rest;
                continue;
            }
        }
        rest = line.split_once('\n').map_or("", |(_, rest)| rest);
    }
    found
}

/// Reads one value after another.
struct ShellReader<'t> {
    rest: &'t str,
}

impl<'t> ShellReader<'t> {
    fn value(&mut self, depth: usize) -> Option<Bson> {
        self.skip_blank();
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '{' => self.document(depth).map(extended),
            '[' => self.array(depth),
            '"' | '\'' | '`' => self.text().map(Bson::String),
            '/' => self.pattern(),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => self.word(depth),
        }
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Passes over a character; false if another one follows.
    fn take(&mut self, expected: char) -> bool {
        self.skip_blank();
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn document(&mut self, depth: usize) -> Option<Document> {
        let mut document = Document::new();
        self.take('{');
        loop {
            if self.take('}') {
                return Some(document);
            }
            self.skip_blank();
            let name = match self.rest.chars().next()? {
                '"' | '\'' | '`' => self.text()?,
                _ => self.name()?.to_owned(),
            };
            if !self.take(':') {
                return None;
            }
            let value = self.value(depth + 1)?;
            document.insert(name, value);
            if !self.take(',') && !self.rest.starts_with('}') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Bson> {
        let mut values = Vec::new();
        self.take('[');
        loop {
            if self.take(']') {
                return Some(Bson::Array(values));
            }
            // The new shell ends long arrays with "... 3 more items".
            if self.rest.starts_with("...") {
                self.rest = self.rest.get(self.rest.find(']')?..)?;
                continue;
            }
            values.push(self.value(depth + 1)?);
            if !self.take(',') && !self.rest.starts_with([']', '.']) {
                return None;
            }
        }
    }

    /// A text in quotes. The new shell joins parts of a long one by `+`.
    fn text(&mut self) -> Option<String> {
        let mut text = self.quoted()?;
        while self.rest.trim_start().starts_with('+') {
            self.take('+');
            self.skip_blank();
            text.push_str(&self.quoted()?);
        }
        Some(text)
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => match characters.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'u' => {
                        let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
                        text.push(
                            u32::from_str_radix(&digits, 16)
                                .ok()
                                .and_then(char::from_u32)
                                .unwrap_or('\u{fffd}'),
                        );
                    }
                    other => text.push(other),
                },
                end if end == quote => {
                    self.rest = self.rest.get(at + end.len_utf8()..)?;
                    return Some(text);
                }
                other => text.push(other),
            }
        }
        None
    }

    /// A regular expression, whose text is its value.
    fn pattern(&mut self) -> Option<Bson> {
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, character)| {
            let is_end = *character == '/' && !is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
            is_end
        })?;
        let (pattern, rest) = self.rest.split_at_checked(end.0 + 1)?;
        self.rest = rest.trim_start_matches(|flag: char| flag.is_ascii_lowercase());
        Some(Bson::String(pattern.to_owned()))
    }

    fn number(&mut self) -> Option<Bson> {
        if self.rest.trim_start_matches(['-', '+']).starts_with("Infinity") {
            let is_negative = self.rest.starts_with('-');
            self.rest = self.rest.split_once("Infinity")?.1;
            return Some(Bson::Double(if is_negative { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        number_of(number)
    }

    fn name(&mut self) -> Option<&'t str> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.');
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end).filter(|(name, _)| !name.is_empty())?;
        self.rest = rest;
        Some(name)
    }

    /// A constant, or a call such as `NumberLong("3")`.
    fn word(&mut self, depth: usize) -> Option<Bson> {
        let name = self.name()?;
        match name {
            "true" => return Some(Bson::Boolean(true)),
            "false" => return Some(Bson::Boolean(false)),
            "NaN" => return Some(Bson::Double(f64::NAN)),
            "Infinity" => return Some(Bson::Double(f64::INFINITY)),
            "new" => return self.value(depth + 1),
            _ => {}
        }
        if !self.take('(') {
            // `null`, `undefined`, `MinKey`, and the `Object` of `[Object]`.
            return Some(Bson::Null);
        }
        let mut values = Vec::new();
        while !self.take(')') {
            values.push(self.value(depth + 1)?);
            if !self.take(',') && !self.rest.starts_with(')') {
                return None;
            }
        }
        Some(called(name, values))
    }
}

fn number_of(text: &str) -> Option<Bson> {
    match text.parse::<i64>() {
        Ok(number) => Some(Bson::Int64(number)),
        Err(_) => text.parse().ok().map(Bson::Double),
    }
}

/// The value of a call: numbers and times are converted, and of others the first argument counts.
fn called(name: &str, values: Vec<Bson>) -> Bson {
    let mut values = values.into_iter();
    let Some(first) = values.next() else { return Bson::Null };
    match (name, first) {
        (
            "NumberLong" | "NumberInt" | "NumberDecimal" | "Long" | "Int32" | "Double" | "Decimal128"
            | "Long.fromString" | "Number",
            Bson::String(text),
        ) => number_of(&text).unwrap_or(Bson::String(text)),
        ("ISODate" | "Date", Bson::String(text)) => time_of(&text).unwrap_or(Bson::String(text)),
        ("Date", Bson::Int64(ms)) => Bson::DateTime(DateTime::from_millis(ms)),
        ("Timestamp", Bson::Document(parts)) => timestamp(parts.get("t"), parts.get("i")),
        ("Timestamp", seconds) => timestamp(Some(&seconds), values.next().as_ref()),
        (_, first) => first,
    }
}

fn time_of(text: &str) -> Option<Bson> {
    DateTime::parse_rfc3339_str(text).ok().map(Bson::DateTime)
}

fn timestamp(seconds: Option<&Bson>, increment: Option<&Bson>) -> Bson {
    let part = |value: Option<&Bson>| {
        let number = value.and_then(Bson::as_i64).unwrap_or(0);
        u32::try_from(number).unwrap_or(0)
    };
    Bson::Timestamp(Timestamp { time: part(seconds), increment: part(increment) })
}

/// A document of extended JSON as the value that it represents.
fn extended(document: Document) -> Bson {
    let mut fields = document.iter();
    let (Some((name, value)), None) = (fields.next(), fields.next()) else { return Bson::Document(document) };
    let read = match (name.as_str(), value) {
        ("$numberLong" | "$numberInt" | "$numberDouble" | "$numberDecimal", Bson::String(text)) => {
            number_of(text)
        }
        ("$date", Bson::String(text)) => time_of(text),
        ("$date", Bson::Int64(ms)) => Some(Bson::DateTime(DateTime::from_millis(*ms))),
        ("$timestamp", Bson::Document(parts)) => Some(timestamp(parts.get("t"), parts.get("i"))),
        ("$oid", Bson::String(text)) => Some(Bson::String(text.clone())),
        _ => None,
    };
    read.unwrap_or(Bson::Document(document))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn one(text: &str) -> Bson {
        let mut found = documents(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found.remove(0)
    }

    #[test]
    fn each_shell_prints_the_same_document() {
        let time = DateTime::from_millis(1_752_175_680_125);
        let expected = Bson::Document(doc! {
            "host": "db1:27017", "pid": 1234_i64, "ratio": 0.5, "up": true, "none": Bson::Null,
            "at": time, "opTime": Timestamp { time: 17, increment: 2 }, "list": [1_i64, "it's"],
        });
        let old = r#"{ "host" : "db1:27017", "pid" : NumberLong(1234), "ratio" : 0.5, "up" : true, "none" : null,
            "at" : ISODate("2025-07-10T19:28:00.125Z"), "opTime" : Timestamp(17, 2), "list" : [ NumberInt(1), "it's" ] }"#;
        let new = "{\n  host: 'db1:27017',\n  pid: Long('1234'),\n  ratio: 0.5,\n  up: true,\n  none: null,\n  at: ISODate('2025-07-10T19:28:00.125Z'),\n  opTime: Timestamp({ t: 17, i: 2 }),\n  list: [ 1, \"it's\" ]\n}";
        let relaxed = r#"{"host":"db1:27017","pid":1234,"ratio":0.5,"up":true,"none":null,"at":{"$date":"2025-07-10T19:28:00.125Z"},"opTime":{"$timestamp":{"t":17,"i":2}},"list":[1,"it\u0027s"]}"#;
        let canonical = r#"{"host":"db1:27017","pid":{"$numberLong":"1234"},"ratio":{"$numberDouble":"0.5"},"up":true,"none":null,"at":{"$date":{"$numberLong":"1752175680125"}},"opTime":{"$timestamp":{"t":17,"i":2}},"list":[{"$numberInt":"1"},"it's"]}"#;
        for text in [old, new, relaxed, canonical] {
            assert_eq!(one(text), expected, "{text}");
        }
    }

    #[test]
    fn other_forms_are_passed_over_and_do_not_end_the_document() {
        let text = r"{ a: [Object], b: /x\/y/i, c: BinData(0, 'AAAA'), d: -Infinity, e: [ 1, 2, ... 98 more items ],
            f: new Date(5), g: undefined, h: MinKey, 'i.j': NumberDecimal('1.5'), k: 'a' + 'b', l: ObjectId('00'), }";
        let read = one(text);
        let document = read.as_document().unwrap();
        assert_eq!(document.get_array("e").unwrap().len(), 2);
        assert_eq!(document.get("d"), Some(&Bson::Double(f64::NEG_INFINITY)));
        assert_eq!((document.get_f64("i.j").unwrap(), document.get_str("k").unwrap()), (1.5, "ab"));
        assert_eq!(document.get("f"), Some(&Bson::DateTime(DateTime::from_millis(5))));
    }

    #[test]
    fn documents_are_found_between_headings_and_those_that_are_cut_off_are_not() {
        let text = "** Running db.serverStatus():\n{ \"host\" : \"a\" }\nbye\n[ { b: 1 } ]\n{ \"cut\" : { \"off\" : [1, ";
        let found = documents(text);
        assert_eq!(
            found,
            [Bson::Document(doc! { "host": "a" }), Bson::Array(vec![Bson::Document(doc! { "b": 1_i64 })])]
        );
        for text in [
            "",
            "{",
            "[",
            "{a:",
            "{'a",
            "{a:1",
            "NumberLong(",
            "{a: \"\\u12",
            &"[".repeat(100_000),
            &"{a:".repeat(100_000),
        ] {
            assert!(documents(text).is_empty(), "{}", text.len());
        }
    }
}
