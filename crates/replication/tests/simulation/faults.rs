//! Runs schedules of faults, each generated from its seed.

use std::time::Duration;

use fathom_replication::ReplicaSetConfig;
use fathom_replication::coordinator::StepDownRequest;

use crate::chance::Chance;
use crate::sets;
use crate::world::{Network, World};

/// Counts of the events of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) elections: usize,
    pub(crate) rolled_back: usize,
    pub(crate) committed: usize,
}

/// The time within which a primary must accept writes after all faults have ended. An election takes up to 11.5 s from the last
/// sign of a primary, and may fail some times; a catch-up waits for heartbeats; a pause that had begun lasts up to 30 s more.
const HEALING_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs one schedule; panics if a promise is broken.
pub(crate) fn run(seed: u64) -> Outcome {
    let mut chance = Chance::new(seed ^ 0x5eed);
    let config = sets::any(&mut chance);
    run_with(config, seed, &mut chance)
}

fn run_with(config: ReplicaSetConfig, seed: u64, chance: &mut Chance) -> Outcome {
    let mut world = World::new(config, seed);
    let span = |chance: &mut Chance, from, to| chance.millis(from, to);
    world.run(span(chance, 500, 30_000));
    for _ in 0..4 + chance.below(10) {
        inject(&mut world, chance);
        world.run(span(chance, 200, 15_000));
    }
    world.heal();
    settle(&mut world, seed);
    Outcome {
        elections: world.checks.elections,
        rolled_back: world.checks.rolled_back,
        committed: world.checks.committed_entries(),
    }
}

/// After all faults have ended, one primary accepts writes within the bound, and all logs become equal.
fn settle(world: &mut World, seed: u64) {
    let since = world.now;
    while world.writable().len() != 1 {
        assert!(
            world.now - since < HEALING_TIMEOUT,
            "seed {seed}: no primary {:?} after everything works again; writable: {:?}",
            world.now - since,
            world.writable()
        );
        world.run(Duration::from_secs(1));
    }
    world.run(Duration::from_secs(40));
    let committed = world.checks.committed_log();
    let newest = committed.last().copied();
    for index in 0..world.places.len() {
        let member = world.member(index);
        if member.arbiter {
            continue;
        }
        let same =
            member.disk.log.iter().zip(committed).take_while(|(own, committed)| own == committed).count();
        assert!(
            same + 60 > committed.len(),
            "seed {seed}: member {index} ({}) has {same} of {} committed entries, up to {:?}; the newest is {newest:?}; it \
             fetches from {:?}",
            member.coordinator.state(),
            committed.len(),
            member.top(),
            member.coordinator.sync_source(),
        );
    }
}

fn inject(world: &mut World, chance: &mut Chance) {
    let count = world.places.len();
    let victim = chance.below(count);
    match chance.below(12) {
        0 | 1 => world.crash(victim),
        2 => (0..count).for_each(|index| world.start(index)),
        3 => {
            world.crash(victim);
            world.start(victim);
        }
        4 => {
            let span = chance.millis(100, 30_000);
            world.pause(victim, span);
        }
        5 | 6 => {
            let group: Vec<usize> = (0..count).filter(|_| chance.below(2) == 0).collect();
            world.isolate(&group);
        }
        7 => {
            // One direction of one connection.
            let other = chance.below(count);
            world.cut[victim][other] = victim != other;
        }
        8 => world.cut.iter_mut().flatten().for_each(|cut| *cut = false),
        9 => {
            world.network = Network {
                loss: [0, 20, 200][chance.below(3)],
                delay_ms: [3, 100, 1500][chance.below(3)],
                slow: [0, 10, 50][chance.below(3)],
                disk_ms: [5, 100, 3000][chance.below(3)],
            };
        }
        10 => {
            if let Some(primary) = world.writable().first().copied() {
                world.isolate(&[primary]);
            }
        }
        _ => ask_something(world, chance),
    }
}

/// Issues a random administrative command to a member.
fn ask_something(world: &mut World, chance: &mut Chance) {
    let victim = world.writable().first().copied().unwrap_or_else(|| chance.below(world.places.len()));
    let other = chance.below(world.places.len());
    match chance.below(3) {
        0 => {
            let force = chance.below(2) == 0;
            let seconds = |chance: &mut Chance, most| Duration::from_secs(chance.below(most) as u64);
            let catch_up = seconds(chance, 10);
            let request = StepDownRequest { period: catch_up + seconds(chance, 30), catch_up, force };
            world
                .with_member(victim, |member, now| member.coordinator.step_down_requested(now, request).ok());
        }
        1 => {
            world.with_member(other, |member, now| member.coordinator.freeze(now, 5).ok());
        }
        _ => {
            world.with_member(other, |member, now| member.coordinator.step_up(now).ok());
        }
    }
}
