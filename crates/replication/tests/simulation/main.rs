//! Simulates whole sets in simulated time: members with logs and disks, over a network that loses, delays and partitions, with
//! pauses, crashes and restarts. Every step of every schedule checks the invariants: at most one primary in each term, one vote of
//! each member in each term, terms that never move back, and a commit point that covers only entries of every later primary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod chance;
mod checks;
mod faults;
mod member;
mod sets;
mod wire;
mod world;

use std::time::Duration;

use fathom_replication::MemberState;

use world::World;

/// Runs these schedules, and prints the seed of one that fails.
fn schedules(seeds: std::ops::Range<u64>) {
    let mut total = faults::Outcome::default();
    for seed in seeds.clone() {
        let outcome = std::panic::catch_unwind(|| faults::run(seed));
        let outcome = outcome.unwrap_or_else(|cause| {
            println!("schedule {seed} failed");
            std::panic::resume_unwind(cause)
        });
        total.elections += outcome.elections;
        total.rolled_back += outcome.rolled_back;
        total.committed += outcome.committed;
        if (seed - seeds.start + 1).is_multiple_of(1000) {
            println!("{seed}: {total:?}");
        }
    }
    println!("{seeds:?}: {total:?}");
    // A simulation without events proves nothing.
    let count = usize::try_from(seeds.end - seeds.start).unwrap();
    assert!(total.elections > count && total.committed > 20 * count && total.rolled_back > 0, "{total:?}");
}

#[test]
fn nothing_committed_is_lost_and_each_term_has_one_primary() {
    schedules(0..250);
}

#[test]
fn nor_with_other_seeds() {
    schedules(1_000_000..1_000_250);
}

#[test]
#[ignore = "10000 schedules, a quarter of an hour: make soak"]
fn nor_in_many_schedules() {
    schedules(2_000_000..2_010_000);
}

#[test]
fn a_set_that_starts_has_a_primary_within_half_a_minute() {
    for (seed, count) in [3, 5, 7, 2, 1].into_iter().enumerate() {
        let mut world = World::new(sets::plain(count), seed as u64);
        world.run(Duration::from_secs(30));
        assert_eq!(world.writable().len(), 1, "{count} members");
        world.run(Duration::from_secs(60));
        assert_eq!(world.checks.elections, 1, "{count} members: an election without need");
        assert!(world.checks.committed_entries() > 20);
    }
}

#[test]
fn the_highest_priority_takes_over() {
    for seed in 0..20 {
        let mut world = World::new(sets::with_priorities(&[1.0, 2.0, 3.0, 10.0, 0.0]), seed);
        world.run(Duration::from_secs(120));
        assert_eq!(world.writable(), [3], "seed {seed}");
        world.crash(3);
        world.run(Duration::from_secs(90));
        assert_eq!(world.writable(), [2], "seed {seed}");
        world.start(3);
        world.run(Duration::from_secs(60));
        assert_eq!(world.writable(), [3], "seed {seed}");
    }
}

#[test]
fn a_primary_without_a_majority_steps_down_and_another_takes_its_place() {
    for seed in 0..20 {
        let mut world = World::new(sets::plain(5), seed);
        world.run(Duration::from_secs(30));
        let old = world.writable()[0];
        let friend = (old + 1) % 5;
        world.isolate(&[old, friend]);
        world.run(Duration::from_secs(25));
        assert_eq!(world.member(old).coordinator.state(), MemberState::Secondary, "seed {seed}");
        let new = world.writable();
        assert!(new.len() == 1 && new[0] != old && new[0] != friend, "seed {seed}: {new:?}");
        // The old primary's writes from that time are on no other member: they are rolled back.
        world.heal();
        world.run(Duration::from_secs(30));
        assert_eq!(world.writable(), new, "seed {seed}: an election without need");
        assert!(world.checks.rolled_back > 0);
    }
}

#[test]
fn two_members_and_an_arbiter_survive_the_loss_of_one() {
    for seed in 0..20 {
        let mut world = World::new(sets::with_arbiter(), seed);
        world.run(Duration::from_secs(30));
        let old = world.writable()[0];
        let before = world.checks.committed_entries();
        world.crash(old);
        world.run(Duration::from_secs(25));
        let new = world.writable();
        assert!(new.len() == 1 && new[0] != old, "seed {seed}: {new:?}");
        // One data-bearing member is no write majority of two.
        let alone = world.checks.committed_entries();
        assert!(alone >= before);
        world.run(Duration::from_secs(10));
        assert_eq!(world.checks.committed_entries(), alone, "seed {seed}");
        world.start(old);
        world.run(Duration::from_secs(30));
        assert!(world.checks.committed_entries() > alone, "seed {seed}");
    }
}

#[test]
fn a_schedule_is_the_same_each_time() {
    let twice: Vec<String> = (0..2).map(|_| format!("{:?}", faults::run(77))).collect();
    assert_eq!(twice[0], twice[1]);
}
