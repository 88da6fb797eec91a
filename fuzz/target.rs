//! The program of every fuzz target; `FATHOM_FUZZ_TARGET` names the one of `fathom-fuzz-targets` that it runs.
#![no_main]

use std::env;
use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| env::var("FATHOM_FUZZ_TARGET").unwrap_or_default());

libfuzzer_sys::fuzz_target!(|input: &[u8]| fathom_fuzz_targets::run(&NAME, input));
