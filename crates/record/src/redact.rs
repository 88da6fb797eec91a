//! Removes secrets from a command line before it is written anywhere.
//!
//! Users send run folders to others. Passwords occur as flag values and inside connection strings; both are
//! replaced by `***`. The rest stays, because a record is only complete if its run can be repeated from the manifest.

/// Flags whose value is a secret, without the leading dashes.
const SECRET_FLAGS: [&str; 7] = [
    "password",
    "p-password",
    "pass",
    "token",
    "secret",
    "tlsCertificateKeyFilePassword",
    "awsSecretAccessKey",
];

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
        // `-p mongodb.password=x` is a property, so the last dotted part decides.
        let last = name.rsplit('.').next().unwrap_or(name);
        // The `=` of a connection string separates an option, or belongs to a password.
        let secret = !name.contains(':') && SECRET_FLAGS.iter().any(|s| s.eq_ignore_ascii_case(last));
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

/// Replaces `user:password@` by `***@`: after `://`, or in an argument without it from the value on, since a user may forget the
/// scheme. The last `@` ends the credentials, even after a slash or a question mark: a password with one of them that is not
/// escaped must be removed completely.
fn without_credentials(text: &str) -> String {
    let Some((login, rest)) = text.rsplit_once('@') else { return text.to_owned() };
    let start = match (login.find("://"), login.find('='), login.find(':')) {
        (Some(scheme), ..) => scheme + "://".len(),
        (None, Some(equals), Some(colon)) if equals < colon => equals + 1,
        (None, _, Some(_)) => 0,
        (None, _, None) => return text.to_owned(),
    };
    format!("{}***@{rest}", login.get(..start).unwrap_or_default())
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

    #[test]
    fn every_connection_string_within_a_text_loses_its_credentials() {
        let text =
            r#"{"a":"mongodb://u:p@h1,h2/?w=1","b":"x://y","c":'mongodb+srv://me:s3cret@host'} tail @ ://"#;
        let clean = r#"{"a":"mongodb://***@h1,h2/?w=1","b":"x://y","c":'mongodb+srv://***@host'} tail @ ://"#;
        assert_eq!(text_without_credentials(text), clean);
        assert_eq!(text_without_credentials("plain"), "plain");
    }
}
