//! Takes secrets out of a command line before it is written anywhere.
//!
//! A run folder is made to be forwarded. Passwords come as flag values and inside connection strings; both are
//! replaced by `***`, the rest stays, since a run that cannot be repeated from its manifest is half a record.

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

/// Replaces `user:password@` after `://` by `***@`. The last `@` before the options ends the credentials, also
/// behind a slash: a password with an unescaped `/` must not slip through.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let options = rest.find('?').unwrap_or(rest.len());
    match rest.get(..options).and_then(|authority| authority.rfind('@')) {
        Some(at) => format!("{scheme}://***{}", rest.get(at..).unwrap_or_default()),
        None => text.to_owned(),
    }
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
}
