//! Takeovers from a primary of lower priority, and from one that lacks entries that we have.

use bson::{Document, doc};
use fathom_replication::coordinator::ElectionReason;
use fathom_replication::{Action, ReplicaSetConfig};

use crate::desk::{Desk, at, both, config, host};

/// A set of us, the primary (member 1), and a third member.
fn set(own: f64, primary: f64, third: f64, settings: Document) -> ReplicaSetConfig {
    config(&[doc! { "priority": own }, doc! { "priority": primary }, doc! { "priority": third }], settings)
}

/// A set whose member 1 is primary of term 2, without an entry of that term yet.
fn with_primary(config: &ReplicaSetConfig) -> Desk {
    let mut desk = Desk::new(config);
    desk.c.term_seen(desk.now, 2);
    desk.reply(2).term = 2;
    desk.has_primary(1);
    desk
}

fn write_of_term_2(desk: &mut Desk) {
    for index in [1, 2] {
        desk.reply(index).applied = at(1001, 2);
    }
    desk.c.applied_advanced(desk.now, at(1001, 2));
}

#[test]
fn the_higher_priority_stands_after_its_turn() {
    // Rank 1: two election timeouts, and the random addition.
    let mut desk = with_primary(&set(2.0, 1.0, 3.0, Document::new()));
    write_of_term_2(&mut desk);
    desk.run(19_900);
    assert!(desk.vote_requests().is_empty());
    desk.run(2_500);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::PriorityTakeover));
    // The member of the highest priority waits for one.
    let mut desk = with_primary(&set(3.0, 1.0, 2.0, Document::new()));
    write_of_term_2(&mut desk);
    desk.run(12_500);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::PriorityTakeover));
}

#[test]
fn an_equal_or_lower_priority_does_not() {
    for own in [1.0, 0.5] {
        let mut desk = with_primary(&set(own, 1.0, 3.0, Document::new()));
        write_of_term_2(&mut desk);
        desk.run(90_000);
        assert_eq!(desk.c.standing_for(), None);
    }
}

#[test]
fn not_before_we_are_near_the_newest_entry() {
    let mut desk = with_primary(&set(2.0, 1.0, 1.0, Document::new()));
    write_of_term_2(&mut desk);
    desk.reply(1).applied = at(1004, 2);
    desk.run(40_000);
    assert_eq!(desk.c.standing_for(), None, "3 s behind");
    desk.c.applied_advanced(desk.now, at(1002, 2));
    desk.run(13_000);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::PriorityTakeover), "2 s behind");
}

#[test]
fn a_fresher_member_takes_over_from_a_primary_that_does_not_catch_up() {
    let mut desk = with_primary(&set(1.0, 1.0, 1.0, Document::new()));
    desk.reply(1).applied = at(990, 1);
    desk.reply(2).applied = at(995, 1);
    desk.run(29_000);
    assert_eq!(desk.c.standing_for(), None);
    desk.run(2_000);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::CatchUpTakeover));
    // The primary itself must agree; a majority without it is not enough.
    let requests = desk.vote_requests();
    let round = requests[0].1;
    desk.vote(&host(2), round, 2, true);
    assert!(!desk.wants(|action| matches!(action, Action::StoreVote(_))));
    desk.vote(&host(1), round, 2, true);
    assert!(desk.wants(|action| matches!(action, Action::StoreVote(_))));
}

#[test]
fn a_primary_that_says_no_keeps_its_office() {
    let mut desk = with_primary(&set(1.0, 1.0, 1.0, Document::new()));
    desk.reply(1).applied = at(990, 1);
    desk.run(31_000);
    let round = desk.vote_requests()[0].1;
    desk.vote(&host(2), round, 2, true);
    desk.vote(&host(1), round, 2, false);
    assert_eq!(desk.c.standing_for(), None);
    assert!(!desk.wants(|action| matches!(action, Action::StoreVote(_))));
}

#[test]
fn a_primary_that_has_caught_up_is_left_alone() {
    let mut desk = with_primary(&set(1.0, 1.0, 1.0, Document::new()));
    desk.reply(1).applied = at(990, 1);
    desk.run(10_000);
    // Its first entry of the term shows that it has caught up.
    desk.reply(1).applied = at(1001, 2);
    desk.run(60_000);
    assert_eq!(desk.c.standing_for(), None);
}

#[test]
fn settings_forbid_it() {
    for settings in [doc! { "catchUpTakeoverDelayMillis": -1 }, doc! { "catchUpTimeoutMillis": 0 }] {
        let mut desk = with_primary(&set(1.0, 1.0, 1.0, settings));
        desk.reply(1).applied = at(990, 1);
        desk.run(90_000);
        assert_eq!(desk.c.standing_for(), None);
    }
}

#[test]
fn the_freshest_first_in_line_goes_by_its_priority() {
    let mut desk = with_primary(&set(3.0, 1.0, 1.0, Document::new()));
    desk.reply(1).applied = at(990, 1);
    desk.run(12_500);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::PriorityTakeover));
    // Later, another member has newer data.
    let mut desk = with_primary(&set(2.0, 1.0, 3.0, Document::new()));
    desk.reply(1).applied = at(990, 1);
    desk.reply(2).applied = at(990, 1);
    desk.c.set_own_progress(desk.now, both(at(1000, 1)));
    desk.run(29_000);
    assert_eq!(desk.c.standing_for(), None);
    desk.run(2_000);
    assert_eq!(desk.c.standing_for(), Some(ElectionReason::CatchUpTakeover));
}
