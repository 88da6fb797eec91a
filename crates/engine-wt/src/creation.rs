//! The creation of tables: mongod's creation strings for collections and indexes, and the metadata of existing tables.
//!
//! It refuses names that are not plain file names, because a table's name becomes a file name.

use fathom_engine::{Error, KeyKind, Result, TableSpec};

use crate::options::Options;

/// The longest name of a table, so that the file's name with its extension stays within the limit of file systems.
const MAX_IDENT_BYTES: usize = 200;

/// The URI of a table in WiredTiger.
pub(crate) fn uri(ident: &str) -> String {
    format!("table:{ident}")
}

/// Checks a name before it becomes a file's.
///
/// # Errors
/// `Kind::Usage` if it is empty, too long, reserved, or has other characters than letters, digits, `-`, `_` and `.`.
pub(crate) fn check_ident(ident: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let reserved = ident.starts_with("WiredTiger") || ident.starts_with('.');
    if ident.is_empty() || ident.len() > MAX_IDENT_BYTES || reserved || !ident.chars().all(plain) {
        return Err(Error::usage(format!("'{ident}' cannot be the name of a table")));
    }
    Ok(())
}

/// The string that a table is created with. The user's settings come before the key and value formats, which must not
/// change.
pub(crate) fn creation_string(options: &Options, spec: &TableSpec) -> String {
    let mut string = match spec.keys {
        KeyKind::Number => format!(
            "type=file,memory_page_max=10m,split_pct=90,leaf_value_max=64MB,checksum=on,block_compressor={},",
            options.collection_compressor
        ),
        KeyKind::Bytes => format!(
            "type=file,internal_page_max=16k,leaf_page_max=16k,checksum=on,prefix_compression={},block_compressor=,",
            options.index_prefix_compression
        ),
    };
    let common = match spec.keys {
        KeyKind::Number => &options.collection_config,
        KeyKind::Bytes => &options.index_config,
    };
    for own in [common, &spec.config] {
        if !own.is_empty() {
            string.push_str(own);
            string.push(',');
        }
    }
    string.push_str(match spec.keys {
        KeyKind::Number => "key_format=q,value_format=u,app_metadata=(formatVersion=1),",
        KeyKind::Bytes => "key_format=u,value_format=u,",
    });
    string.push_str(&format!("log=(enabled={})", spec.journaled && options.journal));
    string
}

/// The kind of a table's keys, by the format in its metadata; `None` if it is not a table of ours.
pub(crate) fn key_kind(metadata: &str) -> Option<KeyKind> {
    match top_level(metadata, "key_format")? {
        "q" => Some(KeyKind::Number),
        "u" => Some(KeyKind::Bytes),
        _ => None,
    }
}

/// The value of a key of WiredTiger's configuration language, outside all parentheses; the last one counts.
fn top_level<'a>(metadata: &'a str, key: &str) -> Option<&'a str> {
    let (mut depth, mut quoted, mut start, mut found) = (0usize, false, 0usize, None);
    let ends = metadata.char_indices().chain([(metadata.len(), ',')]);
    for (at, character) in ends {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                let entry = metadata.get(start..at).unwrap_or_default();
                found =
                    entry.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value).or(found);
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_strings_are_those_of_mongod() {
        let options = Options { collection_config: "split_pct=80".to_owned(), ..Options::new("/data") };
        let spec = TableSpec { config: "allocation_size=8k".to_owned(), ..TableSpec::records() };
        assert_eq!(
            creation_string(&options, &spec),
            "type=file,memory_page_max=10m,split_pct=90,leaf_value_max=64MB,checksum=on,block_compressor=snappy,\
             split_pct=80,allocation_size=8k,key_format=q,value_format=u,app_metadata=(formatVersion=1),log=(enabled=true)"
        );
        let spec = TableSpec { journaled: false, ..TableSpec::index() };
        assert_eq!(
            creation_string(&options, &spec),
            "type=file,internal_page_max=16k,leaf_page_max=16k,checksum=on,prefix_compression=true,block_compressor=,\
             key_format=u,value_format=u,log=(enabled=false)"
        );
    }

    #[test]
    fn the_kind_of_keys_is_read_outside_parentheses_only() {
        assert_eq!(
            key_kind("app_metadata=(key_format=q,x=\")\"),key_format=u,value_format=u"),
            Some(KeyKind::Bytes)
        );
        assert_eq!(key_kind("colgroups=,columns=,key_format=q"), Some(KeyKind::Number));
        assert_eq!(key_kind("key_format=S"), None);
        assert_eq!(key_kind(""), None);
    }

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        assert!(check_ident("collection-7-4611_x.y").is_ok());
        for bad in ["", "a/b", "a:b", "WiredTigerHS", "..", "a b", "a\0", &"x".repeat(201)] {
            assert!(check_ident(bad).is_err(), "{bad:?}");
        }
    }
}
