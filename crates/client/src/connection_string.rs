//! Parses `mongodb://user:password@host:port,host:port/database?option=value`, and `mongodb+srv://`, which names one host.
//!
//! Options that concern a connection are checked here and refused if invalid; options for drivers (write concern, pools, retries)
//! are kept by name.
//!
//! The last at sign ends the login. Neither servers nor options may hold one unescaped, so whatever precedes it may be secret. No
//! error message repeats a part of the string, except the name or the value of an option that it rejects.

use std::str::FromStr;

use fathom_errors::{Error, Kind, Result};
use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;

use crate::address::AddressFault;
use crate::options::{UriOptions, decoded, load_balanced};
use crate::seed_list::SeedList;
use crate::tls::ClientTls;
use crate::{Address, Credential, Target};

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        read_target(text).map_err(|error| error.or_id("bad-connection-string"))
    }
}

fn read_target(text: &str) -> Result<Target> {
    let (rest, by_name) = match (text.strip_prefix("mongodb://"), text.strip_prefix("mongodb+srv://")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        // An empty result of a shell substitution must not be taken for a server.
        _ if text.trim().is_empty() => {
            return Err(Error::usage("the connection string is empty")
                .advise("name the servers: mongodb://HOST:PORT"));
        }
        _ => {
            let what = "a connection string starts with mongodb:// or mongodb+srv://";
            return Err(Error::usage(what));
        }
    };
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let login = login.map(read_login).transpose()?;
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut options = UriOptions::read(options)?;
    let mut target = Target { addresses: Vec::new(), ..Target::at(Address::new("", 0)) };
    if by_name {
        target.seed_list = Some(SeedList::read(&decoded(hosts)?, &mut options)?);
    } else {
        target.addresses = hosts.split(',').map(read_server).collect::<Result<_>>()?;
    }
    target.database = Some(decoded(database)?).filter(|name| !name.is_empty());
    target.credential = credential(login, &mut options, target.database.as_deref())?;
    target.tls = tls(&mut options, by_name)?;
    target.compressors = compressors(&mut options);
    target.replica_set = options.take("replicaSet");
    target.app_name = options.take("appName");
    target.direct_connection = options.truth("directConnection")?.unwrap_or(false);
    if let Some(timeout) = options.milliseconds("connectTimeoutMS")? {
        target.connect_timeout = timeout;
    }
    target.socket_timeout = options.milliseconds("socketTimeoutMS")?;
    refuse_contradictions(&target, &mut options)?;
    target.other_options = options.0;
    Ok(target)
}

/// Refuses options that contradict each other, as the drivers do.
fn refuse_contradictions(target: &Target, options: &mut UriOptions) -> Result<()> {
    if target.direct_connection && (target.seed_list.is_some() || target.addresses.len() > 1) {
        return Err(Error::usage("directConnection=true takes mongodb:// and one server"));
    }
    if target.seed_list.is_none() {
        for name in ["srvMaxHosts", "srvServiceName"] {
            if options.take(name).is_some() {
                return Err(Error::usage(format!("{name} belongs to mongodb+srv:// and not to mongodb://")));
            }
        }
    }
    if options.truth("loadBalanced")? == Some(true) {
        return Err(load_balanced());
    }
    Ok(())
}

/// One server of the list. The text may be a login whose at sign is missing or escaped, so it is not repeated.
fn read_server(text: &str) -> Result<Address> {
    let fault = |fault: AddressFault| fault.error("a server in the connection string");
    Address::read(&decoded(text)?).map_err(fault)
}

/// Table: the characters that separate the parts of a connection string, with their escapes.
const RESERVED: [(char, &str); 4] = [('/', "%2F"), ('?', "%3F"), ('@', "%40"), (':', "%3A")];

