//! YCSB's properties from files and flags, their precedence, and the parsing of their values.
//!
//! Every flag overrides every file, in any order; among files and among flags the last one wins (docs/methods.md#ycsb). Blanks
//! around a number are dropped; YCSB fails on blanks after it in a file. An unknown name causes a
//! warning with the most similar known one, because YCSB is silent and whole runs were lost that way.

mod known;
mod syntax;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use fathom_errors::{Error, Kind};
use serde::{Deserialize, Serialize};

use crate::builtin_workloads;

pub use known::{KNOWN, Property, default_number};

/// The largest file of properties or lengths, so that an endless device is refused.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reads a file that a user wrote.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// The similarity at which an unknown name counts as a misspelled known one (0 to 1, after Jaro and Winkler).
const MIN_SIMILARITY: f64 = 0.85;

/// The largest count, so that a few of them can be added up.
const MAX_COUNT: u64 = 1 << 62;

/// Properties with their origins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Properties {
    files: BTreeMap<String, PropertyValue>,
    flags: BTreeMap<String, PropertyValue>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PropertyValue {
    value: String,
    /// `workloads/a, line 3`, or `-p`.
    origin: String,
}

impl Properties {
    /// Adds the properties of a file, or else of the built-in workload of that name; they override those of earlier files.
    ///
    /// # Errors
    /// `Kind::Usage` if neither exists, or if a character is not valid; otherwise the error of the file system.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        match read_small(path) {
            Ok(bytes) => self.add_text(&bytes, &path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.to_string_lossy();
                if let Some(text) = builtin_workloads::core(&name) {
                    return self.add_text(text.as_bytes(), &format!("the built-in {name}"));
                }
                let error = Error::io("read the properties in", path, error).with_kind(Kind::Usage);
                Err(error.with_id("no-workload").advise(format!(
                    "name a file, or a built-in workload: {}",
                    builtin_workloads::core_names()
                )))
            }
            Err(error) => Err(Error::io("read the properties in", path, error)),
        }
    }

    /// Adds the text of a file that is called `shown`.
    ///
    /// # Errors
    /// `Kind::Usage` if it has an invalid character.
    pub fn add_text(&mut self, bytes: &[u8], shown: &str) -> Result<(), Error> {
        let entries = syntax::parse(bytes).map_err(|error| {
            Error::new(error.kind(), format!("{shown}, {}", error.what())).with_id("bad-property")
        })?;
        for entry in entries {
            let origin = format!("{shown}, line {}", entry.line);
            self.files.insert(entry.key, PropertyValue { value: entry.value, origin });
        }
        Ok(())
    }

    /// Adds `-p name=value`, which overrides all files and earlier flags. The value may contain `=`.
    ///
    /// # Errors
    /// `Kind::Usage` if there is no `=`, or if a connection string is in the place of the name.
    pub fn add_flag(&mut self, text: &str) -> Result<(), Error> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        // The text may hold a password, so it is not repeated.
        if name.contains(['@', ':', '/']) {
            return Err(Error::usage("-p takes name=value, not a connection string alone")
                .with_id("bad-property")
                .advise("write -p mongodb.url=mongodb://HOST:PORT/DATABASE"));
        }
        if name.len() == text.len() {
            return Err(Error::usage(format!("-p takes name=value, not '{text}'")).with_id("bad-property"));
        }
        self.set(name, value, "-p");
        Ok(())
    }

    /// Sets the property of another flag, such as `threadcount` for `-threads 8`.
    pub fn set(&mut self, name: &str, value: &str, flag: &str) {
        self.flags
            .insert(name.to_owned(), PropertyValue { value: value.to_owned(), origin: flag.to_owned() });
    }

    /// Adds a property that a program sets; an existing flag wins.
    pub fn set_unless_flag(&mut self, name: &str, value: &str, origin: &str) {
        if !self.flags.contains_key(name) {
            self.set(name, value, origin);
        }
    }

    fn given(&self, name: &str) -> Option<&PropertyValue> {
        self.flags.get(name).or_else(|| self.files.get(name))
    }

    /// A property as it was written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given(name).map(|given| given.value.as_str())
    }

    /// A text without surrounding blanks; `None` if it is absent or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Whether it is `true`, in any case; everything else is not, as in Java.
    pub fn truth(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// A whole number of at least 0, if it is given.
    ///
    /// # Errors
    /// `Kind::Usage` if it is something else.
    pub fn whole(&self, name: &str) -> Result<Option<u64>, Error> {
        match self.parsed(name, "a whole number of at least 0", |text| text.parse().ok())? {
            Some(number) if number > MAX_COUNT => {
                Err(Error::usage(format!("{name}={number} is more than {MAX_COUNT}")))
            }
            number => Ok(number),
        }
    }

    /// A number of at least 0, if it is given.
    ///
    /// # Errors
    /// `Kind::Usage` if it is something else.
    pub fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        // Java takes the letter of a type behind a number.
        let plain = |text: &str| text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text).parse().ok();
        let number = |text: &str| plain(text).filter(|number: &f64| number.is_finite() && *number >= 0.0);
        self.parsed(name, "a number of at least 0", number)
    }

    /// One of several words, if it is given.
    ///
    /// # Errors
    /// `Kind::Usage` if it is another word.
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
                let PropertyValue { value, origin } = given;
                Err(Error::usage(format!("{name} takes {wanted}, not '{value}' ({origin})")))
            }
        }
    }

    /// A sentence for each unknown name, with the most similar known one.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.files.iter().chain(&self.flags);
        let strangers = names.filter(|(name, _)| !KNOWN.iter().any(|known| known.name == name.as_str()));
        let sentence = |(name, given): (&String, &PropertyValue)| {
            let start = format!("there is no property '{name}' ({}); it is not read", given.origin);
            match most_like(name) {
                Some(known) => format!("{start} (did you mean {known}?)"),
                None => start,
            }
        };
        strangers.map(sentence).collect()
    }

    /// A sentence for each value that is no word of its property and means one all the same, as in YCSB: `readallfields=yes` is false.
    pub fn misread(&self) -> Vec<String> {
        let sentence = |known: &Property| {
            let PropertyValue { value, origin } = self.given(known.name)?;
            let is = |word: &str| value.trim().eq_ignore_ascii_case(word);
            let meaning = match known.default {
                "true" | "false" if !is("true") && !is("false") => "false",
                "hashed" if value.trim() != "hashed" && !is("ordered") => "ordered",
                _ => return None,
            };
            Some(format!("{}={value} ({origin}) means {meaning}, as in YCSB", known.name))
        };
        KNOWN.iter().filter_map(sentence).collect()
    }
}

