//! Reads the properties of the `mongodb` binding: the server, and the options of each command.
//!
//! The deprecated options count only if the connection string does not have them, as in YCSB (docs/methods.md#ycsb). This
//! module never repeats a password, whereas YCSB prints the whole connection string.

use bson::{Bson, Document, RawDocumentBuf, doc};
use fathom_client::{ReadMode, ReadPreference, Target};
use fathom_errors::Error;

use crate::properties::Properties;

const DEFAULT_URL: &str = "mongodb://localhost:27017/ycsb?w=1";
const DEFAULT_DATABASE: &str = "ycsb";
/// The most documents of an insert, as in servers since 3.6.
const MAX_DOCUMENTS: u64 = 100_000;

/// Table: the values of `mongodb.writeConcern`, with their options in a connection string.
const WRITE_CONCERNS: [(&str, &[(&str, &str)]); 6] = [
    ("errors_ignored", &[("w", "0")]),
    ("unacknowledged", &[("w", "0")]),
    ("acknowledged", &[("w", "1")]),
    ("journaled", &[("journal", "true")]),
    ("replica_acknowledged", &[("w", "2")]),
    ("majority", &[("w", "majority")]),
];

/// Table: the values of `mongodb.readPreference`, with the mode of each.
const READ_PREFERENCES: [(&str, &str); 5] = [
    ("primary", "primary"),
    ("primary_preferred", "primaryPreferred"),
    ("secondary", "secondary"),
    ("secondary_preferred", "secondaryPreferred"),
    ("nearest", "nearest"),
];

/// The server, and the options of requests to it.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The servers and how to reach them.
    pub target: Target,
    pub database: String,
    /// `batchsize`: documents of an insert.
    pub batch: u64,
    /// `mongodb.upsert`: inserts are updates with upsert.
    pub upsert: bool,
    /// The write concern of writes; `None` leaves it to the server.
    pub write_concern: Option<RawDocumentBuf>,
    /// Whether the server answers writes (not with `w:0`).
    pub acknowledged: bool,
    /// The read preference of reads; `None` is the primary.
    pub read_preference: Option<RawDocumentBuf>,
    /// `readConcernLevel`, which applies to reads.
    pub read_concern: Option<String>,
}

impl Binding {
    /// Whether a write is answered once it is in the journal.
    pub fn is_journaled(&self) -> bool {
        let journaled = |concern: &RawDocumentBuf| concern.get_bool("j").unwrap_or(false);
        self.write_concern.as_ref().is_some_and(journaled)
    }
}

/// The connection string, which may hold a password: it is for drivers and must not be shown.
pub fn url(properties: &Properties) -> &str {
    properties.get("mongodb.url").map_or(DEFAULT_URL, str::trim)
}

impl Binding {
    /// Reads the properties; also returns sentences for options that are not used.
    ///
    /// # Errors
    /// `Kind::Usage` if the connection string or another property is invalid.
    pub fn from_properties(properties: &Properties) -> Result<(Binding, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let url = url(properties);
        if url.is_empty() {
            // An empty shell substitution must not load whatever server runs on this host.
            return Err(Error::usage("mongodb.url is empty")
                .advise("name the servers: mongodb.url=mongodb://HOST:PORT/DATABASE"));
        }
        let mut target: Target = url.parse()?;
        legacy_options(properties, &mut target, &mut warnings);
        let database = target.database.clone().filter(|name| name != "admin");
        let batch = match properties.whole("batchsize")? {
            Some(batch) => batch,
            None => properties.whole("mongodb.batchsize")?.unwrap_or(1),
        };
        if !(1..=MAX_DOCUMENTS).contains(&batch) {
            return Err(Error::usage(format!(
                "batchsize must be 1 to {MAX_DOCUMENTS} documents, not {batch}"
            )));
        }
        let write_concern = write_concern(&target)?;
        let acknowledged = write_concern.as_ref().is_none_or(|concern| {
            concern.get("w") != Some(&Bson::Int32(0)) || concern.get_bool("j").unwrap_or(false)
        });
        let read_preference = encode(read_preference(&target)?)?;
        for name in target.unused_options().filter(|name| !is_used(name)) {
            warnings.push(format!("the option {name} of the connection string is not used"));
        }
        let read_concern = target.other_option("readConcernLevel").map(str::to_owned);
        let upsert = properties.truth("mongodb.upsert", false);
        let database = database.unwrap_or_else(|| DEFAULT_DATABASE.to_owned());
        let binding = Binding {
            target,
            database,
            batch,
            upsert,
            write_concern: encode(write_concern)?,
            acknowledged,
            read_preference,
            read_concern,
        };
        Ok((binding, warnings))
    }
}

