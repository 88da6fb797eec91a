//! Table of MongoDB's TLS options: their names before and since 4.2, for servers and for our own connections.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fathom_client::tls::ClientTls;
use fathom_errors::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::version::Version;

/// The first version with the newer names.
const SINCE: Version = Version::release(4, 2);

/// The kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// A TLS mode: `requireTLS`, `preferTLS`.
    Mode,
    File,
    Text,
    Nothing,
}

/// The newer name, the older name, and the kind of the value.
const NAMES: [(&str, &str, ValueKind); 10] = [
    ("tlsMode", "sslMode", ValueKind::Mode),
    ("tlsCAFile", "sslCAFile", ValueKind::File),
    ("tlsCRLFile", "sslCRLFile", ValueKind::File),
    ("tlsAllowInvalidHostnames", "sslAllowInvalidHostnames", ValueKind::Nothing),
    ("tlsAllowInvalidCertificates", "sslAllowInvalidCertificates", ValueKind::Nothing),
    ("tlsCertificateKeyFile", "sslPEMKeyFile", ValueKind::File),
    ("tlsClusterFile", "sslClusterFile", ValueKind::File),
    ("tlsDisabledProtocols", "sslDisabledProtocols", ValueKind::Text),
    ("tlsAllowConnectionsWithoutCertificates", "sslAllowConnectionsWithoutCertificates", ValueKind::Nothing),
    ("tlsFIPSMode", "sslFIPSMode", ValueKind::Nothing),
];
/// mlaunch's names for the certificate of its own connections.
const CLIENT_CERTIFICATE: [&str; 3] =
    ["tlsClientCertificateKeyFile", "sslClientPEMKeyFile", "sslClientCertificate"];
/// The password options, which are secrets and not part of a cluster's description.
const PASSWORDS: [(&str, &str); 2] =
    [("tlsCertificateKeyFilePassword", "sslPEMKeyPassword"), ("tlsClusterPassword", "sslClusterPassword")];

/// TLS options of a cluster, under the names since 4.2 without their dashes; a switch has no value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Option<serde_json::Value>>", into = "BTreeMap<String, Option<String>>")]
pub struct TlsArguments(BTreeMap<String, Option<String>>);

impl TryFrom<BTreeMap<String, Option<serde_json::Value>>> for TlsArguments {
    type Error = Error;

    fn try_from(given: BTreeMap<String, Option<serde_json::Value>>) -> Result<Self> {
        let mut tls = TlsArguments::default();
        for (name, value) in given {
            match value {
                None | Some(serde_json::Value::Bool(true)) => tls.set(&name, None)?,
                Some(serde_json::Value::Bool(false)) => {}
                Some(serde_json::Value::String(text)) => tls.set(&name, Some(text))?,
                Some(_) => return Err(Error::usage(format!("the TLS option {name} takes a text"))),
            }
        }
        Ok(tls)
    }
}

impl From<TlsArguments> for BTreeMap<String, Option<String>> {
    fn from(tls: TlsArguments) -> Self {
        tls.0
    }
}

impl TlsArguments {
    /// Every option that a command line may have, with the name of its value; `None` for a switch.
    pub fn options() -> Vec<(&'static str, Option<&'static str>)> {
        let value = |takes: ValueKind| match takes {
            ValueKind::Mode => Some("MODE"),
            ValueKind::File => Some("FILE"),
            ValueKind::Text => Some("LIST"),
            ValueKind::Nothing => None,
        };
        let both =
            NAMES.iter().flat_map(|&(newer, older, takes)| [(newer, value(takes)), (older, value(takes))]);
        both.chain(CLIENT_CERTIFICATE.map(|name| (name, Some("FILE")))).collect()
    }

    /// Sets an option by its newer or older name, without dashes. Files must exist; their paths become absolute.
    pub fn set(&mut self, name: &str, value: Option<String>) -> Result<()> {
        if CLIENT_CERTIFICATE.contains(&name) {
            let file = existing(name, value.as_deref())?;
            self.0.insert("tlsClientCertificateKeyFile".to_owned(), Some(file));
            return Ok(());
        }
        let found = NAMES.iter().find(|(newer, older, _)| *newer == name || *older == name);
        let Some(&(newer, _, takes)) = found else {
            return Err(Error::usage(format!("'{name}' is not a TLS option")));
        };
        let value = match (takes, value) {
            (ValueKind::Mode, Some(mode)) => Some(newer_mode(name, &mode)?),
            (ValueKind::File, value) => Some(existing(name, value.as_deref())?),
            (ValueKind::Text, Some(text)) => Some(text),
            (ValueKind::Nothing, None) => None,
            (ValueKind::Nothing, Some(_)) => return Err(Error::usage(format!("--{name} takes no value"))),
            (_, None) => return Err(Error::usage(format!("--{name} takes a value"))),
        };
        self.0.insert(newer.to_owned(), value);
        Ok(())
    }

