//! Derives the deployment from the servers' replies: one server, a replica set with these members, or routers.
//!
//! Uses no sockets: its input is the replies, its result a deployment or one clear sentence.

use std::cmp::Ordering;

use fathom_errors::{Error, Kind, Result};

use super::description::{DeploymentKind, DeploymentServer, ElectionRank, HelloReply, Role};
use super::survey::SurveyAnswer;
use crate::{Address, Target};

/// The deployment according to the replies.
#[derive(Debug)]
pub(super) struct DeploymentTopology {
    pub(super) kind: DeploymentKind,
    pub(super) members: Vec<DeploymentServer>,
    /// The seeds that are no members, with the reason of each. A seed that answers as a member under another name is none of them.
    pub(super) strangers: Vec<DeploymentServer>,
}

impl DeploymentTopology {
    /// A deployment whose members are its seeds.
    fn from_seeds(kind: DeploymentKind, seeds: &[Address], answers: &[SurveyAnswer]) -> DeploymentTopology {
        DeploymentTopology { kind, members: members_of(seeds, answers), strangers: Vec::new() }
    }
}

/// The address of a server that answered, and its reply.
type MemberReply<'a> = (&'a Address, &'a HelloReply);

/// Derives the deployment from the `answers`; those of `seeds` decide its kind. `newest` is the rank of the newest primary seen so
/// far: an older primary is ignored.
pub(super) fn conclude(
    target: &Target,
    seeds: &[Address],
    answers: &[SurveyAnswer],
    newest: &mut Option<ElectionRank>,
) -> Result<DeploymentTopology> {
    let from_seeds = answers.iter().filter(|(address, _)| seeds.contains(address));
    let said: Vec<MemberReply<'_>> =
        from_seeds.filter_map(|(address, answer)| Some((address, answer.as_ref().ok()?))).collect();
    let Some((_, first)) = said.first() else { return Err(nobody(answers)) };
    if let Some(wanted) = &target.replica_set
        && !said.iter().any(|(_, description)| description.set.as_ref() == Some(wanted))
    {
        let what = format!("no member of the replica set '{wanted}' was found: {}", listed(answers));
        return Err(Error::new(Kind::NotFound, what).advise("check replicaSet in the connection string"));
    }
    let of_role = |role: Role| said.iter().all(|(_, description)| description.role == role);
    if of_role(Role::Router) {
        return Ok(DeploymentTopology::from_seeds(DeploymentKind::Sharded, seeds, answers));
    }
    if of_role(Role::Uninitiated) {
        let what = format!("there is no replica set yet: {}", listed(answers));
        return Err(Error::new(Kind::NotFound, what).advise("initiate it with rs.initiate()"));
    }
    if of_role(Role::Standalone) && seeds.len() == 1 {
        return Ok(DeploymentTopology::from_seeds(DeploymentKind::Standalone, seeds, answers));
    }
    let name = target.replica_set.as_ref().or(first.set.as_ref());
    let is_one_set = said.iter().all(|(_, description)| description.set.as_ref() == name);
    match name {
        Some(name) if is_one_set || target.replica_set.is_some() => {
            replica_set(target, name, seeds, answers, newest)
        }
        _ => {
            let what = format!("the servers do not belong to one deployment: {}", listed(answers));
            Err(Error::usage(what).advise("name one server, routers only, or members of one replica set"))
        }
    }
}