/// Driver options that we use, or that need nothing from us, as we have no pool and no sessions.
fn is_used(name: &str) -> bool {
    const USED: [&str; 16] = [
        "w",
        "journal",
        "wTimeoutMS",
        "readPreference",
        "readPreferenceTags",
        "readConcernLevel",
        "maxPoolSize",
        "minPoolSize",
        "waitQueueMultiple",
        "waitQueueTimeoutMS",
        "maxIdleTimeMS",
        "retryWrites",
        "retryReads",
        "directConnection",
        "localThresholdMS",
        "serverSelectionTimeoutMS",
    ];
    USED.iter().any(|used| used.eq_ignore_ascii_case(name))
}

fn legacy_options(properties: &Properties, target: &mut Target, warnings: &mut Vec<String>) {
    let mut add = |name: &str, value: &str| {
        if target.other_option(name).is_none() {
            target.other_options.push((name.to_owned(), value.to_owned()));
        }
    };
    if let Some(word) = properties.text("mongodb.writeConcern") {
        match WRITE_CONCERNS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, options)) => options.iter().for_each(|(name, value)| add(name, value)),
            None => warnings.push(format!("mongodb.writeConcern={word} is not known and not used")),
        }
    }
    if let Some(word) = properties.text("mongodb.readPreference") {
        match READ_PREFERENCES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, mode)) => add("readPreference", mode),
            None => warnings.push(format!("mongodb.readPreference={word} is not known and not used")),
        }
    }
}

fn write_concern(target: &Target) -> Result<Option<Document>, Error> {
    let mut concern = Document::new();
    if let Some(w) = target.other_option("w") {
        match w.parse::<i32>() {
            Ok(count) if count < 0 => {
                return Err(Error::usage(
                    "w in the connection string must be a number of at least 0, or a name",
                ));
            }
            Ok(count) => concern.insert("w", count),
            Err(_) => concern.insert("w", w),
        };
    }
    if let Some(journal) = target.other_option("journal") {
        let journal = journal.parse::<bool>();
        let journal = journal
            .map_err(|_| Error::usage("journal in the connection string is neither true nor false"))?;
        concern.insert("j", journal);
    }
    if let Some(timeout) = target.other_option("wTimeoutMS") {
        let wrong = || Error::usage("wTimeoutMS in the connection string is not a number of milliseconds");
        concern.insert("wtimeout", timeout.parse::<i64>().ok().filter(|ms| *ms >= 0).ok_or_else(wrong)?);
    }
    Ok((!concern.is_empty()).then_some(concern))
}

fn read_preference(target: &Target) -> Result<Option<Document>, Error> {
    let ReadPreference { mode, tag_sets, .. } = ReadPreference::new(target)?;
    if mode == ReadMode::Primary {
        return Ok(None);
    }
    let mut preference = doc! { "mode": mode.name() };
    if !tag_sets.is_empty() {
        let tags = |set: Vec<(String, String)>| set.into_iter().map(|(k, v)| (k, v.into())).collect();
        preference.insert("tags", tag_sets.into_iter().map(tags).collect::<Vec<Document>>());
    }
    Ok(Some(preference))
}

