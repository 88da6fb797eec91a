//! What clients did and saw, and whether a set that keeps its promises can have given them that.
//!
//! All values that are written to an object differ. So the order in which its writes took effect can be derived from its last state: a
//! list is that order itself, and a register that is changed only from a known value leads back from its last one. With the order known,
//! what was promised is a matter of places: nothing has to be searched.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A client's knowledge of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done; a write at majority.
    Done,
    /// It was not done and never will be.
    Failed,
    /// The outcome is unknown.
    Unknown,
}

/// An object: a list or a register, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    List(i64),
    Register(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OperationKind {
    /// Adds a value to a list, or changes a register from the value that is given first.
    Write { from: i64, value: i64 },
    /// Sees the values of a list, or the value of a register; only of those that are done.
    Read { linearizable: bool, seen: Vec<i64> },
}

/// One operation of a client.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) object: Object,
    pub(crate) what: OperationKind,
    pub(crate) outcome: Outcome,
    /// The member that answered last, and which of its lives it was in.
    pub(crate) member: usize,
    pub(crate) life: u64,
    /// Since the test began.
    pub(crate) invoked: Duration,
    pub(crate) returned: Duration,
}

/// What registers begin with.
pub(crate) const NOTHING: i64 = 0;

/// All promises that were broken, in words; `last` are the values of each object in the end.
pub(crate) fn check(events: &[Event], last: &BTreeMap<Object, Vec<i64>>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut by_object: BTreeMap<Object, Vec<&Event>> = BTreeMap::new();
    for event in events {
        by_object.entry(event.object).or_default().push(event);
    }
    for (object, events) in by_object {
        let values = last.get(&object).cloned().unwrap_or_default();
        match order_of(object, &events, &values) {
            Ok(order) => {
                check_object(&events, &order, &mut |what| broken.push(format!("{object:?}: {what}")))
            }
            Err(what) => broken.push(format!("{object:?}: {what}")),
        }
    }
    broken
}

/// The values that took effect, in their order.
fn order_of(object: Object, events: &[&Event], last: &[i64]) -> Result<Vec<i64>, String> {
    if let Object::List(_) = object {
        return Ok(last.to_vec());
    }
    let came_from: HashMap<i64, i64> = events
        .iter()
        .filter_map(|event| match event.what {
            OperationKind::Write { from, value } => Some((value, from)),
            OperationKind::Read { .. } => None,
        })
        .collect();
    let mut order = Vec::new();
    let mut value = *last.first().ok_or("it is gone")?;
    while value != NOTHING {
        order.push(value);
        value = *came_from.get(&value).ok_or(format!("nobody wrote {value}"))?;
        if order.len() > came_from.len() {
            return Err("its values go round in a circle".to_owned());
        }
    }
    order.reverse();
    Ok(order)
}

/// One write in the order.
#[derive(Clone, Copy)]
struct OrderedWrite<'e> {
    place: usize,
    event: &'e Event,
}

fn check_object(events: &[&Event], order: &[i64], broken: &mut dyn FnMut(String)) {
    let mut places: HashMap<i64, usize> = HashMap::new();
    for (place, value) in order.iter().enumerate() {
        let first = *places.entry(*value).or_insert(place);
        if first != place {
            broken(format!("{value} is there twice, at {first} and {place}"));
        }
    }
    let mut writes: Vec<OrderedWrite<'_>> = Vec::new();
    for event in events {
        let OperationKind::Write { value, .. } = event.what else { continue };
        match (places.remove(&value), event.outcome) {
            (Some(_), Outcome::Failed) => broken(format!("what had failed is there: {event:?}")),
            (None, Outcome::Done) => broken(format!("LOST, though acknowledged at majority: {event:?}")),
            (Some(place), _) => writes.push(OrderedWrite { place, event }),
            (None, _) => {}
        }
    }
    for value in places.into_keys() {
        broken(format!("nobody wrote {value}"));
    }
    writes.sort_by_key(|write| write.place);
    check_order(&writes, broken);
    check_reads(events, order, &writes, broken);
}

/// A write that had ended before another one began comes before it.
fn check_order(writes: &[OrderedWrite<'_>], broken: &mut dyn FnMut(String)) {
    let mut latest: Option<OrderedWrite<'_>> = None;
    for write in writes {
        if let Some(before) = latest
            && write.event.outcome == Outcome::Done
            && write.event.returned < before.event.invoked
        {
            broken(format!("out of order: {:?} came before {:?}", before.event, write.event));
        }
        if latest.is_none_or(|latest| write.event.invoked > latest.event.invoked) {
            latest = Some(*write);
        }
    }
}

/// A read that is done: how many values it saw.
struct ReadResult<'e> {
    event: &'e Event,
    count: usize,
    linearizable: bool,
}

