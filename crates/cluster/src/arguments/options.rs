//! The options that a server's `--help` lists: of mongod and mongos as boost prints them, of our own as clap does.

use std::collections::BTreeSet;

/// Every option in a help text, with its dashes: `-f [ --config ] arg` gives `-f` and `--config`.
pub(crate) fn listed_options(help: &str) -> BTreeSet<String> {
    help.lines().map(str::trim_start).filter(|line| line.starts_with('-')).flat_map(of_line).collect()
}

fn of_line(line: &str) -> impl Iterator<Item = String> {
    // Two blanks end the options; what is said of them may name others.
    let options = line.split("  ").next().unwrap_or(line);
    let words = options.split([' ', ',', '[', ']', '=', '<', '(']);
    words.filter(|word| is_option(word)).map(|word| word.trim_end_matches('.').to_owned())
}

fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-').trim_end_matches('.');
    let dashes = word.len() - word.trim_start_matches('-').len();
    (dashes == 1 && name.len() == 1 || dashes == 2 && name.len() > 1)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_help() {
        let boost = "General options:\n  -v [ --verbose ] [=arg(=v)]           be more verbose (include multiple times \n\
                     \x20                                       for more verbosity e.g. -vvvvv)\n\
                     \x20 -f [ --config ] arg                   configuration file specifying \n\
                     \x20 --networkMessageCompressors [=arg(=disabled)] (=snappy)\n\
                     \x20 --slowms arg (=100)                   value of slow for profile and console \n\
                     \x20                                       log, see --profile\n";
        let options: Vec<String> = listed_options(boost).into_iter().collect();
        assert_eq!(options, ["--config", "--networkMessageCompressors", "--slowms", "--verbose", "-f", "-v"]);
        let clap = "Options:\n  -f, --config <FILE>  Read options\n      --dbpath <DIR>\n          made; see --journal\n  -v, --verbose...       Log more\n";
        let options: Vec<String> = listed_options(clap).into_iter().collect();
        assert_eq!(options, ["--config", "--dbpath", "--verbose", "-f", "-v"]);
    }
}
