//! The contents of heartbeats, and how they spread a configuration.

use std::time::Duration;

use fathom_replication::messages::HeartbeatArguments;
use fathom_replication::{Action, Coordinator, CoordinatorOptions, MemberState, MonotonicTime, Progress};
use fathom_wire::Code;

use crate::desk::{Desk, at, host, plain};

fn arguments(from: usize) -> HeartbeatArguments {
    HeartbeatArguments {
        set_name: "rs".to_owned(),
        config_version: 1,
        from: Some(host(from)),
        from_id: i64::try_from(from).unwrap(),
        term: 1,
        check_empty: false,
    }
}

#[test]
fn a_reply_says_what_we_are() {
    let mut desk = Desk::primary(&plain(3));
    desk.c.set_election_time(1001 << 32 | 5);
    let reply = desk.c.heartbeat_received(desk.now, &arguments(1)).unwrap();
    assert_eq!((reply.state, reply.term, reply.primary_id), (MemberState::Primary, 2, Some(0)));
    assert_eq!((reply.applied, reply.durable), (at(1001, 2), at(1001, 2)));
    assert_eq!(reply.election_time, Some(1001 << 32 | 5));
    assert_eq!(reply.metadata.unwrap().primary_index, Some(0));
    assert_eq!((reply.config, reply.has_data), (None, None));
}

#[test]
fn an_older_configuration_is_answered_with_ours() {
    let mut desk = Desk::new(&plain(3));
    let reply = desk
        .c
        .heartbeat_received(desk.now, &HeartbeatArguments { config_version: -2, ..arguments(1) })
        .unwrap();
    assert_eq!(reply.config, Some(plain(3).to_document()));
}

#[test]
fn strangers_are_refused() {
    let mut desk = Desk::new(&plain(3));
    let other = HeartbeatArguments { set_name: "x".to_owned(), ..arguments(1) };
    assert_eq!(
        desk.c.heartbeat_received(desk.now, &other).unwrap_err().code(),
        Code::InconsistentReplicaSetNames
    );
    assert_eq!(desk.c.heartbeat_received(desk.now, &arguments(0)).unwrap_err().code(), Code::BadValue);
    desk.c.config_installed(desk.now, plain(3).with_version(2), None);
    assert_eq!(desk.c.state(), MemberState::Removed);
    let failure = desk.c.heartbeat_received(desk.now, &arguments(1)).unwrap_err();
    assert_eq!(failure.code(), Code::InvalidReplicaSetConfig);
}

#[test]
fn a_member_without_a_configuration_asks_who_asked_and_installs_it() {
    let now = MonotonicTime(Duration::from_secs(10));
    let mut c = Coordinator::new(CoordinatorOptions::new("rs", 1), None, Progress::default());
    assert_eq!((c.state(), c.next_wakeup()), (MemberState::Startup, None));
    let reply = c.heartbeat_received(now, &arguments(1)).unwrap();
    assert_eq!((reply.state, reply.config_version), (MemberState::Startup, -2));
    c.tick(now);
    let actions = c.take_actions();
    let [Action::SendHeartbeat { to, sequence, arguments: sent, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((to, sent.config_version, sent.from_id), (&host(1), -2, -1));
    // The answer of another set would not be accepted.
    let mut answer = Desk::new(&plain(3)).replies[1].clone().unwrap();
    answer.config = Some(plain(3).with_version(4).to_document());
    c.heartbeat_answered(now, &host(1), *sequence, Duration::ZERO, Ok(answer));
    let actions = c.take_actions();
    let [Action::InstallConfig(config)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(config.version, 4);
    c.config_installed(now, plain(3).with_version(4), Some(2));
    assert_eq!((c.state(), c.term()), (MemberState::Startup2, 0));
}

#[test]
fn a_newer_configuration_is_offered_until_it_is_installed() {
    let mut desk = Desk::new(&plain(3));
    let offered = |desk: &mut Desk| {
        desk.take(|action| match action {
            Action::InstallConfig(config) => Some(config.version),
            _ => None,
        })
    };
    desk.reply(1).config = Some(plain(3).with_version(5).to_document());
    desk.run(3_000);
    assert_eq!(offered(&mut desk), Some(5));
    assert_eq!(offered(&mut desk), None, "once is enough");
    desk.c.config_refused(5);
    desk.run(3_000);
    assert_eq!(offered(&mut desk), Some(5));
    desk.c.config_installed(desk.now, plain(3).with_version(5), Some(0));
    desk.run(3_000);
    assert_eq!(offered(&mut desk), None);
    // An invalid configuration is not accepted.
    let mut broken = plain(3).with_version(6);
    broken.members[1].votes = 9;
    desk.reply(1).config = Some(broken.to_document());
    desk.run(3_000);
    assert_eq!(offered(&mut desk), None);
}

#[test]
fn a_heartbeat_that_fails_is_sent_twice_more_and_then_later() {
    let mut desk = Desk::new(&plain(2));
    desk.run(2_000);
    desk.replies[1] = None;
    desk.run(2_000);
    // Without a sync source we send heartbeats four times as often: every 500 ms, three tries each.
    desk.heartbeats = 0;
    desk.run(5_000);
    assert!((27..=33).contains(&desk.heartbeats), "{}", desk.heartbeats);
}

#[test]
fn one_that_is_never_answered_counts_as_failed() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    let mut c = desk.c;
    let mut sent = 0;
    for _ in 0..20 {
        let next = c.next_wakeup().unwrap();
        desk.now = desk.now.max(next);
        c.tick(desk.now);
        sent +=
            c.take_actions().iter().filter(|action| matches!(action, Action::SendHeartbeat { .. })).count();
    }
    assert!(sent >= 4, "{sent}");
    let failure = c.step_up(desk.now).unwrap_err();
    assert!(failure.message().contains("cannot see a majority"), "{failure}");
}

#[test]
fn a_member_that_lets_nobody_in_cannot_be_read_from() {
    let mut desk = Desk::new(&plain(2));
    desk.run(1_000);
    assert_eq!(desk.c.state(), MemberState::Secondary);
    let sequence = loop {
        desk.now = desk.c.next_wakeup().unwrap();
        desk.c.tick(desk.now);
        let actions = desk.c.take_actions();
        if let Some(Action::SendHeartbeat { sequence, .. }) = actions.first() {
            break *sequence;
        }
    };
    let failure = fathom_wire::Failure::new(Code::Unauthorized, "not you");
    desk.c.heartbeat_answered(desk.now, &host(1), sequence, Duration::ZERO, Err(failure));
    assert_eq!(desk.c.state(), MemberState::Recovering);
}
