//! TLS with test certificates (pem/README.md): which clients are accepted, which are refused, and why.

use std::path::PathBuf;

use bson::doc;
use fathom_client::Connection;
use fathom_client::tls::{
    ClientTls, ServerTls, client_config, load_authorities, load_identity, server_config,
};

use crate::responder::{Responder, hello};

pub(crate) fn pem(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/client/pem").join(name)
}

fn server() -> ServerTls {
    ServerTls {
        certificate_key_file: pem("server.pem"),
        ca_file: None,
        allow_connections_without_certificates: false,
    }
}

pub(crate) fn trusting(ca: &str) -> ClientTls {
    ClientTls { ca_file: Some(pem(ca)), ..ClientTls::default() }
}

/// Connects and runs a command.
fn attempt(server: &ServerTls, client: ClientTls, host: &str) -> Result<(), String> {
    let config = server_config(server).unwrap();
    let responder = Responder::play(1, Some(config), |_| hello().into());
    let mut target = responder.target();
    target.tls = Some(client);
    target.addresses[0].host = host.to_owned();
    let result = Connection::connect(&target)
        .and_then(|mut connection| connection.run("admin", &doc! { "ping": "x".repeat(100_000) }))
        .map(|_| ())
        .map_err(|error| error.to_string());
    responder.seen();
    result
}

#[test]
fn a_trusted_server_is_taken() {
    attempt(&server(), trusting("ca.pem"), "localhost").unwrap();
}

#[test]
fn an_untrusted_server_is_not() {
    let error = attempt(&server(), trusting("other-ca.pem"), "localhost").unwrap_err();
    assert!(error.contains("TLS handshake") && error.contains("UnknownIssuer"), "{error}");
    let lenient = ClientTls { allow_invalid_certificates: true, ..trusting("other-ca.pem") };
    attempt(&server(), lenient, "localhost").unwrap();
}

#[test]
fn the_name_must_fit_unless_told_otherwise() {
    let error = attempt(&server(), trusting("ca.pem"), "127.0.0.1").unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    let lenient = |ca| ClientTls { allow_invalid_hostnames: true, ..trusting(ca) };
    attempt(&server(), lenient("ca.pem"), "127.0.0.1").unwrap();
    assert!(attempt(&server(), lenient("other-ca.pem"), "127.0.0.1").unwrap_err().contains("UnknownIssuer"));
}

#[test]
fn clients_show_certificates_where_asked() {
    let asking = ServerTls { ca_file: Some(pem("ca.pem")), ..server() };
    let with = ClientTls { certificate_key_file: Some(pem("client.pem")), ..trusting("ca.pem") };
    attempt(&asking, with.clone(), "localhost").unwrap();
    let error = attempt(&asking, trusting("ca.pem"), "localhost").unwrap_err();
    assert!(error.contains("CertificateRequired"), "{error}");
    let tolerant = ServerTls { allow_connections_without_certificates: true, ..asking };
    attempt(&tolerant, trusting("ca.pem"), "localhost").unwrap();
    attempt(&tolerant, with, "localhost").unwrap();
    let strangers = ServerTls { ca_file: Some(pem("other-ca.pem")), ..server() };
    let with = ClientTls { certificate_key_file: Some(pem("client.pem")), ..trusting("ca.pem") };
    assert!(attempt(&strangers, with, "localhost").is_err());
}

#[test]
fn a_plain_client_of_a_tls_server_gets_an_error() {
    let config = server_config(&server()).unwrap();
    let responder = Responder::play(1, Some(config), |_| hello().into());
    assert!(Connection::connect(&responder.target()).unwrap_err().is_network());
}

#[test]
fn files_that_are_no_use_are_named() {
    let error = load_identity(&pem("encrypted.pem")).unwrap_err().to_string();
    assert!(error.contains("encrypted.pem is encrypted") && error.contains("openssl pkey"), "{error}");
    assert!(load_identity(&pem("ca.pem")).unwrap_err().to_string().contains("no usable private key"));
    assert!(load_identity(&pem("none.pem")).unwrap_err().to_string().contains("cannot read"));
    assert!(load_authorities(&pem("README.md")).unwrap_err().to_string().contains("no certificate"));
    assert_eq!(load_authorities(&pem("ca.pem")).unwrap().len(), 1);
    let shown = format!("{:?}", load_identity(&pem("server.pem")).unwrap());
    assert_eq!(shown, "Identity { certificates: 1, .. }");
    assert!(
        client_config(&ClientTls { certificate_key_file: Some(pem("ca.pem")), ..trusting("ca.pem") })
            .is_err()
    );
}
