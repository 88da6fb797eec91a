//! Removes the owner's text from a recording: host names, paths, arguments and namespaces become masks, the same mask for the same name.
//!
//! All text is masked but what describes the software and the kind of host ([`PUBLIC_TEXTS`]). Field names are masked where a server makes them of its owner's
//! names ([`OWNER_FIELDS`]), where they look like a path or an address, and where they contain a name that was masked as text, but for mongod's own words
//! ([`SERVER_WORDS`]). Numbers stay as they are, in their order, so that the metrics of each sample are the same.

use std::collections::{HashMap, HashSet};

use bson::raw::CString;
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_errors::Result;

use crate::metric::{MAX_DEPTH, malformed};
use crate::server_words::SERVER_WORDS;

/// The field with the name of the server's program. On Windows it is a path, whose directories are the owner's.
const PROGRAM: &str = "process";
/// The last names of fields whose text describes the software and the kind of host.
const PUBLIC_TEXTS: [&str; 21] = [
    "version",
    "gitVersion",
    "stateStr",
    "javascriptEngine",
    "allocator",
    "openssl",
    "distmod",
    "distarch",
    "target_arch",
    "target_os",
    "cpuArch",
    "cpuString",
    "cpuFeatures",
    "cpuFrequencyMHz",
    "kernelVersion",
    "libcVersion",
    "featureCompatibilityVersion",
    "engine",
    "compressors",
    "clusterRole",
    "readConcernLevel",
];
/// Parents whose `name` or `type` describes the software or the system.
const PUBLIC_PARENTS: [&str; 2] = ["storageEngine", "os"];
/// Documents whose fields have names of the owner: mount points, hosts, pools, sets, indexes, tags.
const OWNER_FIELDS: [&str; 8] =
    ["mounts", "hosts", "pools", "replicaSets", "indexSizes", "indexDetails", "tags", "shards"];
/// Shorter names do not identify an owner, and would occur within other words.
const MIN_NAME_BYTES: usize = 4;
/// The least length of a name of letters alone that is masked as a field name. A single letter is a lock mode.
const MIN_WORD_BYTES: usize = 2;

/// Masks for the names of a recording.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    masks: HashMap<String, String>,
    /// Masked names that are also looked for within field names.
    names: HashSet<String>,
    /// Masked names of letters alone, which are masked if they are a field name, or a part of one between dots.
    words: HashSet<String>,
}

impl Scrubber {
    /// Notes the names that a document contains. All documents must be shown before the first is scrubbed.
    ///
    /// # Errors
    /// If the document is malformed.
    pub fn learn(&mut self, document: &RawDocument) -> Result<()> {
        self.learn_below(document, "", 0)
    }

