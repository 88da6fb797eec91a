//! Tests `mongodb+srv://` with a name service of their own: a UDP socket that serves a few records.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use fathom_client::{Address, NameService, Target};

/// The record types of the protocol.
const A: u16 = 1;
const AAAA: u16 = 28;
const TXT: u16 = 16;
const SRV: u16 = 33;
const OPT: u16 = 41;
/// Response codes: success, and no such name.
const FINE: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

/// A record: its name, its type, its data.
pub(crate) type Record = (&'static str, u16, Vec<u8>);

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

pub(crate) fn srv(name: &'static str, port: u16, server: &str) -> Record {
    let mut data = vec![0, 0, 0, 5];
    data.extend_from_slice(&port.to_be_bytes());
    data.extend_from_slice(&labels(server));
    (name, SRV, data)
}

fn txt(name: &'static str, pieces: &[&str]) -> Record {
    let mut data = Vec::new();
    for piece in pieces {
        data.push(piece.len() as u8);
        data.extend_from_slice(piece.as_bytes());
    }
    (name, TXT, data)
}

/// The answer to a query with one question.
fn answer(query: &[u8], records: &[Record]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question = &query[12..end + 4];
    let kind = u16::from_be_bytes([query[end], query[end + 1]]);
    let asked = |record: &&Record| labels(record.0).eq_ignore_ascii_case(&query[12..end]);
    let known = records.iter().any(|record| asked(&record));
    let found: Vec<_> = records.iter().filter(asked).filter(|record| record.1 == kind).collect();
    let code = if known { FINE } else { NO_SUCH_NAME };
    let mut reply = query[..2].to_vec();
    reply.extend_from_slice(&[0x84 | (query[2] & 1), 0x80 | code, 0, 1, 0, found.len() as u8, 0, 0, 0, 1]);
    reply.extend_from_slice(question);
    for (_, kind, data) in found {
        reply.extend_from_slice(&[0xc0, 12]);
        reply.extend_from_slice(&kind.to_be_bytes());
        reply.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        reply.extend_from_slice(&(data.len() as u16).to_be_bytes());
        reply.extend_from_slice(data);
    }
    reply.extend_from_slice(&[0, 0, OPT as u8, 4, 208, 0, 0, 0, 0, 0, 0]);
    reply
}

/// Serves `records` until the test's process ends.
pub(crate) fn name_server(records: Vec<Record>) -> NameService {
    NameService::at(serve(records))
}

fn serve(records: Vec<Record>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut query = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            socket.send_to(&answer(&query[..length], &records), from).unwrap();
        }
    });
    address
}

fn some_records() -> Vec<Record> {
    vec![
        srv("_mongodb._tcp.c.example.com", 27018, "a.example.com"),
        srv("_mongodb._tcp.c.example.com", 27017, "b.example.com"),
        txt("c.example.com", &["replicaSet=rs&", "authSource=who"]),
        srv("_shop._tcp.c.example.com", 1, "shop.example.com"),
        srv("_mongodb._tcp.bare.example.com", 27017, "a.example.com"),
        srv("_mongodb._tcp.far.example.com", 27017, "a.example.org"),
        txt("empty.example.com", &["replicaSet=rs"]),
    ]
}

fn resolve(names: &NameService, uri: &str) -> Result<Target, String> {
    uri.parse::<Target>().unwrap().resolve_by(names).map_err(|error| error.to_string())
}

#[test]
fn servers_and_options_come_from_the_name_service() {
    let names = name_server(some_records());
    let mut target = resolve(&names, "mongodb+srv://u:p@C.example.com/app?w=1").unwrap();
    target.addresses.sort();
    assert_eq!(
        target.addresses,
        [Address::new("a.example.com", 27018), Address::new("b.example.com", 27017)]
    );
    assert_eq!(target.replica_set.as_deref(), Some("rs"));
    assert_eq!(target.credential.as_ref().unwrap().source, "who");
    assert!(target.tls.is_some() && target.seed_list.is_none());
    let shop = resolve(&names, "mongodb+srv://c.example.com/?srvServiceName=shop&replicaSet=x").unwrap();
    assert_eq!(shop.addresses, [Address::new("shop.example.com", 1)]);
    assert_eq!(shop.replica_set.as_deref(), Some("x"));
    let bare = resolve(&names, "mongodb+srv://bare.example.com/?tls=false").unwrap();
    assert!(bare.replica_set.is_none() && bare.tls.is_none());
    // Without a seed list the target stays unchanged.
    assert_eq!(resolve(&names, "mongodb://a,b").unwrap().addresses.len(), 2);
}

#[test]
fn what_the_name_service_lacks_is_said() {
    let names = name_server(some_records());
    let refused = |host: &str| resolve(&names, &format!("mongodb+srv://{host}")).unwrap_err();
    let none = refused("none.example.com");
    assert!(none.contains("no SRV records for _mongodb._tcp.none.example.com"), "{none}");
    assert!(refused("empty.example.com").contains("no SRV records"));
    let far = refused("far.example.com");
    assert!(far.contains("a.example.org:27017") && far.contains("not in the domain example.com"), "{far}");
}

#[test]
fn a_silent_name_service_is_given_up_in_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let names = NameService::at(silent.local_addr().unwrap());
    let error = resolve(&names, "mongodb+srv://c.example.com/?connectTimeoutMS=300").unwrap_err();
    assert!(error.contains("mongodb+srv://c.example.com") && error.contains("300ms"), "{error}");
}

#[test]
fn names_of_hosts_are_tried_in_search_domains_as_ndots_says() {
    let four = |last: u8| vec![10, 0, 0, last];
    let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
    let server = serve(vec![
        ("db1.shop.example", A, four(1)),
        ("db1.shop.example", AAAA, six),
        ("db1.east.shop.example", A, four(2)),
        ("db1.east", A, four(3)),
        ("db.other.example", A, four(4)),
        ("db.other.example.shop.example", A, four(5)),
        ("named.shop.example", TXT, vec![1, b'x']),
    ]);
    let conf = |options: &str| {
        let text = format!("nameserver 127.0.0.1\nsearch shop.example far.example\noptions {options}\n");
        NameService::from_resolv_conf(&text, server.port())
    };
    let timeout = Duration::from_secs(10);
    let found = |service: &NameService, host: &str| {
        let mut found = service.addresses_of(host, timeout).unwrap();
        found.sort();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let kubernetes = conf("ndots:2");
    assert_eq!(found(&kubernetes, "db1"), ["10.0.0.1", "2001:db8::1"]);
    assert_eq!(found(&kubernetes, "db1.east"), ["10.0.0.2"]);
    assert_eq!(found(&kubernetes, "db.other.example"), ["10.0.0.4"]);
    assert_eq!(found(&kubernetes, "db1.east."), ["10.0.0.3"]);
    assert_eq!(found(&conf("ndots:1"), "db1.east"), ["10.0.0.3"]);
    for host in ["nobody", "named"] {
        let error = kubernetes.addresses_of(host, timeout).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{host}: {error}");
    }
}

#[test]
fn a_name_service_that_is_silent_is_given_up_in_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = "nameserver 127.0.0.1\noptions timeout:600 attempts:5\n";
    let service = NameService::from_resolv_conf(text, silent.local_addr().unwrap().port());
    let error = service.addresses_of("db1.example", Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
}
