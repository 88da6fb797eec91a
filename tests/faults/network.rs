//! A longer way to the server, and too few connections.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_testkit::{DelayProxy, Scratch, assert, assert_eq, test};

use super::recorder::{LoadedServer, Recorder};
use super::study::{FaultStudy, Recording};

const ROUND_TRIP: FaultStudy =
    FaultStudy { name: "round-trip", record: record_round_trip, check: check_round_trip };

const ONE_CONNECTION: FaultStudy =
    FaultStudy { name: "one-connection", record: record_one_connection, check: check_one_connection };

/// A modest rate: nothing in the server waits for anything.
const CALM: &str =
    "-threads 8 -target 200 -p requestdistribution=uniform -p readproportion=0.5 -p updateproportion=0.5";

fn record_round_trip(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = SocketAddr::from(([127, 0, 0, 1], loaded.server.port()));
    let proxy = DelayProxy::start(server, Duration::ZERO).unwrap();
    recorder.record("near", loaded.watched(proxy.port(), 20, CALM));
    proxy.set_round_trip(Duration::from_millis(20));
    recorder.record("far", loaded.watched(proxy.port(), 20, CALM));
    loaded.stop();
}

fn check_round_trip(recording: &Recording) {
    let [near, far] = ["near", "far"].map(|name| recording.diagnosis(name));
    for operations in ["reads", "writes"] {
        for (layer, after_ms) in far.layers(operations) {
            let grown_ms = after_ms - near.layer_ms(operations, &layer);
            if layer == "network" {
                assert!((grown_ms - 20.0).abs() <= 2.0, "{operations}: network grew by {grown_ms:.2} ms");
            } else {
                assert!(grown_ms.abs() <= 2.0, "{operations}: {layer} grew by {grown_ms:.2} ms");
            }
        }
    }
    assert!(far.finding("network-takes-most").is_some(), "{:#?}", far.document["findings"]);
    // The same load without the delay: nothing to say.
    assert_eq!(near.alarms(), Vec::<&str>::new(), "{:#?}", near.document["findings"]);
}

fn record_one_connection(recorder: &mut Recorder) {
    let scratch = Scratch::new().unwrap();
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = SocketAddr::from(([127, 0, 0, 1], loaded.server.port()));
    // One operation takes about 10 ms, so one connection does not do 120 a second.
    let proxy = DelayProxy::start(server, Duration::from_millis(10)).unwrap();
    let words = "-threads 1 -target 120 -p readproportion=1 -p updateproportion=0";
    recorder.record("run", loaded.watched(proxy.port(), 20, words));
    loaded.stop();
}

fn check_one_connection(recording: &Recording) {
    let diagnosis = recording.diagnosis("run");
    let finding = diagnosis.expect_finding("waits-for-connections");
    let [schedule_ms, network_ms] = ["schedule", "network"].map(|layer| diagnosis.layer_ms("reads", layer));
    assert!(schedule_ms > 2.0 * network_ms, "{finding:#?}");
}

#[test]
fn twenty_milliseconds_of_network_are_the_networks_and_nobody_elses() {
    ROUND_TRIP.check_bundles();
}

#[test]
fn one_connection_for_a_rate_that_needs_two_is_the_clients_loop() {
    ONE_CONNECTION.check_bundles();
}

mod proof {
    use fathom_testkit::test;

    use super::{ONE_CONNECTION, ROUND_TRIP};

    #[test]
    fn twenty_milliseconds_of_network_are_the_networks_and_nobody_elses() {
        ROUND_TRIP.prove();
    }

    #[test]
    fn one_connection_for_a_rate_that_needs_two_is_the_clients_loop() {
        ONE_CONNECTION.prove();
    }
}
