//! Formats a log line as mongod did before 4.4: plain text, with documents as the shell prints them.
//!
//! A slow operation has its own form, on which the readers of such logs rely; other lines are the message and its attributes.

use std::fmt::Write;

use bson::spec::BinarySubtype;
use bson::{Bson, DateTime, Document};

use super::line::{LogText, time_text};

/// The id of the line on a slow operation.
const SLOW_OPERATION: i32 = 51803;
/// Attributes that came with 4.4, or that have a place of their own.
const OMITTED: [&str; 6] = ["type", "ns", "durationMillis", "remote", "truncated", "size"];

/// The line with the time of now.
pub(super) fn shell_text(line: &LogText<'_>) -> String {
    let time = time_text(DateTime::now()).replace("+00:00", "+0000");
    let LogText { severity, component, context, message, attributes, .. } = line;
    let mut out = format!("{time} {severity:<2}{component:<8} [{context}] ");
    if line.id == SLOW_OPERATION {
        write_operation(&mut out, attributes);
        return out;
    }
    out.push_str(message);
    if !attributes.is_empty() {
        out.push_str(": ");
        write_document(&mut out, attributes);
    }
    out
}

fn write_operation(out: &mut String, attributes: &Document) {
    let text = |name: &str| attributes.get_str(name).unwrap_or_default();
    out.push_str(&format!("{} {}", text("type"), text("ns")));
    for (name, value) in attributes.iter().filter(|(name, _)| !OMITTED.contains(&name.as_str())) {
        match (name.as_str(), value) {
            ("command", Bson::Document(command)) => {
                out.push_str(" command: ");
                // A single write is shown itself, and has no name.
                if let Some(first) = command.keys().next().filter(|_| text("type") == "command") {
                    out.push_str(&format!("{first} "));
                }
                write_document(out, command);
            }
            ("planSummary", Bson::String(plan)) => out.push_str(&format!(" planSummary: {plan}")),
            ("appName" | "originatingCommand", value) => {
                out.push_str(&format!(" {name}: "));
                write_value(out, value);
            }
            ("protocol" | "errName", Bson::String(word)) => out.push_str(&format!(" {name}:{word}")),
            (_, Bson::Boolean(is_so)) => out.push_str(&format!(" {name}:{}", u8::from(*is_so))),
            (_, value) => {
                out.push_str(&format!(" {name}:"));
                write_value(out, value);
            }
        }
    }
    let duration_ms = attributes.get_i64("durationMillis").unwrap_or_default();
    out.push_str(&format!(" {duration_ms}ms"));
}

fn write_document(out: &mut String, document: &Document) {
    if document.is_empty() {
        out.push_str("{}");
        return;
    }
    for (place, (name, value)) in document.iter().enumerate() {
        out.push_str(if place == 0 { "{ " } else { ", " });
        out.push_str(name);
        out.push_str(": ");
        write_value(out, value);
    }
    out.push_str(" }");
}

fn write_value(out: &mut String, value: &Bson) {
    match value {
        Bson::Document(document) => write_document(out, document),
        Bson::Array(items) if items.is_empty() => out.push_str("[]"),
        Bson::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "[ " } else { ", " });
                write_value(out, item);
            }
            out.push_str(" ]");
        }
        Bson::DateTime(time) => out.push_str(&format!("new Date({})", time.timestamp_millis())),
        Bson::ObjectId(id) => out.push_str(&format!("ObjectId('{id}')")),
        Bson::Timestamp(time) => out.push_str(&format!("Timestamp({}, {})", time.time, time.increment)),
        Bson::Binary(binary) => write_binary(out, binary.subtype, &binary.bytes),
        Bson::Double(number) if number.fract() == 0.0 => out.push_str(&format!("{number:.1}")),
        scalar => out.push_str(&scalar.clone().into_relaxed_extjson().to_string()),
    }
}

fn write_binary(out: &mut String, subtype: BinarySubtype, bytes: &[u8]) {
    if let (BinarySubtype::Uuid, Ok(bytes)) = (subtype, <[u8; 16]>::try_from(bytes)) {
        out.push_str(&format!("UUID(\"{}\")", bson::Uuid::from_bytes(bytes)));
        return;
    }
    out.push_str(&format!("BinData({}, ", u8::from(subtype)));
    for byte in bytes {
        let _ = write!(out, "{byte:02X}");
    }
    out.push(')');
}

#[cfg(test)]
mod tests {
    use bson::{Binary, doc};

    use super::*;

    fn text(component: &str, id: i32, message: &str, attributes: &Document) -> String {
        let line = LogText { severity: "I", component, id, context: "conn3", message, attributes };
        let text = shell_text(&line);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.len() == 28 && time.ends_with("+0000"), "{time}");
        rest.to_owned()
    }

    /// As a mongod 4.0.3 wrote such lines.
    #[test]
    fn slow_operations_have_their_form() {
        let query = doc! {
            "type": "command", "ns": "shop.orders", "appName": "lab",
            "command": { "find": "orders", "filter": { "user": "a\"b", "n": 2.0 }, "$db": "shop" },
            "planSummary": "COLLSCAN", "keysExamined": 0_i64, "docsExamined": 20_i64, "hasSortStage": true, "numYields": 0,
            "nreturned": 1_i64, "reslen": 120_i64, "locks": { "Global": { "acquireCount": { "r": 1_i64 } } }, "storage": {},
            "remote": "127.0.0.1:1", "protocol": "op_msg", "durationMillis": 67_i64,
        };
        let expected = r#"I COMMAND  [conn3] command shop.orders appName: "lab" command: find { find: "orders", filter: { user: "a\"b", n: 2.0 }, $db: "shop" } planSummary: COLLSCAN keysExamined:0 docsExamined:20 hasSortStage:1 numYields:0 nreturned:1 reslen:120 locks:{ Global: { acquireCount: { r: 1 } } } storage:{} protocol:op_msg 67ms"#;
        assert_eq!(text("COMMAND", 51803, "Slow query", &query), expected);
        let update = doc! {
            "type": "update", "ns": "shop.orders", "command": { "q": { "_id": 1 }, "u": { "$set": { "l": [1, "x"] } } },
            "nMatched": 1_i64, "durationMillis": 10_i64,
        };
        let expected = r#"I WRITE    [conn3] update shop.orders command: { q: { _id: 1 }, u: { $set: { l: [ 1, "x" ] } } } nMatched:1 10ms"#;
        assert_eq!(text("WRITE", 51803, "Slow query", &update), expected);
    }

    #[test]
    fn other_lines_are_the_message_and_its_attributes() {
        assert_eq!(text("NETWORK", 1, "listening", &doc! {}), "I NETWORK  [conn3] listening");
        let uuid = bson::Uuid::from_bytes([1; 16]);
        let bytes = Binary { subtype: BinarySubtype::Generic, bytes: vec![0, 0xAB] };
        let attributes = doc! { "at": DateTime::from_millis(5), "id": uuid, "raw": bytes, "none": [] };
        let expected = "I NETWORK  [conn3] m: { at: new Date(5), id: UUID(\"01010101-0101-0101-0101-010101010101\"), raw: BinData(0, 00AB), none: [] }";
        assert_eq!(text("NETWORK", 1, "m", &attributes), expected);
    }
}