    /// The arguments for a server of this version.
    pub(crate) fn server_arguments(
        &self,
        version: Version,
        options: &BTreeSet<String>,
    ) -> Result<Vec<String>> {
        let mut words = Vec::new();
        for (newer, older, takes) in NAMES {
            let Some(value) = self.0.get(newer) else { continue };
            let is_newer = version >= SINCE || options.contains(&format!("--{newer}"));
            words.push(format!("--{}", if is_newer { newer } else { older }));
            match value {
                Some(mode) if takes == ValueKind::Mode && !is_newer => words.push(mode.replace("TLS", "SSL")),
                Some(value) => words.push(value.clone()),
                None => {}
            }
        }
        Ok(words)
    }

    /// The TLS settings of our own connections; plain text if the servers accept it.
    pub fn client(&self) -> Option<ClientTls> {
        let mode = self.0.get("tlsMode")?.as_deref()?;
        if !matches!(mode, "requireTLS" | "preferTLS") {
            return None;
        }
        let file = |name: &str| self.0.get(name)?.as_ref().map(PathBuf::from);
        let ca_file = file("tlsCAFile");
        Some(ClientTls {
            // A user who names no authority has signed the certificate himself, as mlaunch assumes.
            allow_invalid_certificates: ca_file.is_none()
                || self.0.contains_key("tlsAllowInvalidCertificates"),
            ca_file,
            certificate_key_file: file("tlsClientCertificateKeyFile"),
            allow_invalid_hostnames: self.0.contains_key("tlsAllowInvalidHostnames"),
        })
    }

    /// The same settings as connection string options.
    pub(crate) fn client_options(&self) -> Vec<String> {
        let Some(tls) = self.client() else { return Vec::new() };
        let file = |name: &str, path: Option<PathBuf>| {
            path.map(|path| format!("{name}={}", escaped(&path.to_string_lossy())))
        };
        let mut options = vec!["tls=true".to_owned()];
        options.extend(file("tlsCAFile", tls.ca_file));
        options.extend(file("tlsCertificateKeyFile", tls.certificate_key_file));
        options.extend(tls.allow_invalid_certificates.then(|| "tlsAllowInvalidCertificates=true".to_owned()));
        options.extend(tls.allow_invalid_hostnames.then(|| "tlsAllowInvalidHostnames=true".to_owned()));
        options
    }
}

fn existing(name: &str, value: Option<&str>) -> Result<String> {
    let value = value.ok_or_else(|| Error::usage(format!("--{name} takes a file")))?;
    let path = std::path::absolute(value).map_err(|cause| Error::io("find", value, cause))?;
    if !path.is_file() {
        return Err(Error::usage(format!("the file {value} of --{name} does not exist")));
    }
    path.into_os_string()
        .into_string()
        .map_err(|_| Error::usage(format!("the path of --{name} is not UTF-8")))
}

fn newer_mode(name: &str, mode: &str) -> Result<String> {
    let newer = mode.replace("SSL", "TLS");
    let known = ["disabled", "allowTLS", "preferTLS", "requireTLS"].contains(&newer.as_str());
    let refused = || {
        let modes = if name.starts_with("tls") {
            "allowTLS, preferTLS or requireTLS"
        } else {
            "allowSSL, preferSSL or requireSSL"
        };
        Error::usage(format!("--{name} takes disabled, {modes}, not '{mode}'"))
    };
    known.then_some(newer).ok_or_else(refused)
}

/// The name, with dashes, that an option has in the other versions, with its value there.
pub(crate) fn other_name(option: &str, value: Option<&str>) -> Option<(String, Option<String>)> {
    let name = option.strip_prefix("--")?;
    let pairs = NAMES.iter().map(|(newer, older, _)| (*newer, *older)).chain(PASSWORDS);
    let other = pairs.into_iter().find_map(|(newer, older)| match name {
        _ if name == newer => Some(older),
        _ if name == older => Some(newer),
        _ => None,
    })?;
    let value = value.map(|value| match name {
        "sslMode" => value.replace("SSL", "TLS"),
        "tlsMode" => value.replace("TLS", "SSL"),
        _ => value.to_owned(),
    });
    Some((format!("--{other}"), value))
}

/// Percent-encodes the characters that have a meaning in a connection string.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