fn most_like(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let likeness = |known: &Property| strsim::jaro_winkler(&lower, &known.name.to_lowercase());
    let best = KNOWN.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) >= MIN_SIMILARITY).then_some(best.name)
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

    /// A run read no field, or other keys, and nothing said why.
    #[test]
    fn a_value_that_means_something_else_is_told() {
        let told = |pair: &str| {
            let mut properties = Properties::default();
            properties.add_flag(pair).unwrap();
            properties.misread()
        };
        for (pair, meaning) in [
            ("readallfields=yes", "readallfields=yes (-p) means false, as in YCSB"),
            ("mongodb.upsert=1", "mongodb.upsert=1 (-p) means false, as in YCSB"),
            ("insertorder=sorted", "insertorder=sorted (-p) means ordered, as in YCSB"),
        ] {
            assert_eq!(told(pair), [meaning]);
        }
        for pair in
            ["readallfields= TRUE ", "dataintegrity=false", "insertorder=hashed", "insertorder=ordered"]
        {
            assert_eq!(told(pair), Vec::<String>::new(), "{pair}");
        }
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
        for (text, number) in [("0.25f", 0.25), ("1e-1D", 0.1), ("5.", 5.0), (" +2d ", 2.0)] {
            properties.set("scanproportion", text, "-p");
            assert_eq!(properties.number("scanproportion").unwrap(), Some(number), "{text}");
        }
        for text in ["inf", "NaN", "d", "0.5df"] {
            properties.set("scanproportion", text, "-p");
            assert!(properties.number("scanproportion").is_err(), "{text}");
        }
        assert!(properties.truth("status", false) && !properties.truth("spin.sleep", false));
        let refused = properties.whole("recordcount").unwrap_err().to_string();
        assert!(refused.contains("recordcount takes a whole number of at least 0, not '1e6'"), "{refused}");
        assert!(refused.contains("line 3"), "{refused}");
        assert!(properties.number("target").is_err());
        properties.set("requestdistribution", "zipf", "-p");
        let words = [("uniform", 1), ("zipfian", 2)];
        let refused = properties.choice("requestdistribution", &words).unwrap_err().to_string();
        assert!(refused.contains("one of uniform, zipfian, not 'zipf' (-p)"), "{refused}");
        assert!(properties.add_flag("threads").is_err());
        for login in ["mongodb://us3r:s3cret@h/x?w=1", "us3r:s3cret@h", "mongodb://us3r:s3cret", "s3cret@h=1"]
        {
            let refused = properties.add_flag(login).unwrap_err().to_string();
            assert!(refused.contains("mongodb.url=") && !refused.contains("s3cret"), "{refused}");
        }
        let missing = properties.add_file(Path::new("/nonexistent/workload")).unwrap_err();
        assert_eq!(missing.kind(), Kind::Usage);
        assert!(missing.to_string().contains("a built-in workload: workloada, "), "{missing}");
    }

    #[test]
    fn a_built_in_workload_needs_no_file() {
        let mut properties = Properties::default();
        properties.add_file(Path::new("workloadA")).unwrap();
        assert_eq!(properties.number("updateproportion").unwrap(), Some(0.5));
        properties.add_file(Path::new("S1")).unwrap();
        assert!(properties.add_file(Path::new("./workloada")).is_err(), "a path is a file");
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
