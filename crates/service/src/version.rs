//! The MongoDB version that the server claims, and its wire version.
//!
//! A driver trusts both, and tools check either of them, so they always agree. The features of a wire version must be served
//! (docs/methods.md#the-claimed-version): 13 (5.0) would include snapshot sessions, so 4.4 is the highest.

use fathom_errors::{Error, Result};
use fathom_wire::DocumentWriter;

/// Each release series with its highest wire version and its last release, which a bare series means.
static SERIES: &[(u32, u32, i32, u32)] = &[(4, 0, 7, 28), (4, 2, 8, 25), (4, 4, 9, 29)];

/// The full version for `text` (`4.4` or `4.4.29`).
pub fn claimed(text: &str) -> Result<String> {
    let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    let known = |major: u32, minor: u32| SERIES.iter().find(|one| (one.0, one.1) == (major, minor));
    let full = match numbers.as_deref() {
        Some([major, minor]) => known(*major, *minor).map(|one| format!("{major}.{minor}.{}", one.3)),
        Some([major, minor, patch]) => known(*major, *minor).map(|_| format!("{major}.{minor}.{patch}")),
        _ => None,
    };
    full.ok_or_else(|| {
        Error::usage(format!(
            "--claimedVersion takes a version of 4.0, 4.2 or 4.4, such as 4.4.29, not '{text}'"
        ))
        .advise("drivers expect commands of later versions that this server does not have")
    })
}

/// The four numbers of `buildInfo.versionArray`.
pub fn numbers(version: &str) -> [i32; 4] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0), 0]
}

/// Writes the part of the reply to `buildInfo` that a server and a router share. A driver takes `version` for the whole product;
/// `gitVersion` names the program that really answers.
pub fn write_build_info(claimed: &str, reply: &mut DocumentWriter<'_>) {
    reply.string("version", claimed);
    reply.string("gitVersion", concat!("fathom-", env!("CARGO_PKG_VERSION")));
    reply.begin_array("modules").end();
    reply.string("allocator", "system");
    reply.string("javascriptEngine", "none");
    reply.string("sysInfo", "deprecated");
    let mut version = reply.begin_array("versionArray");
    numbers(claimed).into_iter().for_each(|number| version.i32(number));
    version.end();
    let mut openssl = reply.begin_document("openssl");
    openssl.string("running", "disabled");
    openssl.string("compiled", "disabled");
    openssl.end();
}

/// The highest wire version for a claimed version.
pub fn max_wire_version(version: &str) -> i32 {
    let [major, minor, ..] = numbers(version);
    let series =
        SERIES.iter().find(|one| (i64::from(one.0), i64::from(one.1)) == (major.into(), minor.into()));
    series.map_or(9, |one| one.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_brings_its_wire_version_and_promises_nothing_more() {
        assert_eq!(claimed("4.4").unwrap(), "4.4.29");
        assert_eq!(claimed("4.0.3").unwrap(), "4.0.3");
        assert_eq!([7, 8, 9], ["4.0.3", "4.2.25", "4.4.29"].map(max_wire_version));
        assert_eq!(numbers("4.2.25"), [4, 2, 25, 0]);
        for refused in ["5.0.1", "3.6.0", "4.4.x", "4", "", "4.4.1.2", "-4.4.1"] {
            assert!(claimed(refused).is_err(), "{refused}");
        }
    }
}
