//! A longer way to the server, and too few connections.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_testkit::{DelayProxy, Scratch};

use crate::study::{Study, alone};

/// A modest rate: nothing in the server waits for anything.
const CALM: &str =
    "-threads 8 -target 200 -p requestdistribution=uniform -p readproportion=0.5 -p updateproportion=0.5";

#[test]
fn twenty_milliseconds_of_network_are_the_networks_and_nobody_elses() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let study = Study::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = SocketAddr::from(([127, 0, 0, 1], study.server.port()));
    let proxy = DelayProxy::start(server, Duration::ZERO).unwrap();
    let near = study.watched(proxy.port(), 20, CALM);
    proxy.set_round_trip(Duration::from_millis(20));
    let far = study.watched(proxy.port(), 20, CALM);
    if near.is_disturbed() || far.is_disturbed() {
        return;
    }
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
    study.stop();
}

#[test]
fn one_connection_for_a_rate_that_needs_two_is_the_clients_loop() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let study = Study::start("wiredTiger", &scratch.path(), &[], 5_000);
    let server = SocketAddr::from(([127, 0, 0, 1], study.server.port()));
    // One operation takes about 10 ms, so one connection does not do 120 a second.
    let proxy = DelayProxy::start(server, Duration::from_millis(10)).unwrap();
    let judged =
        study.watched(proxy.port(), 20, "-threads 1 -target 120 -p readproportion=1 -p updateproportion=0");
    if judged.is_disturbed() {
        return;
    }
    let finding = judged.finding("waits-for-connections");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", judged.document));
    assert!(judged.layer_ms("reads", "schedule") > 2.0 * judged.layer_ms("reads", "network"), "{finding:#?}");
    study.stop();
}
