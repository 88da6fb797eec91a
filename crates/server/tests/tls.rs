//! TLS over the wire: the clients accepted in each mode, and invalid files.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::served::executor::TIMEOUT;
use crate::served::{in_memory, run};
use bson::doc;
use fathom_client::tls::ClientTls;
use fathom_client::{Address, Connection, Target};
use fathom_server::Server;
use fathom_server::config::{TlsMode, TlsOptions};

/// The self-made certificates of the client's own tests.
fn pem(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../client/tests/client/pem").join(name)
}

fn options(mode: TlsMode) -> TlsOptions {
    TlsOptions { mode, certificate_key_file: Some(pem("server.pem")), ..TlsOptions::default() }
}

fn server(tls: TlsOptions) -> Server {
    in_memory(|config| config.net.tls = tls)
}

fn trusting() -> ClientTls {
    ClientTls { ca_file: Some(pem("ca.pem")), ..ClientTls::default() }
}

/// Whether a client can connect and gets answers, including to a message of several TLS records.
fn attempt(server: &Server, tls: Option<ClientTls>) -> bool {
    let mut target = Target::at(Address::new("localhost", server.port()));
    target.tls = tls;
    let Ok(mut connection) = Connection::connect(&target) else { return false };
    let large = doc! { "insert": "c", "documents": [{ "text": "x".repeat(200_000) }] };
    connection.run("a", &large).is_ok()
}

#[test]
fn each_mode_lets_in_whom_it_should() {
    let modes = [
        (TlsMode::Disabled, true, false),
        (TlsMode::Allow, true, true),
        (TlsMode::Prefer, true, true),
        (TlsMode::Require, false, true),
    ];
    for (mode, plain, encrypted) in modes {
        let server = server(options(mode));
        assert_eq!(attempt(&server, None), plain, "{mode:?}, plain");
        assert_eq!(attempt(&server, Some(trusting())), encrypted, "{mode:?}, encrypted");
        server.stop().unwrap();
    }
}

#[test]
fn clients_show_certificates_where_asked() {
    let asking = TlsOptions { ca_file: Some(pem("ca.pem")), ..options(TlsMode::Require) };
    let with = ClientTls { certificate_key_file: Some(pem("client.pem")), ..trusting() };
    let strict = server(asking.clone());
    assert!(attempt(&strict, Some(with.clone())));
    assert!(!attempt(&strict, Some(trusting())));
    strict.stop().unwrap();
    let tolerant = server(TlsOptions { allow_connections_without_certificates: true, ..asking.clone() });
    assert!(attempt(&tolerant, Some(with.clone())) && attempt(&tolerant, Some(trusting())));
    tolerant.stop().unwrap();
    let others = server(TlsOptions { ca_file: Some(pem("other-ca.pem")), ..asking });
    assert!(!attempt(&others, Some(with)));
    others.stop().unwrap();
}

#[test]
fn logins_work_inside_tls_and_a_stop_ends_the_connections() {
    let server = server(options(TlsMode::Require));
    let mut target = Target::at(Address::new("localhost", server.port()));
    target.tls = Some(trusting());
    let mut connection = Connection::connect(&target).unwrap();
    run(&mut connection, "admin", &doc! { "createUser": "u", "pwd": "p", "roles": [] });
    target.credential = Some(fathom_client::Credential {
        user: "u".to_owned(),
        password: "p".to_owned(),
        source: "admin".to_owned(),
        mechanism: None,
    });
    Connection::connect(&target).unwrap();
    server.stop().unwrap();
    assert!(connection.run("admin", &doc! { "ping": 1 }).is_err());
}

#[test]
fn a_client_that_ends_or_pauses_within_its_first_bytes_leaves_nothing_behind() {
    let server = server(options(TlsMode::Prefer));
    let mut connection = Connection::connect(&Target::at(Address::new("localhost", server.port()))).unwrap();
    let mut connections = || {
        let status = run(&mut connection, "admin", &doc! { "serverStatus": 1 });
        let connections = status.get_document("connections").unwrap();
        (connections.get_i32("totalCreated").unwrap(), connections.get_i32("current").unwrap())
    };
    let mut wait_for = |wanted: (i32, i32)| {
        let end = Instant::now() + TIMEOUT;
        while connections() != wanted {
            assert!(Instant::now() < end, "{:?} connections, not {wanted:?}", connections());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for((1, 1));
    // The first byte or two of a TLS handshake.
    for bytes in [&[0x16_u8][..], &[0x16, 3]] {
        TcpStream::connect(("localhost", server.port())).unwrap().write_all(bytes).unwrap();
    }
    wait_for((3, 1));
    // A connection that stays open does not delay the stop.
    let mut open = TcpStream::connect(("localhost", server.port())).unwrap();
    open.write_all(&[0x16]).unwrap();
    wait_for((4, 2));
    server.stop().unwrap();
    assert_eq!(open.read(&mut [0; 8]).unwrap_or(0), 0, "the server answers one byte");
}

#[test]
fn first_bytes_that_come_one_by_one_are_understood() {
    let server = server(options(TlsMode::Prefer));
    for tls in [None, Some(trusting())] {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = proxy.local_addr().unwrap().port();
        let target_port = server.port();
        let forward = std::thread::spawn(move || {
            let (mut client, _) = proxy.accept().unwrap();
            let mut upstream = TcpStream::connect(("127.0.0.1", target_port)).unwrap();
            upstream.set_nodelay(true).unwrap();
            let (mut replies, mut back) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
            let copy = std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
            for _ in 0..4 {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                upstream.write_all(&byte).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            std::io::copy(&mut client, &mut upstream).unwrap();
            upstream.shutdown(Shutdown::Both).unwrap();
            let _ = copy.join().unwrap();
        });
        let mut target = Target::at(Address::new("localhost", port));
        target.tls = tls;
        let mut connection = Connection::connect(&target).unwrap();
        assert_eq!(run(&mut connection, "admin", &doc! { "ping": 1 }).get_f64("ok").unwrap(), 1.0);
        drop(connection);
        forward.join().unwrap();
    }
    server.stop().unwrap();
}

#[test]
fn files_that_are_no_use_are_refused_at_the_start() {
    let refused = |tls: TlsOptions| {
        let mut config = fathom_server::Config::default();
        config.net.port = 0;
        config.storage.engine = fathom_server::config::EngineName::Ephemeral;
        config.net.tls = tls;
        let text = Server::start_quiet(config).unwrap_err().to_string();
        assert!(!text.contains('\n') && !text.is_empty(), "{text}");
        text
    };
    let with = |name: &str| TlsOptions { certificate_key_file: Some(pem(name)), ..options(TlsMode::Require) };
    assert!(refused(with("none.pem")).contains("none.pem"));
    assert!(refused(with("encrypted.pem")).contains("is encrypted"));
    assert!(refused(with("ca.pem")).contains("no usable private key"));
    assert!(refused(with("README.md")).contains("README.md"));
    assert!(refused(TlsOptions { mode: TlsMode::Require, ..TlsOptions::default() }).contains("--tlsMode"));
    let ca = TlsOptions { ca_file: Some(pem("README.md")), ..options(TlsMode::Require) };
    assert!(refused(ca).contains("no certificate"));
}