fn check_reads(
    events: &[&Event],
    order: &[i64],
    writes: &[OrderedWrite<'_>],
    broken: &mut dyn FnMut(String),
) {
    let mut reads = Vec::new();
    for event in events {
        let OperationKind::Read { linearizable, seen } = &event.what else { continue };
        if event.outcome != Outcome::Done {
            continue;
        }
        match count_of(event.object, seen, order) {
            Some(count) => reads.push(ReadResult { event, count, linearizable: *linearizable }),
            None => broken(format!("it showed what was rolled back: {event:?}")),
        }
    }
    for read in &reads {
        let early =
            writes.iter().find(|write| write.place < read.count && write.event.invoked > read.event.returned);
        if let Some(write) = early {
            broken(format!("{:?} was seen before it began: {:?}", write.event, read.event));
        }
        // Writes that must be in what it saw.
        let missed = writes.iter().find(|write| {
            write.place >= read.count
                && write.event.outcome == Outcome::Done
                && write.event.returned < read.event.invoked
                && (read.linearizable || write.event.member == read.event.member)
        });
        if let Some(write) = missed {
            broken(format!("STALE: {:?} had ended before {:?} began", write.event, read.event));
        }
        for later in &reads {
            let same_life = (later.event.member, later.event.life) == (read.event.member, read.event.life);
            if later.event.invoked > read.event.returned
                && later.count < read.count
                && (same_life || later.linearizable)
            {
                broken(format!("it went back: {:?}, then {:?}", read.event, later.event));
            }
        }
    }
}

/// The number of values that a read saw; `None` if it saw one that was lost.
fn count_of(object: Object, seen: &[i64], order: &[i64]) -> Option<usize> {
    match object {
        Object::List(_) => order.starts_with(seen).then_some(seen.len()),
        Object::Register(_) => match seen {
            [NOTHING] => Some(0),
            [value] => order.iter().position(|one| one == value).map(|place| place + 1),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Object = Object::List(1);
    const REGISTER: Object = Object::Register(1);

    fn event(
        object: Object,
        what: OperationKind,
        outcome: Outcome,
        member: usize,
        times: (u64, u64),
    ) -> Event {
        let time = Duration::from_millis;
        Event { object, what, outcome, member, life: 0, invoked: time(times.0), returned: time(times.1) }
    }

    fn append(value: i64, outcome: Outcome, times: (u64, u64)) -> Event {
        event(LIST, OperationKind::Write { from: NOTHING, value }, outcome, 0, times)
    }

    fn read(seen: &[i64], linearizable: bool, member: usize, times: (u64, u64)) -> Event {
        event(LIST, OperationKind::Read { linearizable, seen: seen.to_vec() }, Outcome::Done, member, times)
    }

    /// The findings, by the beginnings of their sentences.
    #[track_caller]
    fn finds(events: &[Event], last: &[i64], wanted: &[&str]) {
        let found = check(events, &BTreeMap::from([(events[0].object, last.to_vec())]));
        let matches =
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(one, wanted)| one.contains(wanted));
        assert!(matches, "{found:#?} and not {wanted:?}");
    }

    #[test]
    fn a_list_must_hold_what_was_promised_once_and_in_order() {
        let [one, two] = [append(1, Outcome::Done, (0, 10)), append(2, Outcome::Done, (20, 30))];
        finds(&[one.clone(), two.clone()], &[1, 2], &[]);
        finds(&[one.clone(), two.clone()], &[1], &["LOST"]);
        finds(&[one.clone(), two.clone()], &[2, 1], &["out of order"]);
        finds(&[one.clone(), two.clone()], &[1, 2, 1], &["there twice"]);
        finds(&[one.clone(), two], &[1, 2, 9], &["nobody wrote 9"]);
        // Overlapping operations may come in any order, and operations of unknown outcome may be there or not.
        let beside = append(3, Outcome::Unknown, (5, 6));
        finds(&[one.clone(), beside.clone()], &[3, 1], &[]);
        finds(&[one.clone(), beside], &[1], &[]);
        finds(&[one, append(4, Outcome::Failed, (0, 1))], &[1, 4], &["what had failed"]);
    }

    #[test]
    fn reads_must_not_show_what_goes_nor_miss_what_they_must_show() {
        let [one, two] = [append(1, Outcome::Done, (0, 10)), append(2, Outcome::Done, (20, 30))];
        let with = |reads: &[Event]| [&[one.clone(), two.clone()], reads].concat();
        finds(&with(&[read(&[1], false, 1, (40, 50))]), &[1, 2], &[]);
        finds(&with(&[read(&[1], false, 0, (40, 50))]), &[1, 2], &["STALE"]);
        finds(&with(&[read(&[1], true, 1, (40, 50))]), &[1, 2], &["STALE"]);
        finds(&with(&[read(&[1], true, 1, (25, 50))]), &[1, 2], &[]);
        finds(&with(&[read(&[1, 7], false, 1, (40, 50))]), &[1, 2], &["rolled back"]);
        finds(&with(&[read(&[1, 2], false, 1, (11, 12))]), &[1, 2], &["before it began"]);
        let back = [read(&[1, 2], false, 1, (25, 26)), read(&[1], false, 1, (27, 28))];
        finds(&with(&back), &[1, 2], &["it went back"]);
        let mut other_life = back.clone();
        other_life[1].life = 1;
        finds(&with(&other_life), &[1, 2], &[]);
    }

    #[test]
    fn a_register_leads_back_from_its_last_value() {
        let change = |from, value, outcome, times| {
            event(REGISTER, OperationKind::Write { from, value }, outcome, 0, times)
        };
        let [one, two] = [change(0, 5, Outcome::Done, (0, 10)), change(5, 6, Outcome::Unknown, (20, 30))];
        let seen = |value, times| {
            event(
                REGISTER,
                OperationKind::Read { linearizable: true, seen: vec![value] },
                Outcome::Done,
                1,
                times,
            )
        };
        finds(&[one.clone(), two.clone(), seen(5, (40, 50))], &[6], &[]);
        finds(&[one.clone(), two.clone(), seen(6, (40, 50)), seen(5, (60, 70))], &[6], &["it went back"]);
        finds(&[one.clone(), two.clone()], &[5], &[]);
        finds(&[one.clone(), two.clone()], &[0], &["LOST"]);
        finds(&[one.clone(), seen(0, (40, 50))], &[5], &["STALE"]);
        finds(&[one, two], &[8], &["nobody wrote 8"]);
    }
}
