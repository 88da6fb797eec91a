//! Extracts the line of mongod from the line of a log collector.
//!
//! Docker writes each line as JSON with the line as a string, the container runtime interface (CRI) of Kubernetes puts time, stream and a mark of
//! partial lines in front, MongoDB's Kubernetes operator wraps lines in JSON, and syslog and journalctl put time, host and program in front. Docker
//! and the CRI split lines longer than 16 KiB; the parts are joined here.

use std::borrow::Cow;

use super::json_fields::JsonFields;

/// The depth of nested wrappings, such as the operator's within the CRI's.
const MAX_WRAPPINGS: usize = 4;
/// Docker splits lines that are longer than 16 KiB; a shorter one is complete.
const MIN_SPLIT_BYTES: usize = 16_000;
/// A line is joined from parts up to this length.
pub(super) const MAX_LINE_BYTES: usize = 32 << 20;

/// Takes wrapped lines and gives the lines of mongod.
#[derive(Debug, Default)]
pub(super) struct Unwrapper {
    /// The parts of an incomplete line, for each of the two streams.
    parts: [Vec<u8>; 2],
}

/// The content of a wrapping.
struct WrappedText<'l> {
    text: Cow<'l, [u8]>,
    /// True if the rest of the line follows.
    is_partial: bool,
    is_stderr: bool,
}

impl<'l> WrappedText<'l> {
    fn whole(text: impl Into<Cow<'l, [u8]>>) -> WrappedText<'l> {
        WrappedText { text: text.into(), is_partial: false, is_stderr: false }
    }
}

impl Unwrapper {
    /// Returns the line of mongod in a line of a file, without its line end; `None` if it is a part of an incomplete line.
    pub(super) fn unwrap<'l>(&mut self, line: &'l [u8]) -> Option<Cow<'l, [u8]>> {
        let mut line = Cow::Borrowed(line);
        let mut is_stderr = false;
        for _ in 0..MAX_WRAPPINGS {
            let Some(content) = content(&line) else { break };
            is_stderr |= content.is_stderr;
            let parts = &mut self.parts[usize::from(is_stderr)];
            if content.is_partial || !parts.is_empty() {
                let room = MAX_LINE_BYTES.saturating_sub(parts.len());
                parts.extend_from_slice(content.text.get(..room).unwrap_or(&content.text));
                if content.is_partial {
                    return None;
                }
                line = Cow::Owned(std::mem::take(parts));
                continue;
            }
            line = Cow::Owned(content.text.into_owned());
        }
        Some(line)
    }
}

/// The content of a line, if it is a wrapping.
fn content(line: &[u8]) -> Option<WrappedText<'_>> {
    match line.first()? {
        // mongod's own lines begin with their time.
        b'{' if !line.starts_with(b"{\"t\":") && !line.starts_with(b"{ \"t\"") => in_json(line),
        b'0'..=b'9' => in_cri(line).or_else(|| behind_program(line)),
        b'A'..=b'Z' | b'<' => behind_program(line),
        _ => None,
    }
}

/// `{"log":"...\n","stream":"stdout","time":"..."}` of Docker, `{"logType":"mongodb","contents":"..."}` of the operator, `{"MESSAGE":"..."}` of
/// `journalctl -o json`.
fn in_json(line: &[u8]) -> Option<WrappedText<'_>> {
    let fields = JsonFields::parse(std::str::from_utf8(line).ok()?)?;
    if let Some(text) = fields.text("log") {
        let is_stderr = fields.text("stream").is_some_and(|stream| stream == "stderr");
        let whole = text.strip_suffix('\n');
        // Other collectors write the line without its end.
        let is_partial = whole.is_none() && text.len() >= MIN_SPLIT_BYTES;
        let text = whole.unwrap_or(&text).as_bytes().to_vec();
        return Some(WrappedText { text: text.into(), is_partial, is_stderr });
    }
    let text = fields.text("contents").or_else(|| fields.text("MESSAGE"))?;
    Some(WrappedText::whole(text.trim_end_matches('\n').as_bytes().to_vec()))
}

