//! The name by which the program was called: a link `ycsb` to it is `fathom ycsb`.
//!
//! If the first argument is a verb of Fathom, it is used under any name, because Fathom starts servers and sessions by calling itself.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Table: programs with the verb that takes their command lines.
const PROGRAMS: [(&str, &str); 5] = [
    ("ycsb", "ycsb"),
    ("ycsb.sh", "ycsb"),
    ("mongoperf", "mongoperf"),
    ("iostat", "iostat"),
    ("mlaunch", "cluster"),
];

/// Adds the verb of the program's name to the command line; `is_verb` knows the verbs of Fathom.
pub(super) fn with_verb(
    words: impl Iterator<Item = OsString>,
    is_verb: impl Fn(&OsStr) -> bool,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let called = words.first().and_then(|program| Path::new(program).file_name()).and_then(OsStr::to_str);
    let verb = PROGRAMS.iter().find(|(program, _)| Some(*program) == called).map(|(_, verb)| *verb);
    // A command line with a verb, or one that asks for the version, needs no verb from the name.
    // In iostat -V is an option like others.
    let asks = |word: &OsString| word == "--version" || (word == "-V" && verb != Some("iostat"));
    let is_version = words.len() == 2 && words.get(1).is_some_and(asks);
    let has_verb = words.get(1).is_some_and(|word| is_verb(word));
    if let Some(verb) = verb.filter(|_| !is_version && !has_verb) {
        words.splice(..1, ["fathom".into(), verb.into()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let words = with_verb(line.split(' ').map(OsString::from), |word| word == "cluster");
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_program_of_another_name_is_a_verb() {
        assert_eq!(after("/opt/ycsb/bin/ycsb load mongodb -s"), "fathom ycsb load mongodb -s");
        assert_eq!(after("./mlaunch init --single"), "fathom cluster init --single");
        assert_eq!(after("iostat -x 1 3"), "fathom iostat -x 1 3");
        assert_eq!(after("iostat -V"), "fathom iostat -V");
        assert_eq!(after("mongoperf"), "fathom mongoperf");
    }

    #[test]
    fn a_verb_and_the_version_stay() {
        for same in ["fathom ycsb run", "mlaunch cluster launch", "ycsb --version", "fathom", "./tool -x"] {
            assert_eq!(after(same), same);
        }
    }
}
