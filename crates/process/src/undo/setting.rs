//! Settings of the kernel below `/sys`: put back where they still have the value that we gave them.

use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::Undone;

pub(super) fn put_back(path: &Path, previous: &str, value: Option<&str>) -> Result<Undone> {
    let now = match fs::read_to_string(path) {
        Ok(text) => chosen(&text),
        // The device went, and its settings with it.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Undone::Before),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    // Somebody has set it anew since: that is theirs.
    if now == previous || value.is_some_and(|value| now != value) {
        return Ok(Undone::Before);
    }
    fs::write(path, previous).map_err(|e| Error::io("put back", path, e))?;
    let back = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    if chosen(&back) != previous {
        let what = format!("{} did not take back {previous}", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("look at it and set it by hand"));
    }
    Ok(Undone::Now)
}

/// The value of a setting: the word in square brackets where it is a choice.
fn chosen(text: &str) -> String {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or(text.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_still_has_our_value_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read_ahead_kb");
        fs::write(&path, "16\n").unwrap();
        assert_eq!(put_back(&path, "128", Some("16")).unwrap(), Undone::Now);
        assert_eq!(fs::read_to_string(&path).unwrap(), "128");
        assert_eq!(put_back(&path, "128", Some("16")).unwrap(), Undone::Before);
        fs::write(&path, "64\n").unwrap();
        assert_eq!(put_back(&path, "128", Some("16")).unwrap(), Undone::Before);
        assert_eq!(put_back(&path, "128", None).unwrap(), Undone::Now);
        fs::remove_file(&path).unwrap();
        assert_eq!(put_back(&path, "128", None).unwrap(), Undone::Before);
        assert_eq!(chosen("none [mq-deadline] kyber\n"), "mq-deadline");
    }
}
