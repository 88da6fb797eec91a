//! A line of the log as text: mongod's fields in mongod's order, which readers of such logs go by.

use bson::{Bson, DateTime, Document};

/// One line, without its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// `I`, `D1`.
    pub(super) severity: &'a str,
    /// `STORAGE`.
    pub(super) component: &'a str,
    pub(super) id: i32,
    pub(super) context: &'a str,
    pub(super) message: &'a str,
    pub(super) attributes: &'a Document,
}

impl Line<'_> {
    /// The line as relaxed extended JSON, with the time of now.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(256);
        out.push_str("{\"t\":");
        write_value(&mut out, &Bson::DateTime(DateTime::now()));
        // Padded as mongod pads them, so that the columns stand below each other.
        let severity = format!("\"{}\",", self.severity);
        let component = format!("\"{}\",", self.component);
        let id = format!("{},", self.id);
        out.push_str(&format!(",\"s\":{severity:<6}\"c\":{component:<12}\"id\":{id:<9}\"ctx\":"));
        write_text(&mut out, self.context);
        out.push_str(",\"msg\":");
        write_text(&mut out, self.message);
        if !self.attributes.is_empty() {
            out.push_str(",\"attr\":");
            write_document(&mut out, self.attributes);
        }
        out.push('}');
        out
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn write_document(out: &mut String, document: &Document) {
    out.push('{');
    for (place, (name, value)) in document.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_text(out, name);
        out.push(':');
        write_value(out, value);
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Bson) {
    match value {
        Bson::Document(document) => write_document(out, document),
        Bson::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Bson::String(text) => write_text(out, text),
        scalar => out.push_str(&scalar.clone().into_relaxed_extjson().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_columns_and_the_line_is_json() {
        let attributes =
            doc! { "z": 1, "a": { "y": "q\"\n", "b": [1_i64, 2.5] }, "oid": bson::oid::ObjectId::new() };
        let line = Line {
            severity: "D1",
            component: "STORAGE",
            id: 22430,
            context: "c",
            message: "m \\",
            attributes: &attributes,
        };
        let text = line.text();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["attr"]["a"]["y"], "q\"\n");
        assert_eq!(json["msg"], "m \\");
        let rest = text.split_once("},").unwrap().1;
        assert!(
            rest.starts_with("\"s\":\"D1\", \"c\":\"STORAGE\",  \"id\":22430,   \"ctx\":\"c\",\"msg\""),
            "{rest}"
        );
        assert!(text.find("\"z\"").unwrap() < text.find("\"a\"").unwrap());
    }
}
