//! The process that wrote a log, as its lines at a start and after a rotation say.
//!
//! Sources: mongodb/docs, "Log Messages", for 4.4 to 8.x ("MongoDB starting", "Process Details"); logs of a mongod 4.0.3 for the text format before; logs of
//! mongos 3.2 to 5.0, which names at its start its options only.

use super::json_fields::JsonFields;
use super::log_line::line_time_ms;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 27017;

/// The process that wrote a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOwner {
    /// Its host. `None` at the start of a router, which logs its options then and no name.
    pub host: Option<String>,
    pub port: u16,
    pub pid: Option<i64>,
    /// The time of the line, in milliseconds since 1970.
    pub at_ms: i64,
    /// True if the process started then, false if it began a new file.
    pub is_start: bool,
}

impl LogOwner {
    /// Reads a line; `None` if it says something else.
    pub fn from_line(line: &str) -> Option<LogOwner> {
        if line.starts_with('{') { from_json(line) } else { from_text(line) }
    }

    /// Whether a name is that of its host and port. A name without a port has the usual one.
    pub fn is_named(&self, name: &str) -> bool {
        let with_port = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port): (&str, u16) = with_port.unwrap_or((name, DEFAULT_PORT));
        self.host.as_deref().is_some_and(|own| host.eq_ignore_ascii_case(own)) && port == self.port
    }
}

/// The line since 4.4: `{"t":...,"msg":"MongoDB starting","attr":{"pid":1,"port":27017,"host":"db1"}}`.
fn from_json(line: &str) -> Option<LogOwner> {
    let is_start = line.contains("\"MongoDB starting\"");
    if line.contains("\"Options set by command line\"") {
        return from_json_options(line);
    }
    if !is_start && !line.contains("\"Process Details\"") {
        return None;
    }
    let fields = JsonFields::parse(line)?;
    if !matches!(&*fields.text("msg")?, "MongoDB starting" | "Process Details") {
        return None;
    }
    let attributes = fields.object(&["attr"])?;
    // Some versions write numbers as text.
    let number = |name: &str| attributes.raw(name)?.trim_matches('"').parse::<i64>().ok();
    Some(LogOwner {
        host: Some(attributes.text("host")?.into_owned()),
        port: u16::try_from(number("port")?).ok()?,
        pid: number("pid"),
        at_ms: line_time_ms(line)?,
        is_start,
    })
}

/// `{"t":...,"msg":"Options set by command line","attr":{"options":{"net":{"port":27021},"sharding":{"configDB":"..."}}}}`: only a router has that option.
fn from_json_options(line: &str) -> Option<LogOwner> {
    let fields = JsonFields::parse(line)?;
    if fields.text("msg")? != "Options set by command line" {
        return None;
    }
    let options = fields.object(&["attr", "options"])?;
    options.object(&["sharding"])?.raw("configDB")?;
    let net = options.object(&["net"]);
    let port = net.as_ref().and_then(|net| net.raw("port")).map(|port| port.trim_matches('"').parse());
    router(port, line)
}

/// `... [mongosMain] options: { net: { port: 27021 }, sharding: { configDB: "..." } }`.
fn from_text_options(options: &str, line: &str) -> Option<LogOwner> {
    let (before, _) = options.split_once(" configDB: ")?;
    let net = before.split_once("net: {").map(|(_, net)| net);
    let port = net.and_then(|net| net.split_once(" port: ")).map(|(_, rest)| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits).unwrap_or_default().parse()
    });
    router(port, line)
}

/// A router that starts; one without a port has the usual one.
fn router(port: Option<std::result::Result<u16, std::num::ParseIntError>>, line: &str) -> Option<LogOwner> {
    let port = port.unwrap_or(Ok(DEFAULT_PORT)).ok()?;
    Some(LogOwner { host: None, port, pid: None, at_ms: line_time_ms(line)?, is_start: true })
}