/// The members that the primary lists, or, without a primary, all that any member lists.
fn replica_set(
    target: &Target,
    name: &str,
    seeds: &[Address],
    answers: &[SurveyAnswer],
    newest: &mut Option<ElectionRank>,
) -> Result<DeploymentTopology> {
    let kind = DeploymentKind::ReplicaSet { name: name.to_owned() };
    if target.direct_connection {
        return Ok(DeploymentTopology::from_seeds(kind, seeds, answers));
    }
    let ours = answers.iter().filter_map(|(address, answer)| {
        let description = answer.as_ref().ok()?;
        (description.set.as_deref() == Some(name)).then_some((address, description))
    });
    let ours: Vec<MemberReply<'_>> = ours.collect();
    let primary = newest_primary(&ours, newest);
    let mut listed: Vec<Address> = match primary {
        Some((_, primary)) => primary.members.clone(),
        None => ours.iter().flat_map(|(_, description)| description.members.clone()).collect(),
    };
    if listed.is_empty() {
        // A member that was removed, or has not read its configuration yet.
        listed.extend(ours.iter().map(|(address, _)| (*address).clone()));
    }
    listed.sort();
    listed.dedup();
    let mut members = members_of(&listed, answers);
    for (member, answer) in members.iter_mut().filter_map(|member| {
        let found = answers.iter().find(|(address, _)| *address == member.address)?;
        Some((member, found.1.as_ref().ok()?))
    }) {
        judge(member, answer, name, primary);
    }
    if members.iter().all(|member| member.role == Role::Unknown) {
        return Err(out_of_reach(name, &ours, answers, &listed));
    }
    let is_ours = |seed: &&Address| ours.iter().any(|(address, _)| address == seed);
    let others: Vec<Address> =
        seeds.iter().filter(|seed| !listed.contains(seed) && !is_ours(seed)).cloned().collect();
    let mut strangers = members_of(&others, answers);
    for stranger in &mut strangers {
        stranger.fault.get_or_insert_with(|| not_of(name));
    }
    Ok(DeploymentTopology { kind, members, strangers })
}

/// Overrides the claims of a member of another set, or of a deposed primary.
fn judge(member: &mut DeploymentServer, answer: &HelloReply, name: &str, primary: Option<MemberReply<'_>>) {
    if answer.set.as_deref() != Some(name) {
        member.role = Role::Other;
        member.fault = Some(not_of(name));
    } else if answer.role == Role::Primary
        && primary.is_none_or(|(_, newer)| newer.rank.compare(&answer.rank) != Ordering::Equal)
    {
        member.role = Role::Other;
        member.fault = Some("it takes itself for the primary, and a newer one was elected".to_owned());
    }
}

fn not_of(name: &str) -> String {
    format!("it does not belong to the replica set '{name}'")
}

/// The primary that was elected last, unless it is older than one seen before.
fn newest_primary<'a>(
    ours: &[MemberReply<'a>],
    newest: &mut Option<ElectionRank>,
) -> Option<MemberReply<'a>> {
    let primaries = ours.iter().filter(|(_, description)| description.role == Role::Primary);
    let primary = primaries
        .copied()
        .reduce(|best, one| if one.1.rank.compare(&best.1.rank) == Ordering::Greater { one } else { best })?;
    let is_old = newest.is_some_and(|newest| primary.1.rank.compare(&newest) == Ordering::Less);
    if is_old {
        return None;
    }
    *newest = Some(primary.1.rank);
    Some(primary)
}

fn members_of(addresses: &[Address], answers: &[SurveyAnswer]) -> Vec<DeploymentServer> {
    let member =
        |address: &Address| {
            let answer = answers.iter().find(|(from, _)| from == address).map(|(_, answer)| answer);
            match answer {
                Some(Ok(description)) => DeploymentServer {
                    address: address.clone(),
                    role: description.role,
                    tags: description.tags.clone(),
                    round_trip: Some(description.round_trip),
                    fault: None,
                    is_resolvable: true,
                },
                other => DeploymentServer {
                    address: address.clone(),
                    role: Role::Unknown,
                    tags: Vec::new(),
                    round_trip: None,
                    fault: Some(other.map_or_else(
                        || "it was not asked".to_owned(),
                        |answer| reason(answer.as_ref().err()),
                    )),
                    is_resolvable: !other.is_some_and(is_unresolvable),
                },
            }
        };
    addresses.iter().map(member).collect()
}

