//! Changes the database of a connection string, or adds options to it, as text and without parsing it.
//!
//! All other parts stay as written, since another driver gets the text and may know options that this crate does not.

/// A connection string with another database in its path. The authentication source stays the same: the database that was in the
/// path, else `admin` (the URI specification), since a driver would otherwise look for the user in the new database.
pub fn with_database(uri: &str, database: &str) -> String {
    let (start, options) = uri.split_once('?').unwrap_or((uri, ""));
    let (scheme, rest) = start.split_once("://").unwrap_or(("mongodb", start));
    let (hosts, old) = rest.split_once('/').unwrap_or((rest, ""));
    let lower = options.to_lowercase();
    let has_source = lower.contains("authsource=");
    // Other mechanisms than SCRAM have sources of their own, and an SRV record may name one.
    let is_scram = lower.split('&').all(|option| {
        option.strip_prefix("authmechanism=").is_none_or(|mechanism| mechanism.starts_with("scram"))
    });
    let is_default = scheme == "mongodb" && is_scram;
    let source = match old {
        _ if has_source || !hosts.contains('@') => None,
        "" if !is_default => None,
        "" => Some("admin"),
        old => Some(old),
    };
    let uri = format!("{scheme}://{hosts}/{database}?{options}");
    with_options(&uri, source.map(|source| ("authSource", source.to_owned())))
}

/// Adds options to a connection string that has some already, or ends in `?`.
pub fn with_options(uri: &str, options: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut uri = uri.to_owned();
    for (name, value) in options {
        let separator = if uri.ends_with(['?', '&']) { "" } else { "&" };
        uri.push_str(&format!("{separator}{name}={value}"));
    }
    uri
}

/// A connection string with every delimiter of its login escaped (RFC 3986, section 2.2): some drivers refuse a plain `#`, `[` or `]` there.
pub fn with_escaped_login(uri: &str) -> String {
    let Some(((scheme, login), rest)) =
        uri.rsplit_once('@').and_then(|(start, rest)| Some((start.split_once("://")?, rest)))
    else {
        return uri.to_owned();
    };
    let escaped = login.replace('#', "%23").replace('[', "%5B").replace(']', "%5D");
    format!("{scheme}://{escaped}@{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_escaped_and_the_rest_stays() {
        assert_eq!(
            with_escaped_login("mongodb://u:p#[x]%2F@[::1]:1/d?w=1"),
            "mongodb://u:p%23%5Bx%5D%2F@[::1]:1/d?w=1"
        );
        assert_eq!(with_escaped_login("mongodb://[::1]/d"), "mongodb://[::1]/d");
    }

    #[test]
    fn the_database_is_ours_and_the_user_stays_known() {
        assert_eq!(with_database("mongodb://h:1", "x"), "mongodb://h:1/x?");
        assert_eq!(with_database("mongodb://u:p@h/app?w=1", "x"), "mongodb://u:p@h/x?w=1&authSource=app");
        assert_eq!(with_database("mongodb://u:p@h/app", "x"), "mongodb://u:p@h/x?authSource=app");
        assert_eq!(
            with_database("mongodb://u:p@h", "x"),
            "mongodb://u:p@h/x?authSource=admin",
            "the default of the URI specification"
        );
        assert_eq!(with_database("mongodb://u:p@h/?w=1", "x"), "mongodb://u:p@h/x?w=1&authSource=admin");
        assert_eq!(with_database("mongodb+srv://u:p@h", "x"), "mongodb+srv://u:p@h/x?");
        let scram = "mongodb://u:p@h/?authMechanism=SCRAM-SHA-256";
        assert!(with_database(scram, "x").ends_with("SCRAM-SHA-256&authSource=admin"));
        let x509 = "mongodb://u@h/?authMechanism=MONGODB-X509";
        assert!(with_database(x509, "x").ends_with("X509"));
        assert_eq!(
            with_database("mongodb://u:p@h/?authSource=admin", "x"),
            "mongodb://u:p@h/x?authSource=admin"
        );
    }

    #[test]
    fn options_follow_those_that_are_there() {
        let options = || [("w", "majority".to_owned()), ("journal", "false".to_owned())];
        assert_eq!(with_options("mongodb://h/x?", options()), "mongodb://h/x?w=majority&journal=false");
        let set = with_options("mongodb://h/x?replicaSet=r", options());
        assert_eq!(set, "mongodb://h/x?replicaSet=r&w=majority&journal=false");
    }
}
