//! The sampler of a replica set: the state of every member and how far it is behind, as one member sees it.

use bson::{RawBsonRef, RawDocument, rawdoc};
use fathom_client::Address;
use fathom_errors::Result;

use super::collection::number_at;
use super::deployment::Watched;
use super::link::{Link, Refusal};
use super::notes::Notes;
use crate::{Batch, Sampler};

/// The state that replSetGetStatus gives the primary.
const PRIMARY: f64 = 1.0;

/// The sampler of one set.
#[derive(Debug)]
pub(crate) struct Replication {
    set: String,
    members: Vec<(Address, usize)>,
    links: Vec<Link>,
    /// The link that is asked; the next when it fails.
    at: usize,
    notes: Notes,
}

/// What the reply says of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen<'r> {
    name: &'r str,
    state: f64,
    /// When its last operation was applied, milliseconds since 1970.
    applied_ms: Option<i64>,
    /// Whether `applied_ms` is no finer than a second.
    is_coarse: bool,
}

impl Replication {
    /// A sampler of the set that all of `members` belong to, the primary first.
    pub(crate) fn new(set: &str, members: &[&Watched]) -> Replication {
        Replication {
            set: set.to_owned(),
            members: members.iter().map(|member| (member.address.clone(), member.number)).collect(),
            links: members
                .iter()
                .map(|member| Link::new(member.number, member.address.clone(), &member.target))
                .collect(),
            at: 0,
            notes: Notes::default(),
        }
    }
}

impl Sampler for Replication {
    fn name(&self) -> String {
        format!("replication.{}", self.set)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let Replication { links, members, at, notes, set } = self;
        let begin_ns = batch.clock.now_ns();
        let count = links.len().max(1);
        let Some(link) = links.get_mut(*at % count) else { return Ok(()) };
        match link.ask("admin", &rawdoc! { "replSetGetStatus": 1 }) {
            Ok(reply) => {
                let window = (begin_ns, batch.clock.now_ns());
                report(reply, members, window, batch);
            }
            // The samplers of the servers say who does not answer.
            Err(Refusal::Lost(_)) => *at = (*at + 1) % count,
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::Denied => {
                        "the user may not run replSetGetStatus (the role clusterMonitor is enough)"
                    }
                    _ => "no member tells",
                };
                notes.say(batch, format!(
                    "the state of the replica set '{set}' is not known ({reason}): lag and elections are not found as causes"
                ));
            }
        }
        if let Some(link) = links.get_mut(*at % count) {
            link.account(batch);
        }
        Ok(())
    }
}

fn report(reply: &RawDocument, members: &[(Address, usize)], window: (u64, u64), batch: &mut Batch) {
    let seen: Vec<Seen<'_>> = seen(reply);
    let primary = seen.iter().find(|member| member.state == PRIMARY);
    for member in &seen {
        let Ok(address) = member.name.parse::<Address>() else { continue };
        let is_it = |(known, _): &&(Address, usize)| {
            known.port == address.port && known.host.eq_ignore_ascii_case(&address.host)
        };
        let Some((_, number)) = members.iter().find(is_it) else { continue };
        batch.put(format!("server.{number}.replication.state"), "1", window, member.state);
        let lag = primary.and_then(|primary| {
            // Two times of unlike fineness must not be compared.
            let comparable = primary.is_coarse == member.is_coarse;
            Some(primary.applied_ms?.saturating_sub(member.applied_ms?)).filter(|_| comparable)
        });
        if let Some(lag_ms) = lag {
            #[expect(clippy::cast_precision_loss, reason = "a lag is small")]
            let lag_ms = lag_ms.max(0) as f64;
            batch.put(format!("server.{number}.replication.lag_ms"), "ms", window, lag_ms);
        }
    }
}

/// `lastAppliedWallTime` is exact to the millisecond and came with 5.0; `optimeDate` is the second of the operation's time.
fn seen(reply: &RawDocument) -> Vec<Seen<'_>> {
    let Ok(members) = reply.get_array("members") else { return Vec::new() };
    let documents = members.into_iter().flatten().filter_map(|value| value.as_document());
    let read = |member| {
        let exact = date(member, "lastAppliedWallTime");
        Some(Seen {
            name: RawDocument::get_str(member, "name").ok()?,
            state: number_at(member, &["state"])?,
            applied_ms: exact.or_else(|| date(member, "optimeDate")),
            is_coarse: exact.is_none(),
        })
    };
    documents.filter_map(read).collect()
}

fn date(document: &RawDocument, field: &str) -> Option<i64> {
    match document.get(field) {
        // A member that applied nothing yet has the beginning of 1970.
        Ok(Some(RawBsonRef::DateTime(date))) => Some(date.timestamp_millis()).filter(|ms| *ms > 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bson::DateTime;

    use super::*;
    use crate::Clock;

    #[test]
    fn lag_is_how_far_a_member_is_behind_the_primary() {
        let at = DateTime::from_millis;
        let reply = rawdoc! { "set": "rs0", "myState": 1, "members": [
            { "name": "A:1", "state": 1, "optimeDate": at(9_000), "lastAppliedWallTime": at(9_900) },
            { "name": "b:1", "state": 2, "optimeDate": at(8_000), "lastAppliedWallTime": at(8_250) },
            { "name": "c:1", "state": 2, "optimeDate": at(9_000) },
            { "name": "d:1", "state": 8, "optimeDate": at(0) },
            { "name": "hidden:1", "state": 2, "optimeDate": at(1_000) },
            { "name": "[", "state": 2 },
        ] };
        let members: Vec<(Address, usize)> =
            ["a:1", "b:1", "c:1", "d:1"].iter().enumerate().map(|(n, a)| (a.parse().unwrap(), n)).collect();
        let mut batch = Batch::new(Clock::since(Instant::now()));
        report(&reply, &members, (1, 2), &mut batch);
        let told: Vec<(&str, f64)> = batch.readings.iter().map(|r| (r.name.as_str(), r.value)).collect();
        let expected = [
            ("server.0.replication.state", 1.0),
            ("server.0.replication.lag_ms", 0.0),
            ("server.1.replication.state", 2.0),
            ("server.1.replication.lag_ms", 1650.0),
            ("server.2.replication.state", 2.0),
            ("server.3.replication.state", 8.0),
        ];
        assert_eq!(told, expected);
    }
}
