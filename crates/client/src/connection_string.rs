//! `mongodb://user:password@host:port,host:port/database?option=value`, taken apart.
//!
//! What concerns a connection is checked here and refused when it makes no sense; what concerns drivers (write concern,
//! pools, retries) is kept by name. No error repeats what might be a password.

use std::str::FromStr;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;

use crate::tls::ClientTls;
use crate::{Address, Credential, Target};

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        if text.starts_with("mongodb+srv://") {
            let what = "mongodb+srv:// needs a look-up in the name service, which is not supported";
            return Err(
                Error::new(Kind::Unsupported, what).advise("list the servers: mongodb://host:port,host:port")
            );
        }
        let rest = text
            .strip_prefix("mongodb://")
            .ok_or_else(|| Error::usage("a connection string starts with mongodb://"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        // An unescaped slash in a password would end the servers here; the at sign after it gives it away.
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if database.contains('@') {
            return Err(unescaped());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let addresses =
            hosts.split(',').map(|host| decoded(host)?.parse()).collect::<Result<Vec<Address>>>()?;
        let mut target = Target { addresses, ..Target::at(Address::new("", 0)) };
        target.database = Some(decoded(database)?).filter(|name| !name.is_empty());
        let mut options = Options::read(options)?;
        target.credential = credential(login, &mut options, target.database.as_deref())?;
        target.tls = tls(&mut options)?;
        target.compressors = compressors(&mut options);
        target.replica_set = options.take("replicaSet");
        target.app_name = options.take("appName");
        if let Some(timeout) = options.milliseconds("connectTimeoutMS")? {
            target.connect_timeout = timeout;
        }
        target.socket_timeout = options.milliseconds("socketTimeoutMS")?;
        target.other_options = options.0;
        Ok(target)
    }
}

/// The options that are not taken yet, in their order.
struct Options(Vec<(String, String)>);

impl Options {
    fn read(text: &str) -> Result<Options> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((decoded(name)?, decoded(value)?)),
            _ => Err(Error::usage("an option of the connection string is not written name=value")),
        });
        Ok(Options(read.collect::<Result<_>>()?))
    }

    /// Takes an option out; names are compared without case, and the last value holds, as with the drivers.
    fn take(&mut self, name: &str) -> Option<String> {
        let mut found = None;
        self.0.retain_mut(|(key, value)| {
            let same = key.eq_ignore_ascii_case(name);
            if same {
                found = Some(std::mem::take(value));
            }
            !same
        });
        found
    }

    fn truth(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => {
                Err(Error::usage(format!("{name} in the connection string is neither true nor false")))
            }
        }
    }

    /// A duration; 0 means none, as with the drivers.
    fn milliseconds(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number: u64 = text.parse().map_err(|_| {
            Error::usage(format!("{name} in the connection string is not a number of milliseconds"))
        })?;
        Ok(Some(Duration::from_millis(number)).filter(|duration| !duration.is_zero()))
    }
}

fn credential(
    login: Option<&str>,
    options: &mut Options,
    database: Option<&str>,
) -> Result<Option<Credential>> {
    let mechanism = match options.take("authMechanism").as_deref() {
        None | Some("DEFAULT") => None,
        Some(name) => Some(Mechanism::of_name(name).ok_or_else(|| {
            let what = format!("the authentication mechanism {name} is not supported");
            Error::new(Kind::Unsupported, what).advise("use SCRAM-SHA-256 or SCRAM-SHA-1")
        })?),
    };
    let source = options.take("authSource");
    let Some(login) = login else {
        return match mechanism {
            Some(_) => Err(Error::usage("the connection string has an authMechanism and no user")),
            None => Ok(None),
        };
    };
    let (user, password) = login
        .split_once(':')
        .ok_or_else(|| Error::usage("the connection string has a user and no password"))?;
    if password.contains([':', '@']) || user.contains('@') {
        return Err(unescaped());
    }
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() {
        return Err(Error::usage("the user in the connection string has no name"));
    }
    let source = source.or_else(|| database.map(str::to_owned)).unwrap_or_else(|| "admin".to_owned());
    Ok(Some(Credential { user, password, source, mechanism }))
}

/// `tls` under both its names; anything that belongs to it switches it on, as with the drivers, unless it is off by name.
fn tls(options: &mut Options) -> Result<Option<ClientTls>> {
    let switch = match (options.truth("tls")?, options.truth("ssl")?) {
        (Some(one), Some(other)) if one != other => {
            return Err(Error::usage("the connection string has tls both on and off"));
        }
        (one, other) => one.or(other),
    };
    let insecure = options.truth("tlsInsecure")?.unwrap_or(false);
    let tls = ClientTls {
        ca_file: options.take("tlsCAFile").map(Into::into),
        certificate_key_file: options.take("tlsCertificateKeyFile").map(Into::into),
        allow_invalid_certificates: options.truth("tlsAllowInvalidCertificates")?.unwrap_or(insecure),
        allow_invalid_hostnames: options.truth("tlsAllowInvalidHostnames")?.unwrap_or(insecure),
    };
    Ok(Some(tls).filter(|tls| switch.unwrap_or(*tls != ClientTls::default())))
}

/// The compressors by name; one that is not known stays among the options that are not used, because a list is a wish.
fn compressors(options: &mut Options) -> Vec<Compressor> {
    let wished = options.take("compressors").unwrap_or_default();
    let mut known = Vec::new();
    for name in wished.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match Compressor::of_name(name) {
            Some(compressor) => known.push(compressor),
            None => options.0.push(("compressors".to_owned(), name.to_owned())),
        }
    }
    known
}

/// A part with its percent escapes undone.
fn decoded(text: &str) -> Result<String> {
    let invalid = || {
        Error::usage("the connection string has a percent sign that escapes nothing")
            .advise("write %25 for %")
    };
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or_else(invalid)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| Error::usage("an escape in the connection string is not UTF-8"))
}

fn unescaped() -> Error {
    Error::usage("the user or the password in the connection string holds a character that must be escaped")
        .advise("write %3A for :, %2F for /, %40 for @")
}
