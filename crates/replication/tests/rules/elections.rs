//! The rules of a candidacy: its begin, its course and its end.

use bson::{Document, doc};
use fathom_replication::coordinator::{ElectionOutcome, ElectionReason};
use fathom_replication::{Action, FollowerMode, MemberState};
use fathom_wire::{Code, Failure};

use crate::desk::{Desk, config, host, plain};

fn ended(desk: &mut Desk) -> Option<ElectionOutcome> {
    desk.take(|action| match action {
        Action::ElectionEnded { outcome, .. } => Some(*outcome),
        _ => None,
    })
}

#[test]
fn without_a_primary_a_secondary_stands_after_the_election_timeout() {
    let mut desk = Desk::new(&plain(3));
    desk.run(9_999);
    assert!(desk.vote_requests().is_empty());
    // Plus a random addition of up to 15 %.
    desk.run(1_501);
    let requests = desk.vote_requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|(_, _, dry_run)| *dry_run));
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::Timeout));
    assert_eq!((desk.c.term(), desk.c.state()), (1, MemberState::Secondary));
}

#[test]
fn the_election_timeout_is_the_configured_one_and_up_to_15_percent_more_at_random() {
    let config = config(&[(); 3].map(|()| Document::new()), doc! { "electionTimeoutMillis": 2_000 });
    let mut waits_ms: Vec<u64> = (0..50)
        .map(|seed| {
            let mut desk = Desk::seeded(&config, None, seed);
            let stands = |desk: &mut Desk| {
                desk.run(1);
                desk.vote_requests().len() == 2
            };
            (1..).find(|_| stands(&mut desk)).unwrap()
        })
        .collect();
    waits_ms.sort_unstable();
    assert!(waits_ms[0] >= 2_000 && waits_ms[49] <= 2_301, "{waits_ms:?}");
    // They are spread: two members seldom stand at the same time.
    assert!(waits_ms[0] < 2_060 && waits_ms[49] > 2_240, "{waits_ms:?}");
    waits_ms.dedup();
    assert!(waits_ms.len() > 30, "{waits_ms:?}");
}

#[test]
fn a_primary_that_falls_silent_is_followed_after_the_election_timeout() {
    let mut desk = Desk::new(&plain(3));
    desk.has_primary(1);
    desk.run(60_000);
    desk.replies[1] = None;
    // The last answer came up to a heartbeat interval, 2 s, before.
    desk.run(7_999);
    assert!(desk.vote_requests().is_empty());
    desk.run(3_502);
    assert_eq!(desk.vote_requests().len(), 2);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::Timeout));
}

#[test]
fn a_primary_that_answers_puts_it_off() {
    let mut desk = Desk::new(&plain(3));
    desk.has_primary(1);
    desk.run(60_000);
    assert!(desk.vote_requests().is_empty());
    assert_eq!(desk.c.primary(), Some(&host(1)));
    // One of an earlier term does not.
    desk.c.term_seen(desk.now, 2);
    desk.reply(1).term = 1;
    desk.run(11_500);
    assert!(!desk.vote_requests().is_empty());
}

#[test]
fn dry_run_then_own_vote_then_election() {
    let mut desk = Desk::new(&plain(5));
    desk.run(2_000);
    desk.c.step_up(desk.now).unwrap();
    desk.carry_out();
    let requests = desk.vote_requests();
    assert_eq!(requests.len(), 4);
    desk.vote(&requests[0].0, requests[0].1, 1, true);
    assert!(!desk.wants(|action| matches!(action, Action::StoreVote(_))));
    // Two answers of the same voter count as one vote.
    desk.vote(&requests[0].0, requests[0].1, 1, true);
    assert!(!desk.wants(|action| matches!(action, Action::StoreVote(_))));
    desk.vote(&requests[1].0, requests[1].1, 1, true);
    // No vote is requested before our own is stored.
    assert!(desk.vote_requests().is_empty());
    assert_eq!(desk.store_vote(), 2);
    let requests = desk.vote_requests();
    assert!(requests.len() == 4 && requests.iter().all(|(_, _, dry_run)| !dry_run));
    // An answer of the dry run no longer counts.
    desk.vote(&requests[2].0, requests[2].1 - 1, 2, true);
    desk.vote(&requests[0].0, requests[0].1, 2, false);
    desk.vote(&requests[1].0, requests[1].1, 2, true);
    assert_eq!(desk.c.state(), MemberState::Secondary);
    desk.vote(&requests[2].0, requests[2].1, 2, true);
    assert_eq!((desk.c.state(), desk.c.term()), (MemberState::Primary, 2));
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::Won));
    assert!(desk.wants(|action| matches!(action, Action::BecomePrimary { term: 2 })));
    assert!(!desk.c.can_accept_writes());
}

