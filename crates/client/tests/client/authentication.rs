//! Logins against the server's half of SCRAM, with and without its optional short cuts.

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use fathom_client::{Code, Connection, Credential, Error};
use fathom_wire::scram::{ClientFirstMessage, Credentials, Mechanism, ScramReply, ServerConversation};

use crate::responder::{Request, Responder, SurveyAnswer, hello};

/// The login behaviour of the responder.
#[derive(Clone, Copy)]
struct LoginBehaviour {
    speculates: bool,
    tells_mechanisms: bool,
    has: &'static [Mechanism],
    skips_empty_exchange: bool,
}

const MODERN: LoginBehaviour = LoginBehaviour {
    speculates: true,
    tells_mechanisms: true,
    has: &Mechanism::ALL,
    skips_empty_exchange: true,
};

fn reply(step: ScramReply) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: step.payload };
    doc! { "conversationId": 1, "done": step.done, "payload": payload, "ok": 1.0 }
}

fn login(manner: LoginBehaviour) -> Responder {
    let mut conversation = None;
    let start = move |command: &Document| -> Option<(ServerConversation, ScramReply)> {
        let mechanism = Mechanism::from_name(command.get_str("mechanism").unwrap()).unwrap();
        let first = ClientFirstMessage::parse(command.get_binary_generic("payload").unwrap()).unwrap();
        (manner.has.contains(&mechanism) && first.user() == "fathom").then(|| {
            let salt = vec![3; mechanism.salt_bytes()];
            let kept = Credentials::derive(mechanism, "fathom", "secret", salt, 4096).unwrap();
            ServerConversation::start(mechanism, first, kept, "server", manner.skips_empty_exchange)
        })
    };
    let failed = || doc! { "ok": 0.0, "errmsg": "Authentication failed.", "code": 18 };
    Responder::play(1, None, move |request: &Request| -> SurveyAnswer {
        let command = &request.command;
        let answer = match request.name() {
            "hello" => {
                let mut answer = hello();
                if manner.tells_mechanisms && command.contains_key("saslSupportedMechs") {
                    let names: Vec<_> = manner.has.iter().map(|mechanism| mechanism.name()).collect();
                    answer.insert("saslSupportedMechs", names);
                }
                let speculation = command.get_document("speculativeAuthenticate").unwrap();
                assert_eq!(speculation.get_str("db").unwrap(), "admin");
                if let Some((begun, step)) = start(speculation).filter(|_| manner.speculates) {
                    conversation = Some(begun);
                    answer.insert("speculativeAuthenticate", reply(step));
                }
                answer
            }
            "saslStart" => match start(command) {
                Some((begun, step)) => {
                    conversation = Some(begun);
                    reply(step)
                }
                None => failed(),
            },
            "saslContinue" => {
                let payload = command.get_binary_generic("payload").unwrap();
                conversation.as_mut().unwrap().step(payload).map_or_else(|_| failed(), reply)
            }
            _ => doc! { "ok": 1.0 },
        };
        answer.into()
    })
}

fn attempt(
    manner: LoginBehaviour,
    user: &str,
    password: &str,
    mechanism: Option<Mechanism>,
) -> (Result<(), Error>, Vec<String>) {
    let responder = login(manner);
    let mut target = responder.target();
    target.credential = Some(Credential {
        user: user.to_owned(),
        password: password.to_owned(),
        source: "admin".to_owned(),
        mechanism,
    });
    let result = Connection::connect(&target)
        .and_then(|mut connection| connection.run("admin", &doc! { "ping": 1 }))
        .map(|_| ());
    let names = responder.seen().iter().map(|request| request.name().to_owned()).collect();
    (result, names)
}

#[test]
fn one_exchange_less_when_speculating() {
    let (result, seen) = attempt(MODERN, "fathom", "secret", None);
    result.unwrap();
    assert_eq!(seen, ["hello", "saslContinue", "ping"]);
}

#[test]
fn every_other_manner_works_too() {
    for speculates in [true, false] {
        for tells_mechanisms in [true, false] {
            for skips_empty_exchange in [true, false] {
                let manner = LoginBehaviour { speculates, tells_mechanisms, skips_empty_exchange, ..MODERN };
                for mechanism in [None, Some(Mechanism::Sha1), Some(Mechanism::Sha256)] {
                    attempt(manner, "fathom", "secret", mechanism).0.unwrap();
                }
            }
        }
    }
}

#[test]
fn a_user_with_the_old_mechanism_only() {
    let manner = LoginBehaviour { has: &[Mechanism::Sha1], ..MODERN };
    let (result, seen) = attempt(manner, "fathom", "secret", None);
    result.unwrap();
    assert_eq!(seen, ["hello", "saslStart", "saslContinue", "ping"]);
}

#[test]
fn a_wrong_password_or_user_is_refused() {
    for (user, password) in [("fathom", "wrong"), ("nobody", "secret")] {
        let error = attempt(MODERN, user, password, None).0.unwrap_err();
        assert_eq!(
            error.failure().map(fathom_client::Failure::code),
            Some(Code::AuthenticationFailed),
            "{error}"
        );
    }
}

#[test]
fn a_server_that_only_says_yes_is_not_believed() {
    let responder = Responder::play(1, None, |request| match request.name() {
        "hello" => hello().into(),
        _ => reply(ScramReply { payload: b"v=AAAA".to_vec(), done: true }).into(),
    });
    let mut target = responder.target();
    target.credential = "mongodb://u:p@h".parse::<fathom_client::Target>().unwrap().credential;
    assert!(Connection::connect(&target).is_err());
}
