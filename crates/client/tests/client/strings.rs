//! Connection strings, as documentation and users write them.

use std::time::Duration;

use fathom_client::{Address, Target};
use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;
use proptest::prelude::*;

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

fn refused(text: &str) -> String {
    text.parse::<Target>().unwrap_err().to_string()
}

#[test]
fn hosts() {
    let three = target("mongodb://a,b:1,[::1]:27018");
    let expected = [Address::new("a", 27017), Address::new("b", 1), Address::new("::1", 27018)];
    assert_eq!(three.addresses, expected);
    assert_eq!(three.to_string(), "mongodb://a:27017,b:1,[::1]:27018");
    assert_eq!(target("mongodb://h/ycsb?w=1").database.as_deref(), Some("ycsb"));
    assert_eq!(target("mongodb://h/?w=1").database, None);
    assert_eq!(target("mongodb://h?w=1").other_option("W"), Some("1"));
    for text in [
        "mongodb://",
        "mongodb://a,",
        "mongodb://a:0",
        "mongodb://a:65536",
        "mongodb://a:+1",
        "mongodb://a:",
        "mongodb://::1",
        "mongodb://[::1",
        "mongodb://[::1]27",
        "mongodb://[[9[9s1]",
        "mongodb://[localhost]",
        "mongodb://a b",
    ] {
        assert!(refused(text).contains("is not an address"), "{text}: {}", refused(text));
    }
    assert!(refused("localhost:27017").contains("mongodb://"));
    assert!(refused("mongodb://%2Ftmp%2Fmongodb-27017.sock").contains("Unix socket"));
}

#[test]
fn credentials() {
    let decoded = target("mongodb://us%40er:p%3A%2F%25@h/app?authMechanism=SCRAM-SHA-1").credential.unwrap();
    assert_eq!((decoded.user.as_str(), decoded.password.as_str()), ("us@er", "p:/%"));
    assert_eq!((decoded.source.as_str(), decoded.mechanism), ("app", Some(Mechanism::Sha1)));
    assert_eq!(target("mongodb://u:p@h").credential.unwrap().source, "admin");
    assert_eq!(target("mongodb://u:p@h/app?authSource=x").credential.unwrap().source, "x");
    assert!(target("mongodb://h/?authSource=x").credential.is_none());
    assert!(refused("mongodb://u@h").contains("no password"));
    assert!(refused("mongodb://:p@h").contains("no name"));
    assert!(refused("mongodb://u:p@h/?authMechanism=MONGODB-X509").contains("MONGODB-X509 is not supported"));
    assert!(refused("mongodb://h/?authMechanism=SCRAM-SHA-1").contains("no user"));
}

#[test]
fn secrets_are_never_shown() {
    let rests = [
        "u:geh:eim@h",
        "u:geh/eim@h",
        "u:geh?eim@h",
        "u:geh/?eim@h/x?w=1",
        "u:geh@eim@h",
        "u:geh@eim?eim=geh@h",
        "u:geheim%zz@h",
        "u:geheim%40h",
        "u:geh%2Ceim%40h.sock",
        "u:4711?geheim@h:27018/x?w=1",
        "geh?eim:p@h",
        "geh/eim@h",
        "u:p@h/?appName=geh@eim",
    ];
    let schemes = ["mongodb://", "mongodb+srv://"];
    for text in schemes.iter().flat_map(|scheme| rests.map(|rest| format!("{scheme}{rest}"))) {
        let refused = refused(&text);
        assert!(!refused.contains("geh") && !refused.contains("eim"), "{refused}");
    }
    let shown = target("mongodb://u:geheim@h/?tlsCertificateKeyFilePassword=geheim");
    assert!(!format!("{shown:?} {shown}").contains("geheim"));
    assert_eq!(shown.unused_options().collect::<Vec<_>>(), ["tlsCertificateKeyFilePassword"]);
}