/// Encodes a document that each command carries.
fn encode(document: Option<Document>) -> Result<Option<RawDocumentBuf>, Error> {
    let encoded = document.map(|document| RawDocumentBuf::try_from(&document)).transpose();
    encoded.map_err(|error| {
        Error::usage("an option of the connection string does not fit into BSON").because(error)
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use fathom_errors::Kind;

    use super::*;

    fn binding(pairs: &[(&str, &str)]) -> (Binding, Vec<String>) {
        let mut properties = Properties::default();
        pairs.iter().for_each(|(name, value)| properties.set(name, value, "-p"));
        Binding::from_properties(&properties).unwrap()
    }

    #[test]
    fn the_connection_string_counts_before_the_old_options() {
        let (plain, warnings) = binding(&[]);
        assert_eq!((plain.database.as_str(), plain.batch, plain.acknowledged), ("ycsb", 1, true));
        assert_eq!(plain.write_concern, Some(rawdoc! { "w": 1 }));
        assert!(warnings.is_empty());
        let (both, _) =
            binding(&[("mongodb.url", "mongodb://h/db?w=0"), ("mongodb.writeConcern", "acknowledged")]);
        assert_eq!((both.database.as_str(), both.acknowledged), ("db", false));
        let (old, _) =
            binding(&[("mongodb.url", "mongodb://h/admin"), ("mongodb.writeConcern", "JOURNALED")]);
        assert_eq!((old.database.as_str(), old.write_concern.clone()), ("ycsb", Some(rawdoc! { "j": true })));
        assert!(old.is_journaled() && !plain.is_journaled());
        let (_, warned) =
            binding(&[("mongodb.url", "mongodb://h/?foo=1"), ("mongodb.writeConcern", "strict")]);
        assert_eq!(warned.len(), 2, "{warned:?}");
    }

    #[test]
    fn reads_and_batches() {
        let (read, _) = binding(&[
            ("mongodb.url", "mongodb://h/?readPreferenceTags=dc:ny,rack:1"),
            ("mongodb.readPreference", "secondary_preferred"),
            ("mongodb.batchsize", "50"),
        ]);
        let preference = rawdoc! { "mode": "secondaryPreferred", "tags": [{ "dc": "ny", "rack": "1" }] };
        assert_eq!(read.read_preference, Some(preference));
        assert_eq!(read.batch, 50);
        let mut properties = Properties::default();
        for (name, value) in
            [("batchsize", "0"), ("mongodb.url", "http://h"), ("mongodb.url", "mongodb://h/?w=-1")]
        {
            properties.set(name, value, "-p");
            assert!(Binding::from_properties(&properties).is_err(), "{name}={value}");
        }
    }

    /// `-p mongodb.url="$(fathom cluster list --uri)"` without a cluster loaded whatever ran on this host.
    #[test]
    fn an_empty_connection_string_is_refused_and_an_absent_one_is_the_default() {
        for url in ["", "  "] {
            let mut properties = Properties::default();
            properties.set("mongodb.url", url, "-p");
            let error =
                Binding::from_properties(&properties).map(|(binding, _)| binding.database).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains("mongodb.url is empty"), "{error}");
        }
        assert_eq!(binding(&[]).0.database, "ycsb");
    }

    /// The first half of the password was taken for an address, and the second for an option, which a warning named.
    #[test]
    fn a_login_that_must_be_escaped_is_repeated_nowhere() {
        for rest in ["h:1/x", "h:1/x?w=1", "h:1", "h:1?w=1"] {
            for password in ["4711?s3cret", "4711?s3cret=1", "4711/?s3cret", "4711/s3cret", "4711@s3cret"] {
                let mut properties = Properties::default();
                properties.set("mongodb.url", &format!("mongodb://us3r:{password}@{rest}"), "-p");
                let read = Binding::from_properties(&properties).map(|(binding, _)| binding.database);
                let refused = read.unwrap_err().to_string();
                assert!(refused.contains("must be escaped"), "{refused}");
                assert!(!refused.contains("4711") && !refused.contains("s3cret"), "{refused}");
            }
        }
    }

    #[test]
    fn tags_that_no_message_can_hold_are_rejected() {
        for tags in ["d%00c:ny", "dc:n%00y", "dc"] {
            let mut properties = Properties::default();
            let url = format!("mongodb://h/?readPreference=secondary&readPreferenceTags={tags}");
            properties.set("mongodb.url", &url, "-p");
            let error = Binding::from_properties(&properties)
                .map(|(binding, _)| binding.read_preference)
                .unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{tags}");
            let text = error.to_string();
            assert!(text.contains("in readPreferenceTags") && !text.contains('\0'), "{text}");
        }
    }
}
