//! A minimal HTTP server: read-only pages for a browser or a scraper on the same host.
//!
//! It listens only on the given address; a bare port means the loopback interface. It answers only GET and HEAD, and only requests that
//! arrive completely within a few seconds and have at most a few kilobytes. Each connection has a thread of its own, because browsers keep
//! connections open without a request, and their number is limited. It has no uploads, no cookies and no persistent connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

/// The time in which a client must send its request, and accept a part of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(4);
/// The largest size of a request that is read.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// The number of clients that are answered at the same time.
const MAX_CLIENTS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebRequest {
    /// The part before `?`, unchanged.
    pub(crate) path: String,
    /// The part after `?`.
    pub(crate) query: String,
    /// The name by which the client addresses this server.
    pub(crate) host: Option<String>,
}

impl WebRequest {
    /// A value of the query; empty if the name does not occur in it.
    pub(crate) fn value(&self, name: &str) -> String {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.into_iter().find(|(key, _)| *key == name);
        found.and_then(|(_, value)| decoded(&value.replace('+', " "))).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// Status code and text: `200 OK`.
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
    /// Additional headers, as whole lines.
    pub(crate) heads: &'static [&'static str],
}

impl Response {
    /// A response that is one plain sentence.
    pub(crate) fn text(status: &'static str, sentence: &str) -> Response {
        let body = format!("{sentence}\n");
        Response { status, kind: "text/plain; charset=utf-8", body, heads: &[] }
    }
}

/// The address in an argument: `9216`, `:9216` or `host:9216`.
pub(crate) fn parse_address(address: &str) -> Result<SocketAddr> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let local = address.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    local.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).or_else(|| address.parse().ok()).ok_or_else(
        || {
            Error::usage(format!("'{}' is not an address to listen on", address.escape_debug()))
                .advise("write a port, or ADDRESS:PORT")
        },
    )
}

/// Listens at `address` and answers in separate threads. Returns the address, since port 0 takes a free one.
pub(crate) fn serve(
    address: SocketAddr,
    name: &'static str,
    answer: impl Fn(&WebRequest) -> Response + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).map_err(|error| {
        Error::new(Kind::Unsupported, format!("cannot listen on {address}")).because(error)
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    let answer = Arc::new(answer);
    let clients = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        for socket in listener.incoming() {
            match socket {
                Ok(socket) => hand_over(socket, name, &answer, &clients),
                // Too many open files, for example: the condition may pass.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    };
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(accept);
    spawned.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
    Ok(bound)
}

/// Counts a client while it is answered.
struct WebClientGuard(Arc<AtomicUsize>);

impl Drop for WebClientGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn hand_over<A>(socket: TcpStream, name: &str, answer: &Arc<A>, clients: &Arc<AtomicUsize>)
where
    A: Fn(&WebRequest) -> Response + Send + Sync + 'static,
{
    let client = WebClientGuard(Arc::clone(clients));
    if clients.fetch_add(1, Ordering::AcqRel) >= MAX_CLIENTS {
        return;
    }
    let answer = Arc::clone(answer);
    let work = move || {
        let _client = client;
        // A client that disconnects is no error.
        let _ = converse(&socket, answer.as_ref());
    };
    // Without a thread the connection is closed, and the client may retry.
    let _ = thread::Builder::new().name(name.to_owned()).spawn(work);
}

fn converse(socket: &TcpStream, answer: &dyn Fn(&WebRequest) -> Response) -> std::io::Result<()> {
    socket.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let Some(head) = read_head(socket)? else { return Ok(()) };
    let (response, with_body) = match parse(&head) {
        Ok((request, with_body)) => (answer(&request), with_body),
        Err(response) => (response, true),
    };
    let Response { status, kind, body, heads } = response;
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    heads.iter().for_each(|head| text.extend([head, "\r\n"]));
    text.push_str("\r\n");
    if with_body {
        text.push_str(&body);
    }
    let mut socket = socket;
    socket.write_all(text.as_bytes())
}

/// The request up to its empty line; `None` if it is incomplete.
fn read_head(mut socket: &TcpStream) -> std::io::Result<Option<String>> {
    let begun = Instant::now();
    let mut head = Vec::new();
    let mut part = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = CLIENT_TIMEOUT.saturating_sub(begun.elapsed());
        if left.is_zero() || head.len() > MAX_REQUEST_BYTES {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        let count = socket.read(&mut part)?;
        if count == 0 {
            return Ok(None);
        }
        head.extend_from_slice(part.get(..count).unwrap_or_default());
    }
    Ok(String::from_utf8(head).ok())
}

/// The request, and whether its answer has a body; or the answer that refuses it.
fn parse(head: &str) -> std::result::Result<(WebRequest, bool), Response> {
    let bad = || Response::text("400 Bad Request", "this is not a request");
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(bad());
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') || words.next().is_some() {
        return Err(bad());
    }
    if !matches!(method, "GET" | "HEAD") {
        let refusal = Response::text("405 Method Not Allowed", "this page is only read");
        return Err(Response { heads: &["Allow: GET, HEAD"], ..refusal });
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(bad());
    }
    Ok((WebRequest { path: path.to_owned(), query: query.to_owned(), host }, method == "GET"))
}

/// The decoded form of `%41` and similar escapes; `None` for invalid ones.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_people_write() {
        assert_eq!(parse_address("9216").unwrap(), parse_address(":9216").unwrap());
        assert_eq!(parse_address("9216").unwrap().to_string(), "127.0.0.1:9216");
        assert_eq!(parse_address("localhost:9216").unwrap().to_string(), "127.0.0.1:9216");
        assert_eq!(parse_address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert!(parse_address("host").is_err() && parse_address("99999").is_err());
    }

    #[test]
    fn requests_are_taken_apart_and_odd_ones_refused() {
        let (request, body) = parse("GET /run/a?x=1%2B&y=b+c HTTP/1.1\r\nHOST: h:1\r\n\r\n").unwrap();
        assert_eq!((request.path.as_str(), request.host.as_deref(), body), ("/run/a", Some("h:1"), true));
        assert_eq!(
            (request.value("x"), request.value("y"), request.value("z")),
            ("1+".into(), "b c".into(), String::new())
        );
        assert!(!parse("HEAD / HTTP/1.0\r\n\r\n").unwrap().1);
        for odd in [
            "",
            "GET /",
            "GET http://x/ HTTP/1.1",
            "GET / HTTP/2",
            "GET / x HTTP/1.1",
            "GET / HTTP/1.1\r\nhost: a\r\nHost: b",
        ] {
            assert_eq!(parse(odd).unwrap_err().status, "400 Bad Request", "{odd}");
        }
        assert_eq!(parse("POST / HTTP/1.1").unwrap_err().status, "405 Method Not Allowed");
        assert_eq!((decoded("%4"), decoded("%zz"), decoded("%+1"), decoded("%ff")), (None, None, None, None));
    }
}