/// `... [initandlisten] MongoDB starting : pid=1 port=27017 dbpath=/data/db 64-bit host=db1`, and the same without the words after a rotation.
fn from_text(line: &str) -> Option<LogOwner> {
    let (_, message) = line.split_once("] ")?;
    if let Some(options) = message.strip_prefix("options: {") {
        return from_text_options(options, line);
    }
    let start = message.strip_prefix("MongoDB starting : ");
    let words = start.unwrap_or(message);
    if !words.starts_with("pid=") {
        return None;
    }
    let value = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name));
    Some(LogOwner {
        host: Some(value("host=")?.to_owned()),
        port: value("port=")?.parse().ok()?,
        pid: value("pid=").and_then(|pid| pid.parse().ok()),
        at_ms: line_time_ms(line)?,
        is_start: start.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_process_at_a_start_and_after_a_rotation() {
        let expected = |is_start: bool| LogOwner {
            host: Some("db1".to_owned()),
            port: 27018,
            pid: Some(7929),
            at_ms: 1_795_239_353_472,
            is_start,
        };
        let text = |words: &str| {
            format!(
                "2026-11-21T05:35:53.472+0000 I CONTROL  [initandlisten] {words}pid=7929 port=27018 64-bit host=db1"
            )
        };
        assert_eq!(LogOwner::from_line(&text("MongoDB starting : ")), Some(expected(true)));
        assert_eq!(LogOwner::from_line(&text("")), Some(expected(false)));
        let json = |message: &str, pid: &str| {
            format!(
                r#"{{"t":{{"$date":"2026-11-21T05:35:53.472+00:00"}},"s":"I","c":"CONTROL","id":1,"ctx":"initandlisten","msg":"{message}","attr":{{"pid":{pid},"port":27018,"dbPath":"/d","architecture":"64-bit","host":"db1"}}}}"#
            )
        };
        assert_eq!(LogOwner::from_line(&json("MongoDB starting", "7929")), Some(expected(true)));
        assert_eq!(LogOwner::from_line(&json("Process Details", "\"7929\"")), Some(expected(false)));
        for line in [
            "",
            "2026-11-21T05:35:53.472+0000 I CONTROL  [initandlisten] db version v4.0.3",
            r#"{"t":{"$date":"2026-11-21T05:35:53.472+00:00"},"msg":"a","attr":{"text":"MongoDB starting"}}"#,
        ] {
            assert_eq!(LogOwner::from_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_router_is_known_by_its_options_without_a_name() {
        let text = |options: &str| {
            format!("2026-11-21T05:35:53.472+0000 I CONTROL  [mongosMain] options: {{ {options} }}")
        };
        let json = |options: &str| {
            format!(
                r#"{{"t":{{"$date":"2026-11-21T05:35:53.472+00:00"}},"s":"I","c":"CONTROL","id":21951,"ctx":"mongosMain","msg":"Options set by command line","attr":{{"options":{{{options}}}}}}}"#
            )
        };
        let router =
            |port| Some(LogOwner { host: None, port, pid: None, at_ms: 1_795_239_353_472, is_start: true });
        let sharding = "sharding: { configDB: \"config/c1:27019\" }, systemLog: { path: \"/l\" }";
        let net = "config: \"/r.conf\", net: { bindIp: \"0.0.0.0\", compression: { compressors: \"zlib\" }, port: 20000 }";
        assert_eq!(LogOwner::from_line(&text(&format!("{net}, {sharding}"))), router(20000));
        assert_eq!(LogOwner::from_line(&text(sharding)), router(27017));
        let sharding = r#""sharding":{"configDB":"config/c1:27019"}"#;
        assert_eq!(
            LogOwner::from_line(&json(&format!(r#""net":{{"port":27700}},{sharding}"#))),
            router(27700)
        );
        assert_eq!(LogOwner::from_line(&json(sharding)), router(27017));
        // A mongod logs its options too, behind its name.
        let shard = r#""net":{"port":27018},"sharding":{"clusterRole":"shardsvr"}"#;
        assert_eq!(LogOwner::from_line(&json(shard)), None);
        assert_eq!(
            LogOwner::from_line(&text("net: { port: 27018 }, sharding: { clusterRole: \"shardsvr\" }")),
            None
        );
        assert_eq!(LogOwner::from_line(&text("net: { port: 70000 }, sharding: { configDB: \"c\" }")), None);
    }

    #[test]
    fn a_name_without_a_port_has_the_usual_one() {
        let owner =
            |port| LogOwner { host: Some("db1".to_owned()), port, pid: None, at_ms: 0, is_start: true };
        assert!(owner(27017).is_named("DB1") && owner(27018).is_named("db1:27018"));
        assert!(!owner(27018).is_named("db1") && !owner(27017).is_named("db2"));
    }
}