#[test]
fn a_lost_dry_run_leaves_the_term_as_it_was() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.c.step_up(desk.now).unwrap();
    desk.carry_out();
    desk.all_vote(false);
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::DryRunLost));
    assert_eq!((desk.c.term(), desk.c.standing_for()), (1, None));
}

#[test]
fn silence_is_no_vote() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.c.step_up(desk.now).unwrap();
    desk.carry_out();
    desk.vote_requests();
    desk.run(10_000);
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::DryRunLost));
    let failure = || Err(Failure::new(Code::HostUnreachable, "no"));
    desk.c.step_up(desk.now).unwrap();
    desk.carry_out();
    for (from, round, _) in desk.vote_requests() {
        desk.c.vote_answered(desk.now, &from, round, failure());
    }
    desk.carry_out();
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::DryRunLost));
}

#[test]
fn a_later_term_ends_it() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.c.step_up(desk.now).unwrap();
    desk.carry_out();
    desk.all_vote(true);
    desk.store_vote();
    let requests = desk.vote_requests();
    desk.vote(&requests[0].0, requests[0].1, 7, false);
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::Overtaken));
    assert_eq!(desk.c.term(), 7);
    desk.vote(&requests[1].0, requests[1].1, 2, true);
    assert_eq!(desk.c.state(), MemberState::Secondary);
}

#[test]
fn a_vote_that_cannot_be_stored_is_no_vote() {
    let mut desk = Desk::new(&plain(1));
    let term = |desk: &mut Desk| {
        desk.take(|action| match action {
            Action::StoreVote(vote) => Some(vote.term),
            _ => None,
        })
    };
    assert_eq!(term(&mut desk), Some(2));
    desk.c.own_vote_stored(desk.now, 2, Err(Failure::new(Code::OutOfDiskSpace, "full")));
    desk.carry_out();
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::VoteNotStored));
    assert_eq!(desk.c.state(), MemberState::Secondary);
    // It tries again after a while, in another term.
    assert_eq!(term(&mut desk), None);
    desk.run(1_000);
    assert_eq!(term(&mut desk), Some(3));
}

#[test]
fn one_who_is_alone_is_elected_at_once() {
    let mut desk = Desk::new(&plain(1));
    assert_eq!(desk.store_vote(), 2);
    assert_eq!(desk.c.state(), MemberState::Primary);
    assert!(desk.wants(|action| matches!(action, Action::Drain { term: 2 })));
}

#[test]
fn who_may_not_be_elected_says_why() {
    let mut desk = Desk::new(&plain(3));
    let why = |desk: &mut Desk| {
        let failure = desk.c.step_up(desk.now).unwrap_err();
        assert_eq!(failure.code(), Code::NodeNotElectable);
        failure.message().to_owned()
    };
    desk.replies = vec![None; 3];
    desk.run(30_000);
    assert!(why(&mut desk).contains("cannot see a majority"));
    assert!(desk.vote_requests().is_empty());
    desk.c.set_follower_mode(desk.now, FollowerMode::Recovering);
    assert!(why(&mut desk).contains("not currently a secondary"));
    let mut passive = Desk::new(&config(&[doc! { "priority": 0 }, Document::new()], Document::new()));
    passive.run(30_000);
    assert!(why(&mut passive).contains("zero priority"));
    let mut frozen = Desk::new(&plain(3));
    frozen.run(2_000);
    frozen.c.freeze(frozen.now, 60).unwrap();
    assert!(why(&mut frozen).contains("stepdown period"));
    frozen.run(50_000);
    assert!(frozen.vote_requests().is_empty());
    frozen.run(30_000);
    assert!(!frozen.vote_requests().is_empty());
    let mut primary = Desk::primary(&plain(3));
    assert!(why(&mut primary).contains("already primary"));
}

#[test]
fn leaving_the_state_of_a_secondary_ends_an_election() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.c.step_up(desk.now).unwrap();
    desk.c.set_follower_mode(desk.now, FollowerMode::Rollback);
    desk.carry_out();
    assert_eq!(ended(&mut desk), Some(ElectionOutcome::Abandoned));
    assert_eq!(desk.c.state(), MemberState::Rollback);
}

#[test]
fn maintenance_makes_a_secondary_recovering_until_it_ends() {
    let mut desk = Desk::new(&plain(3));
    desk.c.set_maintenance(desk.now, true).unwrap();
    assert_eq!(desk.c.state(), MemberState::Recovering);
    desk.run(20_000);
    assert!(desk.vote_requests().is_empty());
    desk.c.set_maintenance(desk.now, false).unwrap();
    assert_eq!(desk.c.state(), MemberState::Secondary);
    assert_eq!(desk.c.set_maintenance(desk.now, false).unwrap_err().code(), Code::OperationFailed);
    let mut primary = Desk::primary(&plain(3));
    assert_eq!(primary.c.set_maintenance(primary.now, true).unwrap_err().code(), Code::NotSecondary);
}
