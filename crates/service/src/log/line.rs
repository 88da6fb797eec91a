//! Formats a log line as text: mongod's fields in mongod's order, on which readers of such logs rely.

use bson::{Bson, DateTime, Document};

/// The last millisecond of the year 9999: times beyond it, and before 1970, are written as numbers.
const LAST_MS: i64 = 253_402_300_799_999;

/// One line, without its line feed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogText<'a> {
    /// The severity: `I`, `D1`.
    pub(super) severity: &'a str,
    /// The component, such as `STORAGE`.
    pub(super) component: &'a str,
    pub(super) id: i32,
    pub(super) context: &'a str,
    pub(super) message: &'a str,
    pub(super) attributes: &'a Document,
}

impl LogText<'_> {
    /// The line as relaxed extended JSON, with the time of now.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(256);
        out.push_str("{\"t\":");
        write_value(&mut out, &Bson::DateTime(DateTime::now()));
        // Padded as in mongod, so that the columns are aligned.
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

/// A time in mongod's format: always with three decimal digits of a second, on which parsers rely.
pub fn time_text(time: DateTime) -> String {
    let text = time.try_to_rfc3339_string().unwrap_or_default();
    let seconds = text.get(..19).unwrap_or(&text);
    format!("{seconds}.{:03}+00:00", time.timestamp_millis().rem_euclid(1000))
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
        Bson::DateTime(time) if (0..=LAST_MS).contains(&time.timestamp_millis()) => {
            out.push_str(&format!("{{\"$date\":\"{}\"}}", time_text(*time)));
        }
        scalar => out.push_str(&scalar.clone().into_relaxed_extjson().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn times_have_three_digits_of_a_second() {
        for (ms, expected) in [
            (0, "{\"$date\":\"1970-01-01T00:00:00.000+00:00\"}"),
            (1_717_241_050_030, "{\"$date\":\"2024-06-01T11:24:10.030+00:00\"}"),
            (1_717_241_050_500, "{\"$date\":\"2024-06-01T11:24:10.500+00:00\"}"),
            (LAST_MS, "{\"$date\":\"9999-12-31T23:59:59.999+00:00\"}"),
            (-1, "{\"$date\":{\"$numberLong\":\"-1\"}}"),
        ] {
            let mut out = String::new();
            write_value(&mut out, &Bson::DateTime(DateTime::from_millis(ms)));
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn fields_keep_their_order_and_columns_and_the_line_is_json() {
        let attributes =
            doc! { "z": 1, "a": { "y": "q\"\n", "b": [1_i64, 2.5] }, "oid": bson::oid::ObjectId::new() };
        let line = LogText {
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