#[test]
fn the_characters_to_escape_are_named() {
    let several = refused("mongodb://u:a/b?c%@h");
    assert!(several.contains("holds '/' and '?' and '%', which must be escaped"), "{several}");
    assert!(several.contains("write %2F for /, %3F for ?, %25 for %"), "{several}");
    let option = refused("mongodb://h/?appName=a@b");
    assert!(option.contains("if an at sign is not the end of the login, write %40 for it"), "{option}");
    assert!(refused("mongodb://u:100%ff@h").contains("write %25 for a %"));
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Every printable ASCII character and some others, in the user and in the password, plain and escaped, before every form of the
/// rest: the login is read as it was meant, or the error names the escape and repeats nothing. No other host is ever named.
#[test]
fn every_character_of_a_login() {
    let characters = (' '..='~').chain("\t\n\0\u{7f}äß€語🙂\u{a0}\u{202e}".chars());
    let rests = [
        "h.example",
        "h.example/",
        "h.example/x",
        "h.example?w=1",
        "h.example/?w=1",
        "h.example/x?w=1&appName=a",
    ];
    for (character, rest) in characters.flat_map(|one| rests.map(|rest| (one, rest))) {
        let secret = format!("geh{character}eim");
        for (scheme, (user, password)) in ["mongodb", "mongodb+srv"]
            .into_iter()
            .flat_map(|scheme| [(scheme, ("u", &*secret)), (scheme, (&*secret, "p"))])
        {
            let strict = target(&format!("{scheme}://{}:{}@{rest}", escaped(user), escaped(password)));
            let read = strict.credential.as_ref().unwrap();
            assert_eq!((read.user.as_str(), read.password.as_str()), (user, password));
            let plain = format!("{scheme}://{user}:{password}@{rest}");
            match plain.parse::<Target>() {
                Ok(read) => {
                    let hosts = |target: &Target| (target.addresses.clone(), target.seed_list.clone());
                    assert_eq!(hosts(&read), hosts(&strict), "{plain:?}");
                    let read = read.credential.unwrap();
                    assert_eq!((read.user.as_str(), read.password.as_str()), (user, password));
                }
                Err(error) => {
                    let error = error.to_string();
                    let mut buffer = [0; 4];
                    let escape = escaped(character.encode_utf8(&mut buffer));
                    assert!(error.contains(&format!("write {escape} for {character}")), "{plain:?}: {error}");
                    assert!(!error.contains("geh") && !error.contains("eim"), "{plain:?}: {error}");
                    assert!("/?@:%".contains(character), "{plain:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn options() {
    let all = target(
        "mongodb://h/?replicaSet=rs&appName=a%20b&compressors=zstd,lz4,snappy&connectTimeoutMS=5&SOCKETTIMEOUTMS=7&w=majority&w=2",
    );
    assert_eq!(all.replica_set.as_deref(), Some("rs"));
    assert_eq!(all.app_name.as_deref(), Some("a b"));
    assert_eq!(all.compressors, [Compressor::Zstd, Compressor::Snappy]);
    assert_eq!(
        (all.connect_timeout, all.socket_timeout),
        (Duration::from_millis(5), Some(Duration::from_millis(7)))
    );
    assert_eq!(all.unused_options().collect::<Vec<_>>(), ["w", "w", "compressors"]);
    assert_eq!(target("mongodb://h/?socketTimeoutMS=0").socket_timeout, None);
    assert!(refused("mongodb://h/?connectTimeoutMS=soon").contains("connectTimeoutMS"));
    assert!(refused("mongodb://h/?tls").contains("name=value"));
    assert!(refused("mongodb://h/?tls=yes").contains("neither true nor false"));
    assert!(refused("mongodb://h/?tls=true&ssl=false").contains("both on and off"));
    assert!(refused("mongodb://u:p@h/d?authSource=").contains("authSource"));
}

#[test]
fn tls_options() {
    assert!(target("mongodb://h").tls.is_none());
    assert!(target("mongodb://h/?ssl=true").tls.is_some());
    let tls = target("mongodb://h/?tlsCAFile=%2Fa%2Fca.pem&tlsAllowInvalidHostnames=true").tls.unwrap();
    assert_eq!(tls.ca_file.as_deref(), Some("/a/ca.pem".as_ref()));
    assert!(tls.allow_invalid_hostnames && !tls.allow_invalid_certificates);
    assert!(target("mongodb://h/?tls=false&tlsCAFile=x").tls.is_none());
    let insecure = target("mongodb://h/?tls=true&tlsInsecure=true").tls.unwrap();
    assert!(insecure.allow_invalid_hostnames && insecure.allow_invalid_certificates);
    for option in ["tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames"] {
        assert!(refused(&format!("mongodb://h/?tlsInsecure=false&{option}=true")).contains(option));
    }
}

#[test]
fn a_name_instead_of_servers() {
    let named = target("mongodb+srv://u:p@Cluster.example.com/app?srvMaxHosts=3&srvServiceName=my-db&w=1");
    assert_eq!(named.seed_list.as_ref().unwrap().host(), "cluster.example.com");
    assert!(named.addresses.is_empty() && named.tls.is_some());
    assert_eq!(named.to_string(), "mongodb+srv://cluster.example.com/app");
    assert_eq!(named.unused_options().collect::<Vec<_>>(), ["w"]);
    assert!(target("mongodb+srv://a.b.c/?tls=false").tls.is_none());
    assert!(target("mongodb+srv://a.b.c/?tlsCAFile=x").tls.unwrap().ca_file.is_some());
    for (text, expected) in [
        ("mongodb+srv://a.b.c,d.e.f", "one host"),
        ("mongodb+srv://a.b.c:27017", "without a port"),
        ("mongodb+srv://[::1]", "without a port"),
        ("mongodb+srv://10.0.0.1", "not a name"),
        ("mongodb+srv://", "not a name"),
        ("mongodb+srv://a..c", "not a name"),
        ("mongodb+srv://a.b.c.", "not a name"),
        ("mongodb+srv://a.b.c/?srvMaxHosts=-1", "srvMaxHosts"),
        ("mongodb+srv://a.b.c/?srvServiceName=-a", "srvServiceName"),
        ("mongodb+srv://a.b.c/?srvServiceName=a--b", "srvServiceName"),
        ("mongodb+srv://a.b.c/?srvServiceName=7", "srvServiceName"),
        ("mongodb+srv://a.b.c/?directConnection=true", "directConnection"),
        ("mongodb+srv://a.b.c/?loadBalanced=true", "loadBalanced=true is not supported"),
        ("mongodb://a,b/?directConnection=true", "directConnection"),
        ("mongodb://a/?directConnection=1", "neither true nor false"),
        ("mongodb://a/?srvMaxHosts=1", "srvMaxHosts belongs to mongodb+srv"),
        ("mongodb://a/?srvServiceName=x", "srvServiceName belongs to mongodb+srv"),
        ("mongodb://a/?loadBalanced=true", "loadBalanced=true is not supported"),
    ] {
        assert!(refused(text).contains(expected), "{text}: {}", refused(text));
    }
    assert!(target("mongodb://a/?directConnection=true").direct_connection);
    assert!(!target("mongodb://a,b/?directConnection=false").direct_connection);
}

proptest! {
    #[test]
    fn anything_at_all_never_panics(text in "(mongodb(\\+srv)?://)?[a-z:@/?&=%,\\[\\]0-9é]{0,60}") {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert!(target.addresses.is_empty() == target.seed_list.is_some());
            prop_assert!(target.addresses.iter().all(|address| address.to_string().parse::<Address>().unwrap() == *address));
        }
    }
}
