//! YCSB's properties: files, flags, which of them wins, and values of the right kind.
//!
//! Every flag beats every file, wherever they stand; among files and among flags the last one wins (facts/ycsb.md 1.2). Blanks
//! around a number are dropped, where YCSB fails on those that a file leaves behind it. A name that nobody knows is
//! worth a warning with the one that is meant, because YCSB is silent and whole runs were lost that way.

mod known;
mod syntax;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use fathom_errors::{Error, Kind};
use serde::{Deserialize, Serialize};

pub use known::{KNOWN, Property, default_number};

/// The largest file of properties or lengths; a device that never ends is no such file.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// Reads a file that a person wrote.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// A name that is so much like a known one is taken for a slip of the pen (0 to 1, after Jaro and Winkler).
const ALIKE: f64 = 0.85;

/// No count is larger, so that a few of them can be added up.
const MOST: u64 = 1 << 62;

/// Properties with where they come from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Properties {
    files: BTreeMap<String, Given>,
    flags: BTreeMap<String, Given>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Given {
    value: String,
    /// `workloads/a, line 3`, or `-p`.
    origin: String,
}

impl Properties {
    /// Adds what a file says; it beats the files before.
    ///
    /// # Errors
    /// `Kind::Usage` if there is no such file or it has a character that is none; otherwise as the file system has it.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let bytes = read_small(path).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let error = Error::io("read the properties in", path, error);
            if missing { error.with_kind(Kind::Usage) } else { error }
        })?;
        self.add_text(&bytes, &path.display().to_string())
    }

    /// Adds the text of a file that is called `shown`.
    ///
    /// # Errors
    /// `Kind::Usage` if it has a character that is none.
    pub fn add_text(&mut self, bytes: &[u8], shown: &str) -> Result<(), Error> {
        let entries = syntax::parse(bytes)
            .map_err(|error| Error::new(error.kind(), format!("{shown}, {}", error.what())))?;
        for entry in entries {
            let origin = format!("{shown}, line {}", entry.line);
            self.files.insert(entry.key, Given { value: entry.value, origin });
        }
        Ok(())
    }

    /// Adds `-p name=value`; it beats all files and the flags before. The value may contain `=`.
    ///
    /// # Errors
    /// `Kind::Usage` if there is no `=`.
    pub fn add_flag(&mut self, text: &str) -> Result<(), Error> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| Error::usage(format!("-p takes name=value, not '{text}'")))?;
        self.set(name, value, "-p");
        Ok(())
    }

    /// Adds what another flag stands for, such as `-threads 8` for `threadcount`.
    pub fn set(&mut self, name: &str, value: &str, flag: &str) {
        self.flags.insert(name.to_owned(), Given { value: value.to_owned(), origin: flag.to_owned() });
    }

    /// Adds what a program asks for; a flag that is there already wins.
    pub fn set_unless_flag(&mut self, name: &str, value: &str, origin: &str) {
        if !self.flags.contains_key(name) {
            self.set(name, value, origin);
        }
    }

    fn given(&self, name: &str) -> Option<&Given> {
        self.flags.get(name).or_else(|| self.files.get(name))
    }

    /// A property as it was written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given(name).map(|given| given.value.as_str())
    }

    /// A text, without the blanks around it; none if it is absent or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Whether it is `true`, in any case; everything else is not, as in Java.
    pub fn truth(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// A whole number from 0 on, if it is there.
    ///
    /// # Errors
    /// `Kind::Usage` if it is something else.
    pub fn whole(&self, name: &str) -> Result<Option<u64>, Error> {
        match self.parsed(name, "a whole number from 0 on", |text| text.parse().ok())? {
            Some(number) if number > MOST => {
                Err(Error::usage(format!("{name}={number} is more than {MOST}")))
            }
            number => Ok(number),
        }
    }

    /// A number from 0 on, if it is there.
    ///
    /// # Errors
    /// `Kind::Usage` if it is something else.
    pub fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let number =
            |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        self.parsed(name, "a number from 0 on", number)
    }

    /// One of some words, if it is there.
    ///
    /// # Errors
    /// `Kind::Usage` if it is another one.
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Error> {
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let find = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.parsed(name, &format!("one of {}", list.join(", ")), find)
    }

    fn parsed<T>(
        &self,
        name: &str,
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(given) = self.given(name) else { return Ok(None) };
        match parse(given.value.trim()) {
            Some(value) => Ok(Some(value)),
            None => {
                let Given { value, origin } = given;
                Err(Error::usage(format!("{name} takes {wanted}, not '{value}' ({origin})")))
            }
        }
    }

    /// A sentence for each name that is not known, with the known one that it is most like.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.files.iter().chain(&self.flags);
        let strangers = names.filter(|(name, _)| !KNOWN.iter().any(|known| known.name == name.as_str()));
        let sentence = |(name, given): (&String, &Given)| {
            let start = format!("there is no property '{name}' ({}); it is not read", given.origin);
            match most_like(name) {
                Some(known) => format!("{start} (did you mean {known}?)"),
                None => start,
            }
        };
        strangers.map(sentence).collect()
    }
}

