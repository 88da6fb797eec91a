//! Settings that change at run time, as `setParameter` hands them down: `name=value;name=value`.
//!
//! `cache_size` is ours; everything else is RocksDB's `SetOptions`. `max_write_mb_per_sec` is refused: the C interface
//! has no call that changes a rate limiter, and RocksDB has no option by that meaning either.

use fathom_errors::{Error, Kind, Result};
use fathom_units::Bytes;

use crate::native::{Cache, Database};

/// Changes what `settings` says; RocksDB's own settings are taken all or none.
///
/// # Errors
/// [`Kind::Usage`] names what is not taken.
pub(crate) fn apply(settings: &str, cache: &Cache, database: &Database) -> Result<()> {
    let mut capacity = None;
    let mut native = Vec::new();
    for (name, value) in split(settings)? {
        match name.as_str() {
            "cache_size" => {
                let bytes: Bytes = value.parse()?;
                let too_large = |e| Error::usage(format!("cache_size {value} is too large")).because(e);
                capacity = Some(usize::try_from(bytes.0).map_err(too_large)?);
            }
            "max_write_mb_per_sec" => {
                let what = "max_write_mb_per_sec cannot change while RocksDB runs: its C interface has no call for it";
                return Err(Error::usage(what).advise("close and open with another maxWriteMBPerSec"));
            }
            _ => native.push((name, value)),
        }
    }
    if !native.is_empty() {
        database.set_options(&native).map_err(|status| {
            let names: Vec<&str> = native.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("RocksDB does not take '{}' at run time", names.join(", "));
            let kind = if status.kind() == Kind::Unsupported { Kind::Usage } else { status.kind() };
            Error::new(kind, what).because(status)
        })?;
    }
    if let Some(bytes) = capacity {
        cache.set_capacity(bytes);
    }
    Ok(())
}

/// The names and values; a semicolon within braces belongs to a value.
fn split(settings: &str) -> Result<Vec<(String, String)>> {
    let mut depth = 0usize;
    let parts = settings.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(Error::usage(format!("'{part}' is not of the form name=value"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_split_at_semicolons_outside_braces() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(split("a=1; b={c=2;d=3};").unwrap(), [pair("a", "1"), pair("b", "{c=2;d=3}")]);
        assert_eq!(split("").unwrap(), []);
        let error = split("a=1;what").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("what"), "{error}");
    }
}
