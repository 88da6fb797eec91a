//! The rules by which a member gives or refuses its vote.

use bson::{Document, doc};
use fathom_replication::messages::RequestVotesArguments;
use fathom_replication::{
    Action, Ballot, Coordinator, CoordinatorOptions, LastVote, MemberState, MonotonicTime, Progress,
};

use crate::desk::{Desk, at, config, plain};

/// Member 1 calls an election in term 2 with the same data as ours.
fn request() -> RequestVotesArguments {
    RequestVotesArguments {
        set_name: "rs".to_owned(),
        dry_run: false,
        term: 2,
        candidate_index: 1,
        config_version: 1,
        last_applied: at(1000, 1),
    }
}

fn refused(desk: &mut Desk, arguments: &RequestVotesArguments, part: &str) {
    match desk.c.vote_requested(desk.now, arguments) {
        Ballot::Answer(reply) => {
            assert!(!reply.granted && reply.reason.contains(part), "{part}: {}", reply.reason);
        }
        other => panic!("{part}: {other:?}"),
    }
}

#[test]
fn a_vote_is_to_be_stored_before_it_is_sent() {
    let mut desk = Desk::new(&plain(3));
    match desk.c.vote_requested(desk.now, &request()) {
        Ballot::StoreThenAnswer(vote, reply) => {
            assert_eq!(vote, LastVote { term: 2, candidate_index: 1 });
            assert!(reply.granted && reply.term == 2);
        }
        other => panic!("{other:?}"),
    }
    // The vote counts from the moment it was given, stored or not.
    refused(&mut desk, &RequestVotesArguments { candidate_index: 2, ..request() }, "already voted");
    refused(&mut desk, &request(), "already voted for another candidate (m1:27017) this term (2)");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut desk = Desk::new(&plain(3));
    let dry = RequestVotesArguments { dry_run: true, term: 1, ..request() };
    for _ in 0..2 {
        assert!(matches!(desk.c.vote_requested(desk.now, &dry), Ballot::Answer(reply) if reply.granted));
    }
    assert!(matches!(desk.c.vote_requested(desk.now, &request()), Ballot::StoreThenAnswer(..)));
}

#[test]
fn each_reason_to_refuse_is_given() {
    let mut desk = Desk::new(&plain(3));
    refused(&mut desk, &RequestVotesArguments { term: 0, ..request() }, "lower than mine");
    refused(
        &mut desk,
        &RequestVotesArguments { config_version: 2, ..request() },
        "config version (2) differs",
    );
    refused(
        &mut desk,
        &RequestVotesArguments { set_name: "x".to_owned(), ..request() },
        "set name (x) differs",
    );
    refused(&mut desk, &RequestVotesArguments { last_applied: at(999, 1), ..request() }, "staler than mine");
    // A later term is newer than any second of an earlier one.
    refused(&mut desk, &RequestVotesArguments { last_applied: at(9999, 0), ..request() }, "staler than mine");
    refused(&mut desk, &RequestVotesArguments { candidate_index: 3, ..request() }, "no member has");
    refused(&mut desk, &RequestVotesArguments { candidate_index: -1, ..request() }, "no member has");
    // All these requests announced term 2, and got no vote.
    assert_eq!(desk.c.term(), 2);
    assert!(matches!(desk.c.vote_requested(desk.now, &request()), Ballot::StoreThenAnswer(..)));
}

#[test]
fn a_vote_outlives_its_member() {
    let vote = Some(LastVote { term: 5, candidate_index: 2 });
    let mut desk = Desk::with_vote(&plain(3), vote);
    assert_eq!(desk.c.term(), 5);
    refused(
        &mut desk,
        &RequestVotesArguments { term: 5, ..request() },
        "already voted for another candidate (m2:27017)",
    );
    refused(&mut desk, &RequestVotesArguments { term: 4, ..request() }, "lower than mine");
    assert!(matches!(
        desk.c.vote_requested(desk.now, &RequestVotesArguments { term: 6, ..request() }),
        Ballot::StoreThenAnswer(..)
    ));
}

#[test]
fn who_is_in_no_set_or_has_no_vote_gives_none() {
    let mut alone = Coordinator::new(CoordinatorOptions::new("rs", 1), None, Progress::default());
    let answer = alone.vote_requested(MonotonicTime::default(), &request());
    assert!(
        matches!(answer, Ballot::Answer(reply) if !reply.granted && reply.reason.contains("no valid configuration"))
    );
    let silent =
        config(&[doc! { "votes": 0, "priority": 0 }, Document::new(), Document::new()], Document::new());
    refused(&mut Desk::new(&silent), &request(), "no vote");
}

#[test]
fn an_arbiter_keeps_a_healthy_primary() {
    let set = config(
        &[doc! { "arbiterOnly": true }, Document::new(), doc! { "priority": 2 }, Document::new()],
        Document::new(),
    );
    let mut desk = Desk::new(&set);
    desk.c.set_own_progress(desk.now, Progress::default());
    desk.has_primary(3);
    desk.run(3000);
    assert_eq!(desk.c.state(), MemberState::Arbiter);
    refused(&mut desk, &request(), "can see a healthy primary (m3:27017)");
    // A candidate of higher priority may take over.
    let better = RequestVotesArguments { term: 3, candidate_index: 2, ..request() };
    assert!(matches!(desk.c.vote_requested(desk.now, &better), Ballot::StoreThenAnswer(..)));
}

#[test]
fn a_primary_steps_down_before_it_votes_in_a_later_term() {
    let mut desk = Desk::primary(&plain(3));
    let later = RequestVotesArguments { term: 3, last_applied: at(1001, 2), ..request() };
    assert_eq!(desk.c.vote_requested(desk.now, &later), Ballot::StepDownFirst);
    desk.carry_out();
    assert!(desk.wants(|action| matches!(action, Action::StepDown { .. })));
    assert!(!desk.c.can_accept_writes());
    assert_eq!((desk.c.term(), desk.c.state()), (2, MemberState::Primary));
    // Until it has, it votes for no candidate.
    assert_eq!(desk.c.vote_requested(desk.now, &later), Ballot::StepDownFirst);
    desk.c.stepped_down(desk.now);
    assert_eq!((desk.c.term(), desk.c.state()), (3, MemberState::Secondary));
    assert!(matches!(desk.c.vote_requested(desk.now, &later), Ballot::StoreThenAnswer(..)));
}