/// The error when seeds answer, but no member does under its name in the set.
fn out_of_reach(name: &str, ours: &[MemberReply<'_>], answers: &[SurveyAnswer], listed: &[Address]) -> Error {
    let who = ours.iter().map(|(address, _)| address.to_string()).collect::<Vec<_>>().join(", ");
    let silent: Vec<String> = answers
        .iter()
        .filter(|(address, _)| listed.contains(address))
        .map(|(_, answer)| reason(answer.as_ref().err()))
        .collect();
    let what = format!(
        "{who} answered for the replica set '{name}', whose members cannot be reached by the names they have in it: {}",
        silent.join("; ")
    );
    Error::new(Kind::NotFound, what)
        .advise("make the names known to this machine, or name one member and add directConnection=true")
}

fn nobody(answers: &[SurveyAnswer]) -> Error {
    let mut reasons: Vec<String> = answers.iter().map(|(_, answer)| reason(answer.as_ref().err())).collect();
    // A reason that all of them share is given once.
    reasons.dedup();
    let kind = answers.iter().find_map(|(_, answer)| Some(answer.as_ref().err()?.kind()));
    let advice = answers.iter().find_map(|(_, answer)| answer.as_ref().err()?.advice());
    let what = match reasons.as_slice() {
        [] => "the target names no server".to_owned(),
        [one] => one.clone(),
        several => format!("none of the servers can be used: {}", several.join("; ")),
    };
    let id = answers.iter().find_map(|(_, answer)| Some(answer.as_ref().err()?.id()));
    let kind = kind.unwrap_or(Kind::Usage);
    let error = Error::new(kind, what);
    let error = match id.filter(|id| *id != kind.id()) {
        Some(id) => error.with_id(id),
        None => error,
    };
    match advice {
        Some(advice) => error.advise(advice),
        None => error,
    }
}

/// Each server with its kind, or the reason why that is unknown.
fn listed(answers: &[SurveyAnswer]) -> String {
    let one = |(address, answer): &SurveyAnswer| match answer {
        Ok(description) => match &description.set {
            Some(set) => format!("{address} belongs to the replica set '{set}'"),
            None => format!("{address} is {}", description.role.name()),
        },
        Err(error) => reason(Some(error)),
    };
    answers.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// An error without its advice, which would not fit in the middle of a sentence.
fn reason(error: Option<&Error>) -> String {
    let Some(error) = error else { return String::new() };
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.what()),
        None => error.what().to_owned(),
    }
}