    fn learn_below(&mut self, document: &RawDocument, parent: &str, depth: usize) -> Result<()> {
        check(depth)?;
        for element in document.iter_elements() {
            let element = element.map_err(|cause| malformed("BSON that is cut off").because(cause))?;
            let key = element.key().as_str();
            if OWNER_FIELDS.contains(&parent) || is_address_or_path(key) {
                self.add_names(key);
            }
            match element.value() {
                Ok(RawBsonRef::Document(inner)) => self.learn_below(inner, key, depth + 1)?,
                Ok(RawBsonRef::Array(inner)) => self.learn_below(as_document(inner)?, key, depth + 1)?,
                Ok(RawBsonRef::String(text)) => {
                    let owners = text.strip_suffix(public_part(parent, key, text));
                    self.add_names(owners.unwrap_or(text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_names(&mut self, text: &str) {
        for name in text.split(|c: char| !is_name(c)).filter(|name| !name.is_empty()) {
            if !self.masks.contains_key(name) {
                let mask = format!("x{}", self.masks.len() + 1);
                self.masks.insert(name.to_owned(), mask);
            }
            // A plain word occurs in the phrases of mongod's counters too; a host name or a namespace has more than letters.
            if name.contains(|c: char| !c.is_alphabetic()) {
                if name.len() >= MIN_NAME_BYTES {
                    self.names.insert(name.to_owned());
                }
            } else if name.len() >= MIN_WORD_BYTES && !SERVER_WORDS.contains(&name) {
                self.words.insert(name.to_owned());
            }
        }
    }

    /// A document with masks in place of names.
    ///
    /// # Errors
    /// If the document is malformed.
    pub fn scrub(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.scrub_below(document, "", 0)
    }

    fn scrub_below(&self, document: &RawDocument, parent: &str, depth: usize) -> Result<RawDocumentBuf> {
        check(depth)?;
        let mut scrubbed = RawDocumentBuf::new();
        for element in document.iter_elements() {
            let element = element.map_err(|cause| malformed("BSON that is cut off").because(cause))?;
            let key = element.key().as_str();
            let name = CString::try_from(self.field_name(parent, key))
                .map_err(|cause| malformed("a field name with a zero byte").because(cause))?;
            match element.value() {
                Ok(RawBsonRef::Document(inner)) => {
                    scrubbed.append(name, self.scrub_below(inner, key, depth + 1)?)
                }
                Ok(RawBsonRef::Array(inner)) => {
                    scrubbed.append(name, self.scrub_array(inner, key, depth + 1)?)
                }
                Ok(RawBsonRef::String(text)) => match public_part(parent, key, text) {
                    "" => scrubbed.append(name, self.mask(text).as_str()),
                    public => scrubbed.append(name, public),
                },
                Ok(
                    RawBsonRef::Symbol(_)
                    | RawBsonRef::JavaScriptCode(_)
                    | RawBsonRef::JavaScriptCodeWithScope(_)
                    | RawBsonRef::RegularExpression(_)
                    | RawBsonRef::DbPointer(_),
                ) => scrubbed.append(name, ""),
                Ok(value) => scrubbed.append(name, value),
                // Text that is not UTF-8.
                Err(_) => scrubbed.append(name, ""),
            }
        }
        Ok(scrubbed)
    }

    fn scrub_array(&self, array: &RawArray, parent: &str, depth: usize) -> Result<RawArrayBuf> {
        let scrubbed = self.scrub_below(as_document(array)?, parent, depth)?;
        let mut values = RawArrayBuf::new();
        for element in scrubbed.iter() {
            let (_, value) = element.map_err(|cause| malformed("BSON that is cut off").because(cause))?;
            values.push(value);
        }
        Ok(values)
    }

    fn field_name(&self, parent: &str, key: &str) -> String {
        let is_owners = OWNER_FIELDS.contains(&parent) || is_address_or_path(key);
        if is_owners { self.mask(key) } else { self.mask_within(key) }
    }

    /// Replaces every name of a text by its mask; the characters between names stay.
    fn mask(&self, text: &str) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some(begin) = rest.find(is_name) {
            let (before, from) = rest.split_at(begin);
            let (name, after) = from.split_at(from.find(|c: char| !is_name(c)).unwrap_or(from.len()));
            masked.push_str(before);
            masked.push_str(self.masks.get(name).map_or("x", String::as_str));
            rest = after;
        }
        masked + rest
    }

    /// A field name with the names that it contains as masks.
    fn mask_within(&self, key: &str) -> String {
        if key.split(|c: char| !is_name(c)).any(|part| self.names.contains(part)) {
            return self.mask(key);
        }
        if key.contains(' ') {
            return key.to_owned();
        }
        let masked = |part: &str| match self.masks.get(part).filter(|_| self.words.contains(part)) {
            Some(mask) => mask.clone(),
            None => part.to_owned(),
        };
        key.split('.').map(masked).collect::<Vec<_>>().join(".")
    }
}

/// The characters of host names, namespaces and path components.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '$' | '%' | '@')
}

/// Returns whether a field name is a path, or a host with its port.
fn is_address_or_path(key: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    key.starts_with('/')
        || key.as_bytes().get(1..3) == Some(b":\\")
        || key.rsplit_once(':').is_some_and(|(_, port)| is_port(port))
}

/// The end of a text that stays: all of it if it describes the software, and of a program's path the name of the program.
fn public_part<'t>(parent: &str, key: &str, text: &'t str) -> &'t str {
    if key == PROGRAM {
        text.rsplit(['/', '\\']).next().unwrap_or_default()
    } else if PUBLIC_TEXTS.contains(&key) || PUBLIC_PARENTS.contains(&parent) {
        text
    } else {
        ""
    }
}

fn check(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(malformed(format!("documents within each other, more than {MAX_DEPTH}")));
    }
    Ok(())
}

fn as_document(array: &RawArray) -> Result<&RawDocument> {
    RawDocument::from_bytes(array.as_bytes())
        .map_err(|cause| malformed("an array that is no BSON").because(cause))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn names_become_masks_and_software_stays() {
        let status = rawdoc! {
            "serverStatus": { "host": "db1.acme.example:27017", "version": "7.0.12", "pid": 7, "storageEngine": { "name": "wiredTiger" } },
            "connPoolStats": { "hosts": { "db1.acme.example:27017": { "inUse": 3 } } },
            "systemMetrics": { "mounts": { "/data/acme": { "free": 5_i64 } }, "disks": { "sda": { "reads": 9 } } },
            "acme-prod.orders": { "count": 4 },
            "argv": ["mongod", "--dbpath", "/data/acme"],
            "namespace": "acme-prod.orders",
        };
        let mut scrubber = Scrubber::default();
        scrubber.learn(&status).unwrap();
        let scrubbed = scrubber.scrub(&status).unwrap();
        let text = format!("{:?}", bson::Document::try_from(&scrubbed).unwrap());
        for name in ["acme", "db1", "orders", "dbpath", "27017", "data"] {
            assert!(!text.contains(name), "{name} in {text}");
        }
        for name in ["7.0.12", "wiredTiger", "sda", "mounts", "serverStatus", "connPoolStats"] {
            assert!(text.contains(name), "{name} not in {text}");
        }
        let get = |path: &[&str]| {
            let (last, parents) = path.split_last().unwrap();
            let parent =
                parents.iter().fold(&*scrubbed, |document, name| document.get_document(name).unwrap());
            parent.get_str(last).unwrap().to_owned()
        };
        let host = get(&["serverStatus", "host"]);
        let pools = scrubbed.get_document("connPoolStats").unwrap().get_document("hosts").unwrap();
        assert_eq!(pools.iter().next().unwrap().unwrap().0.as_str(), host, "the same name has the same mask");
        assert!(scrubbed.get_document(get(&["namespace"])).is_ok());
    }

    #[test]
    fn a_program_keeps_its_name_and_a_word_is_masked_as_a_field_too() {
        let replies = rawdoc! {
            "serverStatus": { "process": "C:\\Acme Corp\\bin\\mongod.exe", "metrics": { "commands": { "find": 3 } } },
            "parsed": { "setName": "payments", "comment": "metrics of payments" },
            "payments": { "count": 4 }, "local.payments.stats": { "count": 5 },
            "Corp": 7,
        };
        let mut scrubber = Scrubber::default();
        scrubber.learn(&replies).unwrap();
        let scrubbed = scrubber.scrub(&replies).unwrap();
        let status = scrubbed.get_document("serverStatus").unwrap();
        assert_eq!(status.get_str("process").unwrap(), "mongod.exe");
        // A word of mongod's own stays a field name although a text holds it.
        assert!(status.get_document("metrics").is_ok_and(|metrics| metrics.get_document("commands").is_ok()));
        let keys: Vec<String> =
            scrubbed.iter().map(|element| element.unwrap().0.as_str().to_owned()).collect();
        let mask = scrubbed.get_document("parsed").unwrap().get_str("setName").unwrap().to_owned();
        assert_eq!(keys[2..4], [mask.clone(), format!("local.{mask}.stats")]);
        assert!(!keys.contains(&"Corp".to_owned()), "{keys:?}");
    }

    #[test]
    fn metrics_stay_in_their_order() {
        let sample =
            rawdoc! { "a": 1, "tags": { "dc-east": 2, "rack": "r1" }, "list": [3, { "x": 4 }], "/srv": true };
        let mut scrubber = Scrubber::default();
        scrubber.learn(&sample).unwrap();
        let values = |document: &RawDocument| -> Vec<i64> {
            crate::metric_reader::metrics(document).unwrap().iter().map(|metric| metric.first).collect()
        };
        assert_eq!(values(&scrubber.scrub(&sample).unwrap()), [1, 2, 3, 4, 1]);
    }
}
