//! The shape of an operation: its command without values, so that alike operations are counted together and no data of the owner is shown.
//!
//! Commands are JSON since 4.4 and printed as by the shell before. One parser takes both, so the same command has the same shape in either. It keeps
//! the parts that a query planner uses (filter, sort, pipeline, hint), the names of fields and of operators, and the directions of a sort. Truncated
//! text gives the shape of the rest.

/// The fields of a command that decide how it is executed.
const KEPT_FIELDS: [&str; 11] =
    ["filter", "query", "q", "u", "update", "updates", "deletes", "sort", "pipeline", "key", "hint"];
/// A shape is cut at this length, in bytes.
const MAX_BYTES: usize = 1024;
/// The nesting depth of objects and arrays; deeper values are left out.
const MAX_DEPTH: usize = 32;
/// The values of an index's keys, and of `$meta`, that are not directions.
const INDEX_KINDS: [&str; 7] =
    ["text", "2d", "2dsphere", "2dsphere_bucket", "hashed", "textScore", "indexKey"];
/// The single fields of objects that stand for types that JSON lacks.
const TYPE_FIELDS: [&str; 16] = [
    "$binary",
    "$code",
    "$date",
    "$dbPointer",
    "$maxKey",
    "$minKey",
    "$numberDecimal",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$oid",
    "$regularExpression",
    "$symbol",
    "$timestamp",
    "$undefined",
    "$uuid",
];

/// The shape of a command, such as `{ filter: { user: ?, at: { $gt: ? } }, sort: { at: -1 } }`; empty if no part of it matters.
pub(super) fn shape(command: &str) -> String {
    let mut reader = ShapeReader { text: command, at: 0, shape: String::new() };
    reader.skip_space();
    if reader.peek() != Some(b'{') {
        return String::new();
    }
    reader.object(CommandPart::Command, 0);
    let mut shape = reader.shape;
    if shape.len() > MAX_BYTES {
        let end = (0..=MAX_BYTES).rev().find(|end| shape.is_char_boundary(*end)).unwrap_or(0);
        shape.truncate(end);
        shape.push_str("...");
    }
    if shape == "{}" { String::new() } else { shape }
}

/// A plan summary's stages and key patterns: `IXSCAN { a: 1 }`. Anything else in the text is left out.
pub(crate) fn plan_shape(plan: &str) -> String {
    let mut reader = ShapeReader { text: plan, at: 0, shape: String::new() };
    while let Some(byte) = reader.peek() {
        if byte == b'{' {
            reader.object(CommandPart::Order, 0);
            continue;
        }
        let words = reader.take_until(|byte| !(byte.is_ascii_uppercase() || b"_, ".contains(&byte)));
        reader.push(words);
        if words.is_empty() {
            reader.at += 1;
        }
    }
    reader.shape.trim_ascii().to_owned()
}

/// The part of a command that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandPart {
    /// The command itself: only some of its fields are kept.
    Command,
    /// A condition or a stage: names are kept.
    Condition,
    /// An update of a document: operators are kept but not fields, since maps in documents use values as field names.
    Change,
    /// The order of a sort or an index: directions and kinds of index are kept too.
    Order,
    /// The field of `distinct`.
    Name,
    /// The index of a hint: its keys, or its name if that is made of them.
    Index,
    /// A value that is left out.
    Skipped,
}

impl CommandPart {
    /// The part that a field of this name holds.
    fn within(self, name: &str) -> CommandPart {
        match self {
            CommandPart::Command if !KEPT_FIELDS.contains(&name) => CommandPart::Skipped,
            CommandPart::Command if name == "sort" => CommandPart::Order,
            CommandPart::Command if name == "hint" => CommandPart::Index,
            CommandPart::Command if name == "key" => CommandPart::Name,
            CommandPart::Command if matches!(name, "u" | "update") => CommandPart::Change,
            // The writes within one command have the fields of a command too.
            CommandPart::Command if matches!(name, "updates" | "deletes") => CommandPart::Command,
            CommandPart::Command => CommandPart::Condition,
            CommandPart::Condition if matches!(name, "$sort" | "sort") => CommandPart::Order,
            CommandPart::Name | CommandPart::Index => CommandPart::Order,
            CommandPart::Change => CommandPart::Skipped,
            part => part,
        }
    }
}

