//! `--metrics ADDRESS`: what goes on, in OpenMetrics, for a Prometheus that scrapes it.
//!
//! One page on one address, read only. It listens where it is told and nowhere else; a bare port means the loopback.

mod load;
mod series;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub(crate) use self::load::LoadMetrics;
pub(crate) use self::series::SeriesMetrics;

/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const REQUEST_BYTES: u64 = 8 << 10;

/// A label's value as it may stand between quotes; prometheus-client writes it as it is, and one quote would end the page for
/// whoever reads it. Names of operations are anybody's.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The address in what a person writes: `9216`, `:9216` or `host:9216`.
fn parse(address: &str) -> Result<SocketAddr> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    address.parse().map_err(|_| {
        Error::usage(format!("'{address}' is no address to listen on"))
            .advise("write a port, or ADDRESS:PORT")
    })
}

fn listen(address: &str, registry: Arc<Registry>) -> Result<()> {
    let address = parse(address)?;
    let listener = TcpListener::bind(address).map_err(|error| {
        Error::new(Kind::Unsupported, format!("cannot listen on {address}")).because(error)
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    crate::output::note(&format!("metrics: http://{bound}/metrics"));
    let serve = move || {
        for socket in listener.incoming().flatten() {
            // One at a time: a scrape is short, and one that is not is cut off.
            let _ = answer(socket, &registry);
        }
    };
    let spawned = thread::Builder::new().name("metrics".to_owned()).spawn(serve);
    spawned.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
    Ok(())
}

fn answer(socket: TcpStream, registry: &Registry) -> std::io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(socket.try_clone()?.take(REQUEST_BYTES)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the request is read, or the close would be a reset.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics" | "/") => {
            let mut body = String::new();
            match encode(&mut body, registry) {
                Ok(()) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
                Err(error) => ("500 Internal Server Error", "text/plain", error.to_string()),
            }
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "the numbers are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "this page is only read\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut socket = &socket;
    socket.write_all(head.as_bytes())?;
    if method != "HEAD" {
        socket.write_all(body.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_people_write() {
        assert_eq!(parse("9216").unwrap(), parse(":9216").unwrap());
        assert_eq!(parse("9216").unwrap().to_string(), "127.0.0.1:9216");
        assert_eq!(parse("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert!(parse("host").is_err() && parse("99999").is_err());
    }
}
