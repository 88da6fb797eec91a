//! Command lines taken apart, so that two of them can be laid beside each other option by option.
//!
//! The verbs' own tables of options are not known here, so an option's value is told by its shape: a word behind `--option` that does
//! not begin with a dash. Options of YCSB (`-p name=value`, `-P file`) are named by what they set.

use std::collections::BTreeMap;

use fathom_record::Manifest;
use fathom_record::comparison::ValueChange;

/// Options that say where things go and how they are shown, not what is measured.
const ABOUT_OUTPUT: [&str; 8] =
    ["--runs", "--json", "--output", "-o", "--format", "--no-record", "--metrics", "--seed"];

/// Settings of both that are not the same, by name.
pub(super) fn changes(a: &Manifest, b: &Manifest) -> Vec<ValueChange> {
    let (one, two) = (settings(&a.command_line), settings(&b.command_line));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| one.get(*name) != two.get(*name));
    let of = |name: &String| {
        let value = |settings: &BTreeMap<String, Vec<String>>| settings.get(name).map(|all| all.join(" "));
        ValueChange { name: name.clone(), a: value(&one), b: value(&two) }
    };
    names.into_iter().map(of).collect()
}

/// The command line without the program and without what does not change a measurement: what runs of one history share.
pub(crate) fn command_words(command_line: &[String]) -> String {
    let mut kept = Vec::new();
    let mut words = command_line.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        if !ABOUT_OUTPUT.contains(&name) {
            kept.push(word.as_str());
        } else if !word.contains('=') && !matches!(name, "--json" | "--no-record") {
            words.next_if(|value| !value.starts_with('-'));
        }
    }
    kept.join(" ")
}

/// Each setting with its values, in order.
fn settings(command_line: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        settings.entry(name.to_owned()).or_default().push(value.to_owned());
    };
    let mut words = command_line.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') || word == "-" {
            add("words", word);
        } else if let Some((name, value)) = word.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            add(name, value);
        } else {
            match words.next_if(|value| !value.starts_with('-')) {
                None => add(word, "set"),
                Some(value) => match value.split_once('=').filter(|_| word == "-p") {
                    Some((name, value)) => add(&format!("-p {name}"), value),
                    None => add(word, value),
                },
            }
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_are_compared_by_name_whatever_their_order() {
        let manifest = |text: &str| Manifest::new("ycsb", "0", words(text));
        let a = manifest("fathom ycsb run mongodb -p recordcount=10 -P workloads/a --watch --threads=4");
        let b = manifest("/usr/bin/fathom ycsb run mongodb --threads=8 -P workloads/a -p recordcount=20");
        let found: Vec<(String, Option<String>, Option<String>)> =
            changes(&a, &b).into_iter().map(|change| (change.name, change.a, change.b)).collect();
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            ("--threads", some("4"), some("8")),
            ("--watch", some("set"), None),
            ("-p recordcount", some("10"), some("20")),
        ];
        assert_eq!(found, expected.map(|(name, a, b)| (name.to_owned(), a, b)));
    }

    #[test]
    fn where_things_go_does_not_make_another_measurement() {
        let one = command_words(&words("fathom disk --dir /data --runs /tmp/x --json --size 1G"));
        assert_eq!(one, "disk --dir /data --size 1G");
        assert_eq!(one, command_words(&words("./fathom disk --dir /data --seed 7 --size 1G --output=x")));
    }
}