/// The user and the password before the last at sign.
fn read_login(text: &str) -> Result<(String, String)> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, rest)| (user, Some(rest)));
    let is_there = |character: char| match character {
        ':' => password.is_some_and(|password| password.contains(':')),
        _ => text.contains(character),
    };
    let mut plain: Vec<(char, &str)> =
        RESERVED.into_iter().filter(|(character, _)| is_there(*character)).collect();
    if !plain.is_empty() {
        plain.extend(decoded(text).is_err().then_some(('%', "%25")));
        return Err(unescaped(&plain));
    }
    let password =
        password.ok_or_else(|| Error::usage("the connection string has a user and no password"))?;
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() {
        return Err(Error::usage("the user in the connection string has no name"));
    }
    Ok((user, password))
}

fn credential(
    login: Option<(String, String)>,
    options: &mut UriOptions,
    database: Option<&str>,
) -> Result<Option<Credential>> {
    let mechanism = match options.take("authMechanism").as_deref() {
        None | Some("DEFAULT") => None,
        Some(name) => Some(Mechanism::from_name(name).ok_or_else(|| {
            let what = format!("the authentication mechanism {name} is not supported");
            Error::new(Kind::Unsupported, what).advise("use SCRAM-SHA-256 or SCRAM-SHA-1")
        })?),
    };
    let source = options.take("authSource");
    if source.as_deref() == Some("") {
        return Err(Error::usage("authSource in the connection string is empty"));
    }
    let Some((user, password)) = login else {
        return match mechanism {
            Some(_) => Err(Error::usage("the connection string has an authMechanism and no user")),
            None => Ok(None),
        };
    };
    let source = source.or_else(|| database.map(str::to_owned)).unwrap_or_else(|| "admin".to_owned());
    Ok(Some(Credential { user, password, source, mechanism }))
}

/// Reads `tls` under both its names; any option that belongs to it switches it on, as in the drivers, unless it is switched off
/// explicitly; `mongodb+srv://` switches it on too.
fn tls(options: &mut UriOptions, by_name: bool) -> Result<Option<ClientTls>> {
    let switch = match (options.truth("tls")?, options.truth("ssl")?) {
        (Some(one), Some(other)) if one != other => {
            return Err(Error::usage("the connection string has tls both on and off"));
        }
        (one, other) => one.or(other),
    };
    let insecure = options.truth("tlsInsecure")?;
    if let Some(name) = ["tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames"]
        .into_iter()
        .find(|name| insecure.is_some() && options.has(name))
    {
        return Err(Error::usage(format!("tlsInsecure and {name} contradict each other; use one of them")));
    }
    let insecure = insecure.unwrap_or(false);
    let tls = ClientTls {
        ca_file: options.take("tlsCAFile").map(Into::into),
        certificate_key_file: options.take("tlsCertificateKeyFile").map(Into::into),
        allow_invalid_certificates: options.truth("tlsAllowInvalidCertificates")?.unwrap_or(insecure),
        allow_invalid_hostnames: options.truth("tlsAllowInvalidHostnames")?.unwrap_or(insecure),
    };
    Ok(Some(tls).filter(|tls| switch.unwrap_or(by_name || *tls != ClientTls::default())))
}

/// Reads the compressors by name; an unknown one stays among the unused options, because the list only states preferences.
fn compressors(options: &mut UriOptions) -> Vec<Compressor> {
    let wished = options.take("compressors").unwrap_or_default();
    let mut known = Vec::new();
    for name in wished.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match Compressor::from_name(name) {
            Some(compressor) => known.push(compressor),
            None => options.0.push(("compressors".to_owned(), name.to_owned())),
        }
    }
    known
}

/// The error for characters of the login that must be escaped; they are named, and nothing else of it.
fn unescaped(plain: &[(char, &str)]) -> Error {
    let characters: Vec<String> = plain.iter().map(|(character, _)| format!("'{character}'")).collect();
    let escapes: Vec<String> =
        plain.iter().map(|(character, escape)| format!("{escape} for {character}")).collect();
    // The at sign may belong to an option or to the database instead.
    let has_parts = plain.iter().any(|(character, _)| "/?".contains(*character));
    let other = if has_parts { "; if an at sign is not the end of the login, write %40 for it" } else { "" };
    let what = format!(
        "the user or the password in the connection string holds {}, which must be escaped",
        characters.join(" and ")
    );
    Error::usage(what).advise(format!("write {}{other}", escapes.join(", ")))
}
