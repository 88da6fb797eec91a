//! Tests of SCRAM: the vectors of the RFCs, a conversation of MongoDB's own kind, and logins that must fail.

use fathom_wire::scram::{
    ClientConversation, ClientFirstMessage, Credentials, Mechanism, ServerConversation,
};
use fathom_wire::{Code, Failure};
use proptest::prelude::*;

/// The user of both RFC examples; MongoDB's SCRAM-SHA-1 hashes the password first, so its vector is the drivers' own.
const USER: &str = "user";
const PASSWORD: &str = "pencil";

fn text(payload: &[u8]) -> &str {
    std::str::from_utf8(payload).unwrap()
}

/// The example of RFC 7677, section 3, on both sides.
#[test]
fn rfc_7677() {
    let nonce = "rOprNGfwEbeRWgbNEkqO";
    let (mut client, first) = ClientConversation::start(Mechanism::Sha256, USER, PASSWORD, nonce);
    assert_eq!(text(&first), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let server_first =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let last = client.step(server_first.as_bytes()).unwrap();
    assert_eq!(
        text(&last),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    assert!(!client.is_proved());
    client.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
    assert!(client.is_proved());

    let salt = b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81".to_vec();
    let credentials = Credentials::derive(Mechanism::Sha256, USER, PASSWORD, salt, 4096).unwrap();
    let opening = ClientFirstMessage::parse(&first).unwrap();
    assert_eq!(opening.user(), USER);
    let (mut server, step) = ServerConversation::start(
        Mechanism::Sha256,
        opening,
        credentials,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        true,
    );
    assert_eq!((text(&step.payload), step.done), (server_first, false));
    let step = server.step(&last).unwrap();
    assert_eq!((text(&step.payload), step.done), ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", true));
}

/// SCRAM-SHA-1 as MongoDB does it: the vector that the drivers' specification gives
/// (mongodb/specifications:source/auth/auth.md, user `user`, password `pencil`).
#[test]
fn the_drivers_vector_of_sha_1() {
    let (mut client, first) =
        ClientConversation::start(Mechanism::Sha1, USER, PASSWORD, "fyko+d2lbbFgONRv9qkxdawL");
    assert_eq!(text(&first), "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
    let server_first =
        "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000";
    let last = client.step(server_first.as_bytes()).unwrap();
    assert_eq!(
        text(&last),
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY="
    );
    client.step(b"v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=").unwrap();
    assert!(client.is_proved());
}

/// Runs both sides against each other; returns the server's user if both sides succeeded.
fn converse(
    mechanism: Mechanism,
    user: &str,
    passwords: (&str, &str),
    skip_empty_exchange: bool,
) -> Result<String, Failure> {
    let salt = vec![7; mechanism.salt_bytes()];
    let credentials = Credentials::derive(mechanism, user, passwords.0, salt, 4096)?;
    let kept = Credentials::from_document(mechanism, &credentials.to_document())?;
    assert_eq!(kept, credentials);
    let (mut client, first) = ClientConversation::start(mechanism, user, passwords.1, "abcd");
    let (mut server, mut step) = ServerConversation::start(
        mechanism,
        ClientFirstMessage::parse(&first)?,
        kept,
        "efgh",
        skip_empty_exchange,
    );
    let mut exchanges = 1;
    while !step.done {
        let message = client.step(&step.payload)?;
        step = server.step(&message)?;
        exchanges += 1;
    }
    client.step(&step.payload)?;
    assert_eq!(exchanges, if skip_empty_exchange { 2 } else { 3 });
    assert!(client.is_proved());
    assert!(server.step(b"").is_err(), "nothing follows the end");
    Ok(server.user().to_owned())
}

#[test]
fn both_sides_agree() {
    for mechanism in Mechanism::ALL {
        for skip in [true, false] {
            assert_eq!(converse(mechanism, "a=b,c", ("pass,=word", "pass,=word"), skip).unwrap(), "a=b,c");
            let failure = converse(mechanism, "user", ("right", "wrong"), skip).unwrap_err();
            assert_eq!(
                (failure.code(), failure.message()),
                (Code::AuthenticationFailed, "Authentication failed.")
            );
        }
    }
    // SASLprep: the roman numeral nine is the letters IX; a control character is forbidden.
    assert!(converse(Mechanism::Sha256, "user", ("IX", "\u{2168}"), true).is_ok());
    assert!(converse(Mechanism::Sha256, "user", ("\u{7}", "\u{7}"), true).is_err());
    assert!(converse(Mechanism::Sha1, "user", ("IX", "\u{2168}"), true).is_err());
}

#[test]
fn a_false_server_is_not_believed() {
    let start = || ClientConversation::start(Mechanism::Sha1, USER, PASSWORD, "abcd").0;
    for (server_first, why) in [
        ("r=wxyz,s=AAAA,i=4096", "another nonce"),
        ("r=abcd,s=AAAA,i=4096", "no nonce of its own"),
        ("r=abcdefgh,s=AAAA,i=4095", "too few iterations"),
        ("r=abcdefgh,s=AAAA,i=999999999", "too many iterations"),
        ("r=abcdefgh,s=*,i=4096", "no base64"),
        ("m=x,r=abcdefgh,s=AAAA,i=4096", "an extension that must be understood"),
        ("", "nothing"),
    ] {
        assert!(start().step(server_first.as_bytes()).is_err(), "{why}");
    }
    let mut client = start();
    client.step(b"r=abcdefgh,s=AAAA,i=4096").unwrap();
    assert!(client.step(b"v=AAAA").is_err());
    assert!(!client.is_proved());
    assert!(client.step(b"v=AAAA").is_err(), "it is over");
}

#[test]
fn openings_that_are_refused() {
    for payload in [
        "p=tls-unique,,n=u,r=a",
        "n,a=other,n=u,r=a",
        "n,,n=u",
        "n,,n=u,r=",
        "n,,n=a=b,r=a",
        "n,,r=a,n=u",
        "",
    ] {
        assert_eq!(
            ClientFirstMessage::parse(payload.as_bytes()).unwrap_err().code(),
            Code::BadValue,
            "{payload}"
        );
    }
    assert!(ClientFirstMessage::parse(b"n,,n=\xff,r=a").is_err());
    assert_eq!(ClientFirstMessage::parse(b"n,,n=a=3Db=2C,r=a").unwrap().user(), "a=b,");
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let credentials = Credentials::derive(Mechanism::Sha1, USER, PASSWORD, vec![1, 2], 2).unwrap();
    let (client, _) = ClientConversation::start(Mechanism::Sha1, USER, PASSWORD, "abcd");
    let shown = format!("{credentials:?} {client:?}");
    assert!(!shown.contains("key") && !shown.contains(PASSWORD), "{shown}");
}

#[test]
fn credentials_that_are_no_use() {
    let document = Credentials::derive(Mechanism::Sha1, USER, PASSWORD, vec![1, 2], 2).unwrap().to_document();
    assert!(Credentials::from_document(Mechanism::Sha256, &document).is_err(), "keys of the other size");
    for field in ["iterationCount", "salt", "storedKey", "serverKey"] {
        let mut lacking = document.clone();
        lacking.remove(field);
        let failure = Credentials::from_document(Mechanism::Sha1, &lacking).unwrap_err();
        assert!(failure.message().contains(field), "{failure}");
    }
}

proptest! {
    #[test]
    fn anything_at_all_never_panics_and_never_passes(first in any::<Vec<u8>>(), last in "c=biws,r=abcdefgh,p=[A-Za-z0-9+/=]{0,40}|.{0,40}") {
        let _ = ClientFirstMessage::parse(&first);
        let credentials = Credentials::derive(Mechanism::Sha1, USER, PASSWORD, vec![1], 1).unwrap();
        let opening = ClientFirstMessage::parse(b"n,,n=user,r=abcd").unwrap();
        let (mut server, _) = ServerConversation::start(Mechanism::Sha1, opening, credentials, "efgh", true);
        prop_assert!(server.step(last.as_bytes()).is_err());
        let (mut client, _) = ClientConversation::start(Mechanism::Sha1, USER, PASSWORD, "abcd");
        prop_assert!(client.step(&first).is_err());
    }
}
