//! Carries a schedule out on a set, and leaves it well again.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use super::members::Members;
use super::schedule::{Fault, FaultTarget, Schedule, Step};

/// Does all that the schedule says, until the last fault has ended. One member has one fault at a time: a second one is left
/// out. Says what it does.
pub(crate) fn haunt(members: &Members, schedule: &Schedule) {
    let begun = Instant::now();
    let tell = |what: String| println!("{:6.3} s: {what}", begun.elapsed().as_secs_f64());
    let mut under_way: Vec<(usize, Step)> = Vec::new();
    let mut steps = schedule.steps.iter().copied().peekable();
    loop {
        let next_begin = steps.peek().map(|step| step.begins);
        let next_end = under_way.iter().map(|(_, step)| step.ends).min();
        let (begins, at) = match (next_begin, next_end) {
            (Some(begin), Some(end)) => (begin < end, begin.min(end)),
            (Some(begin), None) => (true, begin),
            (None, Some(end)) => (false, end),
            (None, None) => return,
        };
        thread::sleep(at.saturating_sub(begun.elapsed()));
        if begins {
            let Some(step) = steps.next() else { continue };
            let place = match step.who {
                FaultTarget::Primary => members.primary.load(Ordering::SeqCst),
                FaultTarget::Member(place) => place,
            };
            if under_way.iter().all(|(busy, _)| *busy != place) {
                // Two members that block each other's way would take the block out twice.
                let others = || under_way.iter().filter(|(_, one)| is_of_the_way(one.fault)).count();
                if is_of_the_way(step.fault) && others() > 0 {
                    continue;
                }
                begin(members, place, step.fault);
                tell(format!("{:?} member {place}", step.fault));
                under_way.push((place, step));
            }
        } else if let Some(over) = under_way.iter().position(|(_, step)| step.ends == at) {
            let (place, step) = under_way.swap_remove(over);
            end(members, place, step.fault);
            tell(format!("end of {:?} of member {place}", step.fault));
        }
    }
}

fn is_of_the_way(fault: Fault) -> bool {
    matches!(fault, Fault::Cut | Fault::Deafen)
}

/// Does it to a member.
pub(crate) fn begin(members: &Members, place: usize, fault: Fault) {
    let network = &members.network;
    match fault {
        Fault::Kill => members.kill(place),
        Fault::Pause => members.signal(place, Signal::STOP),
        Fault::Unplug => network.unplug(place).unwrap(),
        Fault::Cut => others(place).for_each(|other| {
            network.block(place, other).unwrap();
            network.block(other, place).unwrap();
        }),
        Fault::Deafen => others(place).for_each(|other| network.block(other, place).unwrap()),
    }
}

pub(crate) fn end(members: &Members, place: usize, fault: Fault) {
    let network = &members.network;
    match fault {
        Fault::Kill => members.launch(place),
        Fault::Pause => members.signal(place, Signal::CONT),
        Fault::Unplug => network.plug(place).unwrap(),
        Fault::Cut => others(place).for_each(|other| {
            network.unblock(place, other).unwrap();
            network.unblock(other, place).unwrap();
        }),
        Fault::Deafen => others(place).for_each(|other| network.unblock(other, place).unwrap()),
    }
}

fn others(place: usize) -> impl Iterator<Item = usize> {
    (0..3).filter(move |other| *other != place)
}
