//! A server of a run: its name, its role, its part in a set, and whether clients reach it.

pub(crate) mod set;
mod voters_down;
pub(crate) mod waited;

use crate::Evidence;
use crate::client::points;

pub(crate) use voters_down::name_down_voters;
pub(crate) use waited::{name_it, split};

/// The state of a primary, as `replSetGetStatus` counts states.
pub(crate) const PRIMARY: f64 = 1.0;

/// Whether a server is a router.
pub(crate) fn is_router(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "role") == Some("router")
}

/// The routers that were watched.
pub(crate) fn routers(evidence: &Evidence) -> Vec<String> {
    evidence.members().into_iter().filter(|member| is_router(evidence, member)).collect()
}

/// Whether a server was a member of a set all the time and never its primary.
pub(crate) fn follows(evidence: &Evidence, member: &str) -> bool {
    let states = points(evidence, &format!("server.{member}.replication.state"));
    !states.is_empty() && states.iter().all(|point| point.value != PRIMARY)
}

/// Whether this member alone is a majority of its set, so that a write waits for no other.
pub(crate) fn is_alone(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "majority") == Some("1")
}

/// Whether clients send their operations to this server: behind routers only to those, in a set not to members that were
/// never asked.
pub(crate) fn meets_clients(evidence: &Evidence, member: &str) -> bool {
    let routers = routers(evidence);
    if !routers.is_empty() {
        return routers.iter().any(|router| router == member);
    }
    !follows(evidence, member) || is_read(evidence, member)
}

/// Whether clients read from a member that follows: more of the collection watched than the watching itself does, which asks for its
/// latencies each second and its sizes twice a minute.
pub(crate) fn is_read(evidence: &Evidence, member: &str) -> bool {
    const OWN_PER_S: f64 = 3.0;
    let points = points(evidence, &format!("server.{member}.collection.reads.operations"));
    let seconds: f64 = points.iter().map(|one| one.end_ns.saturating_sub(one.begin_ns) as f64 / 1e9).sum();
    points.iter().map(|point| point.value).sum::<f64>() > OWN_PER_S * seconds
}

/// A server as findings call it: its number, where it is, its engine.
pub(crate) fn name_of(evidence: &Evidence, member: &str) -> String {
    let address = evidence.environment.get(&format!("server.{member}"));
    let words: Vec<&str> =
        address.map(String::as_str).into_iter().chain(fact(evidence, member, "engine")).collect();
    if words.is_empty() {
        format!("server {member}")
    } else {
        format!("server {member} ({})", words.join(", "))
    }
}

/// A fact on a server from the environment of the run, such as `role` or `engine`.
pub(crate) fn fact<'e>(evidence: &'e Evidence, member: &str, what: &str) -> Option<&'e str> {
    evidence.environment.get(&format!("server.{member}.{what}")).map(String::as_str)
}
