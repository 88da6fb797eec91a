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
        let secret = SECRET_FLAGS.iter().any(|s| s.eq_ignore_ascii_case(last));
        if secret && !value.is_empty() {
            let kept = argument.split('=').next().unwrap_or_default();
            clean.push(format!("{kept}=***"));
        } else {
            hide_next = secret && argument.starts_with('-');
            clean.push(without_credentials(&argument));
        }
    }
    clean
}

/// Replaces `user:password@` after `://` by `***@`. The last `@` before the options ends the credentials, even
/// after a slash: a password with an unescaped `/` must be removed completely.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let options = rest.find('?').unwrap_or(rest.len());
    match rest.get(..options).and_then(|authority| authority.rfind('@')) {
        Some(at) => format!("{scheme}://***{}", rest.get(at..).unwrap_or_default()),
        None => text.to_owned(),
    }
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
                "mongodb://u:p/ss@h/db?appName=a@b",
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
            "mongodb://***@h/db?appName=a@b",
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
