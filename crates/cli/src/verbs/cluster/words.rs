//! Translates mlaunch's command line into Fathom's: `init` may be omitted, and unknown options are passed to the servers.
//!
//! Those options are moved behind `--`, where clap does not interpret them. An unknown option takes the next word as its value, if
//! that is no option; tags must therefore come before such options.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// Actions that pass options through.
const HAND_THROUGH: [&str; 3] = ["init", "start", "restart"];

/// The command line with `init` in its place and the servers' options behind `--`, where the verb is `cluster`.
pub(crate) fn plain(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|verb| verb != "cluster") {
        return words;
    }
    let mut rest = words.into_iter();
    let mut plain: Vec<OsString> = rest.by_ref().take(2).collect();
    let mut rest: Vec<OsString> = rest.filter(|word| word != "--no-progressbar").collect();
    let Some(first) = rest.first().map(|word| word.to_string_lossy().into_owned()) else { return plain };
    if first.starts_with('-') && !["-h", "--help", "-V", "--version", "--"].contains(&first.as_str()) {
        rest.insert(0, "init".into());
    }
    let action = rest.remove(0);
    let name = action.to_string_lossy().into_owned();
    plain.push(action);
    if !HAND_THROUGH.contains(&name.as_str()) {
        plain.extend(rest);
        return plain;
    }
    let command = super::command();
    let Some(command) = command.find_subcommand(&name) else { return plain };
    let (ours, theirs) = separate(rest, command);
    plain.extend(ours);
    if !theirs.is_empty() {
        plain.push("--".into());
        plain.extend(theirs);
    }
    plain
}

/// The number of words that follow an option of Fathom; `None` for any other option.
fn values(command: &Command, option: &str) -> Option<usize> {
    if ["-h", "--help"].contains(&option) {
        return Some(0);
    }
    let name = option.strip_prefix("--")?;
    let argument = command.get_arguments().find(|argument| {
        argument.get_long() == Some(name)
            || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })?;
    let most = argument.get_num_args().map_or(1, |range| range.max_values());
    Some(if argument.get_action().takes_values() { most } else { 0 })
}

fn separate(words: Vec<OsString>, command: &Command) -> (Vec<OsString>, Vec<OsString>) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    let is_option = |word: &OsStr| {
        let text = word.to_string_lossy();
        text.len() > 1 && text.starts_with('-') && text.parse::<f64>().is_err()
    };
    while let Some(word) = words.next() {
        if word == "--" {
            theirs.extend(words);
            break;
        }
        if !is_option(&word) {
            ours.push(word);
            continue;
        }
        let text = word.to_string_lossy().into_owned();
        let (name, has_value) = text.split_once('=').map_or((text.as_str(), false), |(name, _)| (name, true));
        let (into, mut follow) = match values(command, name) {
            Some(count) => (&mut ours, count),
            None => (&mut theirs, 1),
        };
        into.push(word);
        while !has_value && follow > 0 {
            let Some(value) = words.next_if(|next| !is_option(next)) else { break };
            into.push(value);
            follow -= 1;
        }
    }
    (ours, theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let words = plain(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn init_goes_without_saying() {
        assert_eq!(after("fathom cluster --single --port 7"), "fathom cluster init --single --port 7");
        assert_eq!(after("fathom cluster --no-progressbar --single"), "fathom cluster init --single");
        for same in
            ["fathom cluster", "fathom cluster --help", "fathom cluster list --tags", "fathom disk --single"]
        {
            assert_eq!(after(same), same);
        }
    }

    /// An alias with a port, called with another one, was refused; mlaunch takes the last.
    #[test]
    fn an_option_may_be_given_again() {
        let given = |line: &str| {
            let words = plain(line.split(' ').map(OsString::from).collect());
            let matches = super::super::command().try_get_matches_from(words.into_iter().skip(1)).unwrap();
            matches.subcommand().map(|(_, matches)| matches.clone()).unwrap()
        };
        let init = given("fathom cluster --single --port 7 --dir a --port 8 --single --slowms 5 --dir b");
        assert_eq!(init.get_one::<u16>("port"), Some(&8));
        let list = given("fathom cluster list --dir a --dir b");
        assert_eq!(list.get_one::<std::path::PathBuf>("dir"), Some(&"b".into()));
    }

    #[test]
    fn options_of_the_servers_go_behind_the_dashes() {
        assert_eq!(
            after(
                "fathom cluster --replicaset --slowms 5 --nodes 2 --quiet --storageEngine=inMemory -vv --dir x"
            ),
            "fathom cluster init --replicaset --nodes 2 --dir x -- --slowms 5 --quiet --storageEngine=inMemory -vv"
        );
        assert_eq!(
            after("fathom cluster init --sharded a b --shards 3 -f conf --replicaset -- --foo --nodes"),
            "fathom cluster init --sharded a b --shards 3 --replicaset -- -f conf --foo --nodes"
        );
        assert_eq!(
            after("fathom cluster start shard 2 --setParameter a=1 --verbose"),
            "fathom cluster start shard 2 --verbose -- --setParameter a=1"
        );
        assert_eq!(after("fathom cluster restart --slowms 9"), "fathom cluster restart -- --slowms 9");
        assert_eq!(after("fathom cluster stop --foo 1"), "fathom cluster stop --foo 1");
        assert_eq!(
            after("fathom cluster init --single --profile -1"),
            "fathom cluster init --single -- --profile -1"
        );
    }
}
