//! The work of a new primary before it accepts writes.

use bson::{Document, doc};
use fathom_replication::{Action, MemberState};
use fathom_wire::Code;

use crate::desk::{Desk, at, config, plain};

fn drains(desk: &Desk) -> bool {
    desk.wants(|action| matches!(action, Action::Drain { term: 2 }))
}

#[test]
fn one_that_lacks_nothing_drains_once_all_have_said_so() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.elect();
    desk.run(10);
    assert!(drains(&desk));
    assert!(!desk.c.can_accept_writes() && desk.c.may_complete_transition(2));
    desk.c.transition_completed(desk.now, at(1001, 2)).unwrap();
    assert!(desk.c.can_accept_writes());
    let failure = desk.c.transition_completed(desk.now, at(1002, 2)).unwrap_err();
    assert_eq!(failure.code(), Code::PrimarySteppedDown);
}

#[test]
fn one_that_lacks_something_gets_it_first() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.reply(2).applied = at(1003, 1);
    desk.elect();
    desk.run(5_000);
    assert!(desk.c.is_catching_up() && !drains(&desk));
    assert!(!desk.c.may_complete_transition(2));
    // We choose a member that has the entry, even though we are primary.
    let source = desk.c.choose_sync_source(desk.now, at(1000, 1));
    assert_eq!(source, Some(crate::desk::host(2)));
    desk.c.applied_advanced(desk.now, at(1003, 1));
    desk.carry_out();
    assert!(drains(&desk) && !desk.c.is_catching_up());
    assert_eq!(desk.c.sync_source(), None, "nothing is fetched any more");
    assert_eq!(
        desk.c.choose_sync_source(desk.now, at(1000, 1)),
        None,
        "a primary that is done fetches from nobody"
    );
}

#[test]
fn a_member_that_does_not_answer_is_waited_for_until_it_is_down() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.replies[2] = None;
    desk.elect();
    desk.run(10);
    assert!(drains(&desk), "three refused connections are enough");
}

#[test]
fn it_may_have_an_end() {
    let limited = config(&vec![Document::new(); 3], doc! { "catchUpTimeoutMillis": 3000 });
    let mut desk = Desk::new(&limited);
    desk.run(2_000);
    desk.reply(2).applied = at(1003, 1);
    desk.elect();
    desk.run(2_900);
    assert!(!drains(&desk));
    desk.run(200);
    assert!(drains(&desk));
    let none = config(&vec![Document::new(); 3], doc! { "catchUpTimeoutMillis": 0 });
    let mut desk = Desk::new(&none);
    desk.run(2_000);
    desk.reply(2).applied = at(1003, 1);
    desk.elect();
    assert!(drains(&desk));
}

#[test]
fn it_may_be_aborted() {
    let mut desk = Desk::new(&plain(3));
    assert_eq!(desk.c.abort_catch_up(desk.now).unwrap_err().code(), Code::IllegalOperation);
    desk.run(2_000);
    desk.reply(2).applied = at(1003, 1);
    desk.elect();
    desk.c.abort_catch_up(desk.now).unwrap();
    desk.carry_out();
    assert!(drains(&desk));
}

#[test]
fn stepping_down_ends_it() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.reply(2).applied = at(1003, 1);
    desk.elect();
    desk.c.term_seen(desk.now, 3);
    assert!(!desk.c.is_catching_up());
    desk.c.stepped_down(desk.now);
    desk.run(5_000);
    assert!(!drains(&desk));
    assert_eq!(desk.c.state(), MemberState::Secondary);
    assert!(!desk.c.may_complete_transition(2));
}