/// Returns whether a word of a path is data rather than a field's name: a number, an identifier in hexadecimal digits, or a
/// word with characters that names rarely have, such as an address.
fn is_data(word: &str) -> bool {
    const MIN_HEX_DIGITS: usize = 16;
    let is_all = |is: fn(u8) -> bool| !word.is_empty() && word.bytes().all(is);
    is_all(|byte| byte.is_ascii_digit())
        || (word.len() >= MIN_HEX_DIGITS && is_all(|byte| byte.is_ascii_hexdigit() || byte == b'-'))
        || !word.chars().all(|c| c.is_alphanumeric() || "_-$".contains(c))
}

/// Returns whether an index has the name that it gets by default: `user_1_at_-1`. Another name may hold anything.
fn is_made_of_keys(index: &str) -> bool {
    let kind = index.rsplit_once('_').map_or("", |(_, kind)| kind);
    index == "_id_" || matches!(kind, "1" | "-1") || INDEX_KINDS.contains(&kind)
}

struct ShapeReader<'t> {
    text: &'t str,
    at: usize,
    shape: String,
}

impl<'t> ShapeReader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Adds to the shape; text far beyond the length limit is not collected.
    fn push(&mut self, text: &str) {
        if self.shape.len() <= MAX_BYTES {
            self.shape.push_str(text);
        }
    }

    /// The text up to the first byte that `ends` chooses.
    fn take_until(&mut self, ends: impl Fn(u8) -> bool) -> &'t str {
        let begin = self.at;
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// Reads a string with its quotes, and returns its text without them.
    fn quoted(&mut self) -> &'t str {
        let quote = self.peek();
        self.at += 1;
        let begin = self.at;
        while let Some(byte) = self.peek() {
            if Some(byte) == quote {
                break;
            }
            self.at += if byte == b'\\' { 2 } else { 1 };
        }
        let end = self.at.min(self.text.len());
        self.at = end + 1;
        self.text.get(begin..end).unwrap_or_default()
    }

    /// The name of a field up to its colon.
    fn name(&mut self) -> Option<&'t str> {
        self.skip_space();
        let name = match self.peek()? {
            b'"' | b'\'' => self.quoted(),
            _ => self.take_until(|byte| matches!(byte, b':' | b'}' | b',' | b'{' | b'[')).trim_ascii_end(),
        };
        self.skip_space();
        if self.peek() == Some(b':') {
            self.at += 1;
            Some(name)
        } else {
            None
        }
    }

    /// Reads an object, including both braces.
    fn object(&mut self, part: CommandPart, depth: usize) {
        self.at += 1;
        self.push("{");
        let mut count = 0;
        loop {
            self.skip_space();
            match self.peek() {
                None => break,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => {}
            }
            let before = self.at;
            let Some(name) = self.name() else {
                // Not a field: the text was cut inside, or is not an object.
                if self.at == before {
                    self.at += 1;
                }
                continue;
            };
            let inner = part.within(name);
            let is_operator = part == CommandPart::Change && name.starts_with('$');
            if inner == CommandPart::Skipped && !is_operator {
                self.value(CommandPart::Skipped, depth);
                continue;
            }
            let begin = self.shape.len();
            self.push(if count == 0 { " " } else { ", " });
            self.push_name(name);
            self.push(": ");
            let value_at = self.shape.len();
            self.value(inner, depth);
            if is_operator {
                self.push("?");
            }
            // `update: "collection"` is a name, not an update document.
            if part == CommandPart::Command && matches!(self.shape.get(value_at..), Some("?")) {
                self.shape.truncate(begin);
                continue;
            }
            count += 1;
        }
        self.push(if count > 0 { " }" } else { "}" });
    }

    /// Adds a field name. Words in a path that are array positions or look like the owner's data are left out.
    fn push_name(&mut self, name: &str) {
        for (at, word) in name.split('.').enumerate() {
            if at > 0 {
                self.push(".");
            }
            self.push(if is_data(word) { "?" } else { word });
        }
    }

    /// A value of any kind.
    fn value(&mut self, part: CommandPart, depth: usize) {
        self.skip_space();
        let is_shown = part != CommandPart::Skipped;
        match self.peek() {
            Some(b'{' | b'[') if !is_shown || depth >= MAX_DEPTH => {
                self.skip_nested();
                self.push_unknown(part);
            }
            Some(b'{') if self.is_type() => {
                self.skip_nested();
                self.push("?");
            }
            Some(b'{') => self.object(part, depth + 1),
            Some(b'[') => self.array(part, depth + 1),
            Some(b'"' | b'\'') => {
                let text = self.quoted();
                match part {
                    CommandPart::Order if INDEX_KINDS.contains(&text) => self.push(text),
                    CommandPart::Name => self.push_name(text),
                    CommandPart::Index if is_made_of_keys(text) => self.push_name(text),
                    part => self.push_unknown(part),
                }
            }
            Some(b'/') => {
                self.at += 1;
                while self.peek().is_some_and(|byte| byte != b'/') {
                    self.at += if self.peek() == Some(b'\\') { 2 } else { 1 };
                }
                self.take_until(|byte| matches!(byte, b',' | b'}' | b']'));
                self.push_unknown(part);
            }
            _ => self.word(part),
        }
    }

    /// Adds `?` for a value left out of a part that is shown.
    fn push_unknown(&mut self, part: CommandPart) {
        if part != CommandPart::Skipped {
            self.push("?");
        }
    }

    /// A number, `true`, or a constructor such as `Timestamp(1, 2)` and `new Date(7)`.
    fn word(&mut self, part: CommandPart) {
        let word = self.take_until(|byte| matches!(byte, b',' | b'}' | b']' | b'(')).trim_ascii();
        if self.peek() == Some(b'(') {
            self.skip_nested();
        }
        match part {
            CommandPart::Skipped => {}
            CommandPart::Order if matches!(word, "1" | "-1" | "1.0" | "-1.0") => {
                self.push(word.trim_end_matches(".0"));
            }
            _ => self.push("?"),
        }
    }

    /// Reads an array; successive elements of the same shape count as one.
    fn array(&mut self, part: CommandPart, depth: usize) {
        self.at += 1;
        self.push("[");
        let first_at = self.shape.len();
        let mut last_at = None;
        loop {
            self.skip_space();
            match self.peek() {
                None => break,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                // After truncated text: no array contains this.
                Some(b'}') => break,
                Some(_) => {}
            }
            let end = self.shape.len();
            if end > first_at {
                self.push(", ");
            }
            let begin = self.shape.len();
            self.value(part, depth);
            let is_repeated = last_at.is_some_and(|last: usize| {
                self.shape.get(last..end).is_some_and(|last| self.shape.get(begin..) == Some(last))
            });
            if is_repeated {
                self.shape.truncate(end);
            } else {
                last_at = Some(begin);
            }
        }
        self.push("]");
    }

    /// Returns whether the current object is a value of a type that JSON lacks, such as `{"$oid": "..."}`.
    fn is_type(&self) -> bool {
        let rest = self.text.get(self.at + 1..).unwrap_or_default().trim_ascii_start();
        rest.strip_prefix('"')
            .and_then(|rest| rest.split_once('"'))
            .is_some_and(|(name, _)| TYPE_FIELDS.contains(&name))
    }

    /// Passes over a value in brackets of any kind, strings included.
    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' | b'\'' => {
                    self.quoted();
                    continue;
                }
                b'{' | b'[' | b'(' => depth += 1,
                b'}' | b']' | b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_a_command_have_one_shape() {
        for (json, shell, expected) in [
            (
                r#"{"find":"orders","filter":{"user":{"$oid":"65a"},"at":{"$gt":{"$date":"2026-01-01T00:00:00Z"}}},"sort":{"at":-1,"n":1},"limit":5,"$db":"shop"}"#,
                r#"{ find: "orders", filter: { user: ObjectId('65a'), at: { $gt: new Date(1767225600000) } }, sort: { at: -1.0, n: 1 }, limit: 5, $db: "shop" }"#,
                "{ filter: { user: ?, at: { $gt: ? } }, sort: { at: -1, n: 1 } }",
            ),
            (
                r#"{"q":{"_id":"user,}7\"{"},"u":{"$set":{"m.12345.x":1},"$inc":{"n":1}},"multi":false}"#,
                r#"{ q: { _id: "user,}7\"{" }, u: { $set: { m.12345.x: 1 }, $inc: { n: 1 } }, multi: false }"#,
                "{ q: { _id: ? }, u: { $set: ?, $inc: ? } }",
            ),
            (
                r#"{"aggregate":"c","pipeline":[{"$match":{"a":{"$in":[1,2,3]},"b.7":/x/}},{"$sort":{"a":1}},{"$limit":3},{"$limit":4}],"hint":"a_1"}"#,
                r#"{ aggregate: "c", pipeline: [ { $match: { a: { $in: [ 1.0, 2.0, 3.0 ] }, b.7: /a\/b, }/i } }, { $sort: { a: 1 } }, { $limit: 3 }, { $limit: 4 } ], hint: "a_1" }"#,
                "{ pipeline: [{ $match: { a: { $in: [?] }, b.?: ? } }, { $sort: { a: 1 } }, { $limit: ? }], hint: a_1 }",
            ),
            (
                r#"{"distinct":"c","key":"user","query":{"$or":[{"a":1},{"a":2},{"b":null}]}}"#,
                r#"{ distinct: "c", key: "user", query: { $or: [ { a: Timestamp(1, 2) }, { a: 2 }, { b: null } ] } }"#,
                "{ key: user, query: { $or: [{ a: ? }, { b: ? }] } }",
            ),
            (
                r#"{"update":"c","updates":[{"q":{"a":1},"u":{"b":2}},{"q":{"a":2},"u":{"b":2}}],"ordered":true}"#,
                r#"{ update: "c", updates: [ { q: { a: 1 }, u: { b: 2 } }, { q: { a: 2 }, u: { b: 2 } } ], ordered: true }"#,
                "{ updates: [{ q: { a: ? }, u: {} }] }",
            ),
            (
                r#"{"find":"c","filter":{"a":1},"hint":"customers"}"#,
                r#"{ find: "c", filter: { a: 1 }, hint: "customers" }"#,
                "{ filter: { a: ? } }",
            ),
            (r#"{"insert":"c","documents":[{"a":1}]}"#, r#"{ insert: "c", documents: [ { a: 1 } ] }"#, ""),
        ] {
            assert_eq!(shape(json), expected, "{json}");
            assert_eq!(shape(shell), expected, "{shell}");
        }
    }

    #[test]
    fn what_is_cut_off_or_long_has_a_shape() {
        assert_eq!(
            shape(r#"{ find: "c", filter: { a: BinData(0, 3C3D...) }, sort: { a"#),
            "{ filter: { a: ? }, sort: {} }"
        );
        assert_eq!(shape(r#"{ find: "c", filter: { a: "b"#), "{ filter: { a: ? } }");
        assert_eq!(shape(""), "");
        let long = format!("{{\"filter\":{{\"a\":{{\"$in\":[{}1]}}}}}}", "1,".repeat(1 << 20));
        assert_eq!(shape(&long), "{ filter: { a: { $in: [?] } } }");
        let wide: String = (0..1000).map(|n| format!("\"é{n}x\":1,")).collect();
        assert!(shape(&format!("{{\"filter\":{{{wide}}}}}")).len() <= MAX_BYTES + 3);
        let _ = shape(&format!("{{\"filter\":{}", "{\"a\":[".repeat(1 << 18)));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,200}", words in proptest::collection::vec("[\\[\\]{}(),:'\"$/ a1é\\\\]{0,6}", 0..40)) {
            let _ = shape(&text);
            let _ = shape(&format!("{{ filter: {}", words.concat()));
        }
    }
}