fn is_unresolvable(answer: &Result<HelloReply>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == Kind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    const SET: &str = "rs";

    fn address(host: &str) -> Address {
        Address::new(host, 1)
    }

    /// A hello of a member of the set of a, b and c.
    fn member(primary: bool, set_version: i32) -> RawDocumentBuf {
        rawdoc! {
            "isWritablePrimary": primary, "secondary": !primary, "setName": SET, "setVersion": set_version,
            "hosts": ["a:1", "b:1"], "arbiters": ["c:1"],
        }
    }

    fn standalone() -> RawDocumentBuf {
        rawdoc! { "isWritablePrimary": true }
    }

    fn router() -> RawDocumentBuf {
        rawdoc! { "isWritablePrimary": true, "msg": "isdbgrid" }
    }

    fn answer(host: &str, hello: Option<RawDocumentBuf>) -> SurveyAnswer {
        let silent = || Error::new(Kind::Io, format!("cannot connect to {host}:1")).advise("try");
        let read = |hello: RawDocumentBuf| HelloReply::from_hello(&hello, Duration::from_millis(1));
        (address(host), hello.map_or_else(|| Err(silent()), read))
    }

    fn concluded(uri: &str, answers: &[SurveyAnswer]) -> Result<DeploymentTopology> {
        let target: Target = uri.parse()?;
        conclude(&target, &target.addresses, answers, &mut None)
    }

    fn refused(uri: &str, answers: &[SurveyAnswer]) -> String {
        concluded(uri, answers).unwrap_err().to_string()
    }

    fn roles(topology: &DeploymentTopology) -> Vec<(&str, Role)> {
        topology.members.iter().map(|member| (member.address.host.as_str(), member.role)).collect()
    }

    #[test]
    fn one_server_or_routers() {
        let one = concluded("mongodb://a:1", &[answer("a", Some(standalone()))]).unwrap();
        assert_eq!((&one.kind, roles(&one)), (&DeploymentKind::Standalone, vec![("a", Role::Standalone)]));
        let answers = [answer("a", Some(router())), answer("b", None), answer("c", Some(router()))];
        let routers = concluded("mongodb://a:1,b:1,c:1", &answers).unwrap();
        assert_eq!(routers.kind, DeploymentKind::Sharded);
        assert_eq!(roles(&routers), [("a", Role::Router), ("b", Role::Unknown), ("c", Role::Router)]);
    }

    #[test]
    fn a_set_is_what_its_primary_lists() {
        let answers = [
            answer("seed", Some(member(false, 1))),
            answer("a", Some(member(false, 1))),
            answer("b", Some(member(true, 1))),
            answer("c", None),
        ];
        let set = concluded("mongodb://seed:1", &answers).unwrap();
        assert_eq!(set.kind, DeploymentKind::ReplicaSet { name: SET.to_owned() });
        assert_eq!(roles(&set), [("a", Role::Secondary), ("b", Role::Primary), ("c", Role::Unknown)]);
        assert!(set.members[2].fault.as_ref().unwrap().contains("cannot connect to c:1"));
        let direct = concluded("mongodb://a:1/?directConnection=true", &answers[1..2]).unwrap();
        assert_eq!(roles(&direct), [("a", Role::Secondary)]);
    }

    #[test]
    fn of_two_primaries_the_newer_is_believed() {
        let answers = [answer("a", Some(member(true, 7))), answer("b", Some(member(true, 8)))];
        let target: Target = "mongodb://a:1,b:1/?replicaSet=rs".parse().unwrap();
        let mut newest = None;
        let set = conclude(&target, &target.addresses, &answers, &mut newest).unwrap();
        assert_eq!(roles(&set)[..2], [("a", Role::Other), ("b", Role::Primary)]);
        // Later the newer primary is down, and the old one still claims to be primary.
        let answers = [answer("a", Some(member(true, 7))), answer("b", None)];
        let set = conclude(&target, &target.addresses, &answers, &mut newest).unwrap();
        assert_eq!(roles(&set)[..2], [("a", Role::Other), ("b", Role::Unknown)]);
        let answers = [answer("a", Some(member(true, 9))), answer("b", None)];
        let set = conclude(&target, &target.addresses, &answers, &mut newest).unwrap();
        assert_eq!(roles(&set)[0], ("a", Role::Primary));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let (plain, silent) = (|host| answer(host, Some(standalone())), |host| answer(host, None));
        let of_set = |host| answer(host, Some(member(true, 1)));
        let other_set =
            || answer("a", Some(rawdoc! { "setName": "other", "secondary": true, "hosts": ["a:1"] }));
        let fresh = || answer("a", Some(rawdoc! { "isreplicaset": true }));
        for (uri, answers, expected) in [
            ("mongodb://a:1", vec![silent("a")], "cannot connect to a:1; try"),
            (
                "mongodb://a:1,b:1",
                vec![silent("a"), silent("b")],
                "none of the servers can be used: cannot connect to a:1; cannot connect to b:1; try",
            ),
            (
                "mongodb://a:1/?replicaSet=rs",
                vec![plain("a")],
                "'rs' was found: a:1 is a standalone server; check",
            ),
            ("mongodb://a:1/?replicaSet=rs", vec![other_set()], "a:1 belongs to the replica set 'other'"),
            ("mongodb://a:1/?replicaSet=rs", vec![answer("a", Some(router()))], "a:1 is a mongos"),
            ("mongodb://a:1,b:1", vec![plain("a"), plain("b")], "do not belong to one deployment"),
            ("mongodb://a:1,b:1", vec![plain("a"), of_set("b")], "a:1 is a standalone server; b:1 belongs"),
            ("mongodb://a:1,b:1", vec![other_set(), of_set("b")], "do not belong to one deployment"),
            ("mongodb://a:1", vec![fresh()], "rs.initiate()"),
            (
                "mongodb://seed:1",
                vec![of_set("seed"), silent("a"), silent("b"), silent("c")],
                "seed:1 answered for the replica set 'rs', whose members cannot be reached",
            ),
        ] {
            let error = refused(uri, &answers);
            assert!(error.contains(expected), "{uri}: {error}");
        }
    }
}
