//! TLS over the wire: who is let in under each mode, and files that are no use.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod served;

use std::path::PathBuf;

use bson::doc;
use fathom_client::tls::ClientTls;
use fathom_client::{Address, Connection, Target};
use fathom_server::Server;
use fathom_server::config::{TlsMode, TlsOptions};
use served::{in_memory, run};

/// The made-up certificates of the client's own tests.
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

/// Whether a client gets in and is answered, also with a message of several records.
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
    let begun = std::time::Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    assert!(connection.run("admin", &doc! { "ping": 1 }).is_err());
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