/// `2024-06-01T13:24:10.034123456Z stdout F ...`; the mark is `P` if the rest of the line follows.
fn in_cri(line: &[u8]) -> Option<WrappedText<'_>> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let (_time, stream, mark, text) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let is_stderr = match stream {
        b"stdout" => false,
        b"stderr" => true,
        _ => return None,
    };
    // Marks are separated by colons; the first one shows partial lines.
    let is_partial = match mark.first()? {
        b'P' => true,
        b'F' => false,
        _ => return None,
    };
    Some(WrappedText { text: text.into(), is_partial, is_stderr })
}

/// `Nov 28 05:18:12 db1 mongod[4711]: ...` of syslog and journalctl, with any form of the time.
fn behind_program(line: &[u8]) -> Option<WrappedText<'_>> {
    /// The program's name ends before this byte.
    const MAX_PREFIX_BYTES: usize = 200;
    let head = line.get(..MAX_PREFIX_BYTES.min(line.len()))?;
    let colon = head.windows(2).position(|pair| pair == b": ")?;
    let program = head.get(..colon)?.rsplit(|byte| *byte == b' ').next()?;
    let is_server = program.starts_with(b"mongod") || program.starts_with(b"mongos");
    is_server.then(|| WrappedText::whole(line.get(colon + 2..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(lines: &[&str]) -> Vec<String> {
        let mut unwrapper = Unwrapper::default();
        let all = lines.iter().filter_map(|line| unwrapper.unwrap(line.as_bytes()));
        all.map(|line| String::from_utf8(line.into_owned()).unwrap()).collect()
    }

    #[test]
    fn each_wrapping_gives_the_line() {
        let text =
            "2026-11-21T05:35:53.472+0000 I COMMAND  [conn11] command a.b command: find { find: \"b\" } 0ms";
        let structured =
            r#"{"t":{"$date":"2024-06-01T13:24:10.034+00:00"},"s":"I","msg":"a \"quoted\" word"}"#;
        for line in [text, structured, "", "no line: of a server"] {
            let quoted = serde_json::to_string(line).unwrap();
            let ended = serde_json::to_string(&format!("{line}\n")).unwrap();
            for wrapped in [
                line.to_owned(),
                format!(r#"{{"log":{ended},"stream":"stdout","time":"2024-06-01T13:24:10.034Z"}}"#),
                format!("2024-06-01T13:24:10.034123456Z stdout F {line}"),
                format!("2024-06-01T13:24:10.034123456+02:00 stdout F:x {line}"),
                format!(r#"{{"logType":"mongodb","contents":{quoted}}}"#),
                format!(
                    r#"2024-06-01T13:24:10.034123456Z stdout F {{"logType":"mongodb","contents":{quoted}}}"#
                ),
                format!("Nov 28 05:18:12 db1 mongod[4711]: {line}"),
                format!("<13>Nov  8 05:18:12 db1 mongod.27017[4711]: {line}"),
                format!("2024-06-01T13:24:10.034+00:00 db1 mongos[1]: {line}"),
                format!(r#"{{"PRIORITY":"6","MESSAGE":{quoted}}}"#),
            ] {
                assert_eq!(unwrapped(&[&wrapped]), [line], "{wrapped}");
            }
        }
    }

    #[test]
    fn parts_are_joined_for_each_stream() {
        let long = "ab".repeat(1 << 13);
        let first = format!(r#"{{"log":"{long}","stream":"stdout","time":"t"}}"#);
        let docker = [
            first.as_str(),
            r#"{"log":"x\n","stream":"stderr","time":"t"}"#,
            r#"{"log":"cd\n","stream":"stdout","time":"t"}"#,
            r#"{"log":"no end","stream":"stdout"}"#,
        ];
        assert_eq!(unwrapped(&docker), ["x", &format!("{long}cd"), "no end"]);
        let cri = ["1 stdout P ab", "1 stderr F x", "1 stdout P  c", "1 stdout F d"];
        assert_eq!(unwrapped(&cri), ["x", "ab cd"]);
    }
}
