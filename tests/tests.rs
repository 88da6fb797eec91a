//! End to end: the built program, as a user or a script runs it. One module per topic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod capacity;
mod checkup;
mod cleanup;
mod clients;
mod cluster;
mod cluster_faults;
mod cluster_own;
mod cluster_refusals;
mod cluster_sets;
mod cluster_stub;
mod compare;
mod compare_refusals;
mod connection_strings;
mod contradictions;
mod demo;
mod disk;
mod disk_formats;
mod disk_real;
mod disk_refusals;
mod disk_signals;
mod disk_sustain;
mod docs_section;
mod doctor;
mod explain_logs;
mod explain_recordings;
mod explain_runs;
mod faults;
mod formats;
mod ftdc;
mod host;
mod import_recordings;
mod iostat;
mod mongoperf;
mod package;
mod privacy;
mod program_names;
mod progress;
mod proof;
mod recording_archives;
mod recording_refusals;
mod report;
mod route;
mod runs;
mod runs_serve;
mod serve_background;
mod serve_diagnostics;
mod serve_full_disk;
mod serve_io;
mod serve_refusals;
mod serve_run;
mod serve_writers;
mod storage;
mod verdicts;
mod watch;
mod watch_clusters;
mod watch_silence;
mod ycsb;
mod ycsb_driver;
mod ycsb_faults;
mod ycsb_find_max;
mod ycsb_refusals;
mod ycsb_run;
