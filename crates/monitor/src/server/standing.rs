//! Who counts for a majority: what the configuration of a set says of its members, as facts of the run.
//!
//! `writeConcern: majority` is fulfilled by as many members with a vote and with data as make a majority of all votes, or by all
//! of these where arbiters vote too and they are fewer (facts/server.md, 4.2).

use bson::RawDocument;
use fathom_client::Address;

use super::collection::number_at;
use super::progress::number_of;

/// `server.N.set`, `.votes`, `.majority`, `.voters` (those with data) and, of hidden members, `.hidden`, for each member that is watched.
pub(crate) fn facts(reply: &RawDocument, set: &str, watched: &[(Address, usize)]) -> Vec<(String, String)> {
    let Ok(members) = reply.get_document("config").and_then(|config| config.get_array("members")) else {
        return Vec::new();
    };
    let members: Vec<&RawDocument> =
        members.into_iter().flatten().filter_map(|one| one.as_document()).collect();
    let voters = members.iter().filter(|one| votes(one)).count();
    let with_data = voters_with_data(reply).len();
    let majority = (voters / 2 + 1).min(with_data);
    let mut facts = Vec::new();
    for member in members {
        let Some(number) = member.get_str("host").ok().and_then(|host| number_of(host, watched)) else {
            continue;
        };
        let mut fact = |name: &str, value: String| facts.push((format!("server.{number}.{name}"), value));
        fact("set", set.to_owned());
        fact("votes", u8::from(votes(member)).to_string());
        fact("majority", majority.to_string());
        fact("voters", with_data.to_string());
        if member.get_bool("hidden").unwrap_or(false) {
            fact("hidden", true.to_string());
        }
    }
    facts
}

/// The names of the members that vote and have data.
pub(crate) fn voters_with_data(reply: &RawDocument) -> Vec<String> {
    let Ok(members) = reply.get_document("config").and_then(|config| config.get_array("members")) else {
        return Vec::new();
    };
    let members = members.into_iter().flatten().filter_map(|one| one.as_document());
    members
        .filter(|one| votes(one) && !one.get_bool("arbiterOnly").unwrap_or(false))
        .filter_map(|one| Some(RawDocument::get_str(one, "host").ok()?.to_owned()))
        .collect()
}

fn votes(member: &RawDocument) -> bool {
    number_at(member, &["votes"]).unwrap_or(1.0) > 0.0
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_majority_is_of_votes_and_of_members_with_data() {
        let watched: Vec<(Address, usize)> =
            ["a:1", "b:1", "c:1"].iter().enumerate().map(|(n, a)| (a.parse().unwrap(), n)).collect();
        let majority = |reply: &RawDocument| {
            let facts = facts(reply, "rs", &watched);
            let of = |name: &str| facts.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone());
            (of("server.0.majority"), of("server.1.votes"), of("server.2.hidden"))
        };
        let one = |votes: i32| Some(votes.to_string());
        let three = rawdoc! { "config": { "members": [
            { "host": "a:1" }, { "host": "b:1", "votes": 1 }, { "host": "c:1", "votes": 0, "hidden": true },
        ] } };
        assert_eq!(majority(&three), (one(2), one(1), Some("true".to_owned())));
        // Two with data and two arbiters: three votes are a majority, but only two can have the data.
        let arbiters = rawdoc! { "config": { "members": [
            { "host": "a:1" }, { "host": "b:1" }, { "host": "d:1", "arbiterOnly": true }, { "host": "e:1", "arbiterOnly": true },
        ] } };
        assert_eq!(majority(&arbiters), (one(2), one(1), None));
        assert!(facts(&rawdoc! { "ok": 1 }, "rs", &watched).is_empty());
    }
}
