//! Random schedules of faults under load, each on a set of its own, and whether all promises were kept.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fathom_testkit::{assert, assert_eq, test};

use super::clients::{Client, OBJECTS, prepare, values_of};
use super::history::{Event, Object, Outcome, check};
use super::members::{Engines, Members};
use super::nemesis::haunt;
use super::outcome::{Contents, converge, terms_begun_twice};
use super::schedule::Schedule;
use super::watch::Terms;

/// Schedules on each set unless `$FATHOM_SCHEDULES` says how many.
const DEFAULT_SCHEDULES: u64 = 2;
/// Clients that write at majority.
const CLIENTS: i64 = 4;

#[test]
fn nothing_acknowledged_at_majority_is_lost_on_wiredtiger() {
    run_schedules(["wiredTiger"; 3], 3);
}

#[test]
fn nothing_acknowledged_at_majority_is_lost_on_rocksdb() {
    run_schedules(["rocksdb"; 3], 1);
}

#[test]
fn nothing_acknowledged_at_majority_is_lost_on_both_engines() {
    run_schedules(["wiredTiger", "wiredTiger", "rocksdb"], 2);
}

/// Runs schedules on sets of these engines, one after another: every third seed from this one, or that of `$FATHOM_SEED`.
fn run_schedules(engines: Engines, first_seed: u64) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("FATHOM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let count = number("FATHOM_SCHEDULES").unwrap_or(DEFAULT_SCHEDULES);
            (0..count).map(|index| first_seed + 3 * index).collect()
        }
    };
    assert!(!seeds.is_empty(), "FATHOM_SCHEDULES is 0");
    for seed in seeds {
        run(&Schedule::new(seed, 3), engines);
    }
}

/// Runs a schedule on a new set, and judges what was seen.
fn run(schedule: &Schedule, engines: Engines) {
    let seed = schedule.seed;
    println!("seed {seed}, {engines:?}; again with FATHOM_SEED={seed}");
    let members = Members::start(engines, 1000);
    let terms = Terms::default();
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let seen = thread::scope(|scope| {
        // Stops the others also when it fails.
        let work = || {
            let _stop = Stop(&stop);
            load(&members, schedule, begun)
        };
        for place in 0..3 {
            let (members, terms, stop) = (&members, &terms, &stop);
            scope.spawn(move || terms.watch(members, place, stop));
        }
        scope.spawn(work).join().unwrap()
    });
    let (count, mut broken) = terms.judged();
    broken.extend(seen.broken);
    let done = seen.events.iter().filter(|event| event.outcome == Outcome::Done).count();
    println!(
        "seed {seed}: {} operations, {done} done, {count} terms, {} of {} at w: 1 lost, {:.1} s",
        seen.events.len(),
        seen.lost,
        seen.loose,
        begun.elapsed().as_secs_f64()
    );
    let all = broken.join("\n");
    assert!(broken.is_empty(), "seed {seed}, {engines:?}: {} promises broken\n{all}", broken.len());
    assert!(done >= 20, "hardly anything was done");
    members.end();
}

/// Tells threads to stop on drop.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The outcome of a schedule.
struct ScheduleResult {
    events: Vec<Event>,
    broken: Vec<String>,
    /// Writes acknowledged at `w: 1`, and those of them that are lost.
    loose: usize,
    lost: usize,
}

/// Loads the set during the schedule, heals it, and compares.
fn load(members: &Members, schedule: &Schedule, begun: Instant) -> ScheduleResult {
    members.network.enter().unwrap();
    prepare(members);
    let stop = AtomicBool::new(false);
    let client = |number| Client::new(members, number, schedule.seed, begun);
    let (events, loose) = thread::scope(|scope| {
        let all_stop = Stop(&stop);
        let stop = &stop;
        let workers: Vec<_> =
            (1..=CLIENTS).map(|number| scope.spawn(move || client(number).work(stop))).collect();
        let inserter = scope.spawn(move || client(CLIENTS + 1).insert_loosely(stop));
        scope.spawn(move || haunt(members, schedule)).join().unwrap();
        // The events after the last fault are carried out too.
        thread::sleep(Duration::from_secs(1));
        drop(all_stop);
        let events: Vec<Event> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        (events, inserter.join().unwrap())
    });
    let contents = converge(members);
    let mut broken = check(&events, &values(&contents));
    broken.extend(terms_begun_twice(members));
    let lost = gone(&loose, &contents);
    if !schedule.kills() {
        broken.extend(without_file(members, &lost));
    }
    ScheduleResult { events, broken, loose: loose.len(), lost: lost.len() }
}

/// The values of all objects in the end.
fn values(contents: &Contents) -> BTreeMap<Object, Vec<i64>> {
    let of = |name: &str, object: fn(i64) -> Object| {
        let all = contents[name].iter();
        all.map(|one| (object(one.get_i64("_id").unwrap()), values_of(one))).collect::<Vec<_>>()
    };
    let all: BTreeMap<_, _> =
        of("lists", Object::List).into_iter().chain(of("registers", Object::Register)).collect();
    assert_eq!(all.len(), usize::try_from(2 * OBJECTS).unwrap(), "{all:?}");
    all
}

/// The documents acknowledged at `w: 1` that are lost.
fn gone(acknowledged: &[i64], contents: &Contents) -> Vec<i64> {
    let there: BTreeSet<i64> = contents["loose"].iter().map(|one| one.get_i64("_id").unwrap()).collect();
    acknowledged.iter().copied().filter(|id| !there.contains(id)).collect()
}

/// Those that no member's rollback files hold, in words.
fn without_file(members: &Members, lost: &[i64]) -> Vec<String> {
    let kept: BTreeSet<String> =
        (0..3).flat_map(|place| members.rolled_back(place, "loose").into_keys()).collect();
    let missing = lost.iter().filter(|id| !kept.contains(&bson::Bson::Int64(**id).to_string()));
    missing.map(|id| format!("{id} of `loose` is gone, and in no rollback file")).collect()
}
