//! The fuzz targets: runs one input through each target's code.
//!
//! It is a library, so that two programs call the same code: `cargo fuzz` under the sanitizer, with generated inputs, and the
//! ordinary test below, with the inputs of `fuzz/seeds`. A target panics if a parser violates its contract, and returns otherwise.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a panic is what a target reports")]

mod cluster_description;
mod connection_string;
mod counters;
mod diskstats;
mod filter;
mod ftdc_chunk;
mod ftdc_documents;
mod ftdc_recordings;
mod keystring;
mod load_lengths;
mod load_properties;
mod load_workload;
mod mlaunch_environment;
mod mongoperf_config;
mod mountinfo;
mod pipeline;
mod quantities;
mod replication_messages;
mod run_bundle;
mod scram_messages;
mod server_command;
mod server_log;
mod update;
mod wire_document;
mod wire_frame;

/// A target, from one input to a panic or nothing.
type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its folder in `fuzz/seeds`.
static TARGETS: &[(&str, Target)] = &[
    ("cluster_description", cluster_description::take_input),
    ("connection_string", connection_string::take_input),
    ("counters", counters::take_input),
    ("diskstats", diskstats::take_input),
    ("filter", filter::take_input),
    ("ftdc_chunk", ftdc_chunk::take_input),
    ("ftdc_documents", ftdc_documents::take_input),
    ("ftdc_recordings", ftdc_recordings::take_input),
    ("keystring", keystring::take_input),
    ("load_lengths", load_lengths::take_input),
    ("load_properties", load_properties::take_input),
    ("load_workload", load_workload::take_input),
    ("mlaunch_environment", mlaunch_environment::take_input),
    ("mongoperf_config", mongoperf_config::take_input),
    ("mountinfo", mountinfo::take_input),
    ("pipeline", pipeline::take_input),
    ("quantities", quantities::take_input),
    ("replication_messages", replication_messages::take_input),
    ("run_bundle", run_bundle::take_input),
    ("scram_messages", scram_messages::take_input),
    ("server_command", server_command::take_input),
    ("server_log", server_log::take_input),
    ("update", update::take_input),
    ("wire_document", wire_document::take_input),
    ("wire_frame", wire_frame::take_input),
];

/// Runs a target on one input.
///
/// # Panics If the target finds a fault, or no target has this name.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("there is no fuzz target {name}")).1(input);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    /// A regression on an input that was once a finding fails here, at every change.
    #[test]
    fn every_target_takes_its_seeds() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (name, target) in TARGETS {
            let folder =
                fs::read_dir(seeds.join(name)).unwrap_or_else(|e| panic!("the seeds of {name}: {e}"));
            let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
            files.sort();
            assert!(!files.is_empty(), "{name} has no seeds");
            for file in files {
                // The name of the input that panics is the last line of the output.
                println!("{}", file.display());
                target(&fs::read(&file).unwrap());
            }
        }
    }

    #[test]
    fn every_folder_of_seeds_has_a_target() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for entry in fs::read_dir(seeds).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(TARGETS.iter().any(|(known, _)| *known == name), "no target reads the seeds of {name}");
        }
    }
}
