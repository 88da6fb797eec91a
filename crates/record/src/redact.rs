//! Removes secrets from a command line before it is written anywhere.
//!
//! Users send run folders to others. Passwords occur as flag values and inside connection strings, as a login or as an option; they
//! are replaced by `***`. The rest stays, because a record is only complete if its run can be repeated from the manifest.

/// The ends of names whose value is a secret, in small letters: flags of this program and of mongod, options of a connection
/// string, and the properties of an authentication mechanism, which may hold a session token.
const SECRET_NAMES: [&str; 7] =
    ["password", "passwd", "passphrase", "token", "secret", "secretaccesskey", "authmechanismproperties"];

/// Whether a flag, a property or an option holds a secret. Of a property, as in `-p mongodb.pass=x`, the last dotted part decides.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or(&name);
    matches!(last, "pass" | "pwd") || SECRET_NAMES.iter().any(|end| last.ends_with(end))
}

/// The arguments with the values of secret flags, and credentials in URIs, replaced.
pub fn without_secrets(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut hide_next = false;
    let mut clean = Vec::new();
    for argument in arguments {
        if std::mem::take(&mut hide_next) {
            clean.push("***".to_owned());
            continue;
        }
        let flag = argument.trim_start_matches('-');
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        // The `=` of a connection string separates an option, or belongs to a password.
        let secret = !name.contains(':') && is_secret(name);
        if secret && !value.is_empty() {
            let kept = argument.split('=').next().unwrap_or_default();
            clean.push(format!("{kept}=***"));
        } else {
            hide_next = secret && argument.starts_with('-') && !argument.contains('=');
            clean.push(without_credentials(&argument));
        }
    }
    clean
}

/// Replaces the secrets of a connection string: its login, and the values of options that are secret.
fn without_credentials(text: &str) -> String {
    without_secret_options(&without_login(text))
}

/// Replaces `user:password@` by `***@`: after `://`, or in an argument without it from the value on, since a user may forget the
/// scheme. The last `@` ends the credentials, even after a slash or a question mark: a password with one of them that is not
/// escaped must be removed completely.
fn without_login(text: &str) -> String {
    let Some((login, rest)) = text.rsplit_once('@') else { return text.to_owned() };
    let start = match (login.find("://"), login.find('='), login.find(':')) {
        (Some(scheme), ..) => scheme + "://".len(),
        (None, Some(equals), Some(colon)) if equals < colon => equals + 1,
        (None, _, Some(_)) => 0,
        (None, _, None) => return text.to_owned(),
    };
    format!("{}***@{rest}", login.get(..start).unwrap_or_default())
}

/// Replaces the values of secret options behind the question mark. Old drivers take a semicolon between options, too.
fn without_secret_options(text: &str) -> String {
    let Some((start, options)) = text.split_once('?') else { return text.to_owned() };
    let clean = options.split_inclusive(['&', ';']).map(|option| match option.split_once('=') {
        Some((name, value)) if is_secret(name) => {
            let end = value.find(['&', ';']).unwrap_or(value.len());
            format!("{name}=***{}", value.get(end..).unwrap_or_default())
        }
        _ => option.to_owned(),
    });
    format!("{start}?{}", clean.collect::<String>())
}

/// A text, such as a line of a log, with the credentials of every connection string in it replaced. A string ends at white
/// space, a quote or a bracket; the rest of a password with such a character cannot be distinguished from other text.
pub fn text_without_credentials(text: &str) -> String {
    const ENDS: [char; 7] = ['"', '\'', '`', '<', '>', '{', '}'];
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).unwrap_or(after.len());
        let (target, behind) = after.split_at(end);
        clean.push_str(before);
        clean.push_str(&without_credentials(&format!("://{target}")));
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let clean = without_secrets(
            [
                "fathom",
                "--uri",
                "mongodb://admin:p@ss@h1,h2:27018/db?w=1",
                "--password",
                "hunter2",
                "--token=abc",
                "-p",
                "mongodb.password=x",
                "mongodb://u:p/ss@h/db",
                "-p",
                "mongodb.url=mongodb://u:p?s/?s@ss@h/db?w=1",
                "--uri=u:p=ss@h",
                "mongodb.url=u:p@h",
                "mongodb://u:p.token=1@h",
                "a@b",
                "--dir",
                "/data",
            ]
            .map(str::to_owned),
        );
        let expected = [
            "fathom",
            "--uri",
            "mongodb://***@h1,h2:27018/db?w=1",
            "--password",
            "***",
            "--token=***",
            "-p",
            "mongodb.password=***",
            "mongodb://***@h/db",
            "-p",
            "mongodb.url=mongodb://***@h/db?w=1",
            "--uri=***@h",
            "mongodb.url=***@h",
            "mongodb://***@h",
            "a@b",
            "--dir",
            "/data",
        ];
        assert_eq!(clean, expected);
    }

    /// Passwords of keys and session tokens were kept in manifests and shown by `ps`.
    #[test]
    fn options_that_are_secret_go_wherever_they_are() {
        for (given, expected) in [
            (
                "mongodb://h/x?tls=true&tlsCertificateKeyFilePassword=s3cret&w=1",
                "mongodb://h/x?tls=true&tlsCertificateKeyFilePassword=***&w=1",
            ),
            ("--uri=mongodb://h/?proxyPassword=s3=cr=et;w=1", "--uri=mongodb://h/?proxyPassword=***;w=1"),
            (
                "mongodb.url=mongodb://u:p@h/?AUTHMECHANISMPROPERTIES=AWS_SESSION_TOKEN:s3cret",
                "mongodb.url=mongodb://***@h/?AUTHMECHANISMPROPERTIES=***",
            ),
            ("h/?sslClientCertificateKeyPassword=s3cret", "h/?sslClientCertificateKeyPassword=***"),
            ("--ldapQueryPassword=s3cret", "--ldapQueryPassword=***"),
            ("mongodb.pwd=s3cret", "mongodb.pwd=***"),
            ("mongodb://h/x?appName=token", "mongodb://h/x?appName=token"),
            ("what?", "what?"),
        ] {
            assert_eq!(without_secrets([given.to_owned()]), [expected], "{given}");
        }
        let words = ["--sslPEMKeyPassword", "s3cret", "--keyFile", "/key"].map(str::to_owned);
        assert_eq!(without_secrets(words), ["--sslPEMKeyPassword", "***", "--keyFile", "/key"]);
        let line = r#"{"uri":"mongodb://h/?tlsCertificateKeyFilePassword=s3cret","x":"?password=1"}"#;
        let clean = r#"{"uri":"mongodb://h/?tlsCertificateKeyFilePassword=***","x":"?password=1"}"#;
        assert_eq!(text_without_credentials(line), clean);
    }

    #[test]
    fn every_connection_string_within_a_text_loses_its_credentials() {
        let text =
            r#"{"a":"mongodb://u:p@h1,h2/?w=1","b":"x://y","c":'mongodb+srv://me:s3cret@host'} tail @ ://"#;
        let clean = r#"{"a":"mongodb://***@h1,h2/?w=1","b":"x://y","c":'mongodb+srv://***@host'} tail @ ://"#;
        assert_eq!(text_without_credentials(text), clean);
        assert_eq!(text_without_credentials("plain"), "plain");
    }
}