fn most_like(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let likeness = |known: &Property| strsim::jaro_winkler(&lower, &known.name.to_lowercase());
    let best = KNOWN.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) >= ALIKE).then_some(best.name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn flags_beat_files_and_the_last_of_each_wins() {
        let (one, two) = (file("threadcount=1\ntarget=1\nfieldcount=7"), file("threadcount=2\ntarget=2"));
        let mut properties = Properties::default();
        properties.add_flag("target=10").unwrap();
        properties.add_flag("target=20").unwrap();
        properties.add_file(one.path()).unwrap();
        properties.add_file(two.path()).unwrap();
        properties.add_flag("mongodb.url=mongodb://h/d?w=1&j=true").unwrap();
        let whole = |name: &str| properties.whole(name).unwrap();
        assert_eq!(
            (whole("threadcount"), whole("target"), whole("fieldcount")),
            (Some(2), Some(20), Some(7))
        );
        assert_eq!(properties.get("mongodb.url"), Some("mongodb://h/d?w=1&j=true"));
        assert_eq!(whole("recordcount"), None);
    }

    #[test]
    fn values_are_of_their_kind_or_refused_with_their_place() {
        let given =
            file("# numbers\nthreadcount=32 \nrecordcount=1e6\nreadproportion=.5\ntarget=-1\nstatus=TRUE\n");
        let mut properties = Properties::default();
        properties.add_file(given.path()).unwrap();
        assert_eq!(properties.whole("threadcount").unwrap(), Some(32), "a blank behind it");
        assert_eq!(properties.number("readproportion").unwrap(), Some(0.5));
        assert!(properties.truth("status", false) && !properties.truth("spin.sleep", false));
        let refused = properties.whole("recordcount").unwrap_err().to_string();
        assert!(refused.contains("recordcount takes a whole number from 0 on, not '1e6'"), "{refused}");
        assert!(refused.contains("line 3"), "{refused}");
        assert!(properties.number("target").is_err());
        properties.set("requestdistribution", "zipf", "-p");
        let words = [("uniform", 1), ("zipfian", 2)];
        let refused = properties.choice("requestdistribution", &words).unwrap_err().to_string();
        assert!(refused.contains("one of uniform, zipfian, not 'zipf' (-p)"), "{refused}");
        assert!(properties.add_flag("threads").is_err());
        let missing = properties.add_file(Path::new("/nonexistent/workload")).unwrap_err();
        assert_eq!(missing.kind(), Kind::Usage);
    }

    #[test]
    fn a_slip_of_the_pen_is_told_with_what_is_meant() {
        let mut properties = Properties::default();
        for (name, value) in
            [("readPropotion", "1"), ("mongodb.auth", "x"), ("zzz", "1"), ("threadcount", "1")]
        {
            properties.set(name, value, "-p");
        }
        let told = properties.unknown();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told.iter().any(|one| one.contains("'readPropotion'") && one.contains("readproportion?")),
            "{told:?}"
        );
        assert!(told.iter().any(|one| one.contains("'zzz'") && !one.contains("did you mean")), "{told:?}");
    }

    #[test]
    fn the_known_ones_are_listed_once() {
        for (place, one) in KNOWN.iter().enumerate() {
            assert!(KNOWN.iter().skip(place + 1).all(|other| other.name != one.name), "{}", one.name);
        }
    }
}
