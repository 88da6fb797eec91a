//! Heartbeats in a member's recording of itself: `replSetGetStatus` shows the last one from and to each peer, sample by sample.

use std::collections::HashMap;

use fathom_record::HeartbeatTimes;

/// mongod's own bound on the members of a set.
const MAX_MEMBERS: usize = 50;
/// Periods that are read whole: five hours.
const MAX_WHOLE_PERIODS: usize = 150;
/// Of longer recordings one period of so many is read, so that weeks take a few megabytes.
const PERIODS_PER_READ: i64 = 5;

/// A figure of `replSetGetStatus`. Those of a member have its place in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeartbeatField {
    /// When the command ran.
    Date,
    IntervalMs,
    Member(usize, MemberField),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberField {
    Id,
    IsSelf,
    IsHealthy,
    Reply,
    Request,
    Applied,
}

impl HeartbeatField {
    /// The field at a path, without the role that it is recorded under.
    pub(super) fn parse(path: &str) -> Option<HeartbeatField> {
        let path = path.strip_prefix("replSetGetStatus.")?;
        match path {
            "date" => return Some(HeartbeatField::Date),
            "heartbeatIntervalMillis" => return Some(HeartbeatField::IntervalMs),
            _ => {}
        }
        let (number, field) = path.strip_prefix("members.")?.split_once('.')?;
        let field = match field {
            "_id" => MemberField::Id,
            "self" => MemberField::IsSelf,
            "health" => MemberField::IsHealthy,
            "lastHeartbeat" => MemberField::Reply,
            "lastHeartbeatRecv" => MemberField::Request,
            "lastAppliedWallTime" => MemberField::Applied,
            _ => return None,
        };
        let number = number.parse().ok().filter(|number| *number < MAX_MEMBERS)?;
        Some(HeartbeatField::Member(number, field))
    }
}

/// A member in one sample.
#[derive(Clone, Copy, Debug, Default)]
struct HeartbeatRow {
    id: Option<i64>,
    is_self: bool,
    is_unhealthy: bool,
    reply_ms: Option<i64>,
    request_ms: Option<i64>,
    applied_ms: Option<i64>,
}

/// Collects the heartbeats of one server's recording.
#[derive(Debug, Default)]
pub(super) struct HeartbeatReader {
    pub(super) times: HeartbeatTimes,
    date_ms: Option<i64>,
    rows: Vec<HeartbeatRow>,
    /// The last reply and request of each member.
    last: HashMap<i64, (Option<i64>, Option<i64>)>,
}

impl HeartbeatReader {
    /// Sets a figure of the sample that is being read.
    pub(super) fn set(&mut self, field: HeartbeatField, value: i64) {
        let (number, field) = match field {
            HeartbeatField::Date => return self.date_ms = Some(value),
            HeartbeatField::IntervalMs => return self.times.interval_ms = Some(value),
            HeartbeatField::Member(number, field) => (number, field),
        };
        if self.rows.len() <= number {
            self.rows.resize(number + 1, HeartbeatRow::default());
        }
        let Some(row) = self.rows.get_mut(number) else { return };
        // A date of 0 says that there was none yet.
        let time = Some(value).filter(|time| *time > 0);
        match field {
            MemberField::Id => row.id = Some(value),
            MemberField::IsSelf => row.is_self = value != 0,
            MemberField::IsHealthy => row.is_unhealthy = value == 0,
            MemberField::Reply => row.reply_ms = time,
            MemberField::Request => row.request_ms = time,
            MemberField::Applied => row.applied_ms = time,
        }
    }

    /// Ends a sample: its heartbeats are added unless the sample before it had them.
    pub(super) fn end_sample(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let own = rows.iter().find(|row| row.is_self);
        let (Some(date_ms), Some(own)) = (self.date_ms.take(), own) else { return };
        let Some(applied_ms) = own.applied_ms else { return };
        self.times.member = own.id;
        let period = applied_ms.div_euclid(HeartbeatTimes::PERIOD_MS);
        if self.times.periods.len() >= MAX_WHOLE_PERIODS && period % PERIODS_PER_READ != 0 {
            return;
        }
        let peers = self.times.periods.entry(period).or_default();
        for row in rows {
            let Some(id) = row.id else { continue };
            let peer = peers.entry(id).or_default();
            let last = self.last.entry(id).or_default();
            // mongod also notes the time at which a heartbeat failed.
            let reply_ms = row.reply_ms.filter(|_| !row.is_unhealthy);
            if reply_ms != last.0 {
                peer.replies_ms.extend(reply_ms);
            }
            if row.request_ms != last.1 {
                peer.requests_ms.extend(row.request_ms);
            }
            *last = (reply_ms, row.request_ms);
            let age_ms = row.applied_ms.map(|applied_ms| date_ms.saturating_sub(applied_ms));
            peer.applied_age_ms = [peer.applied_age_ms, age_ms].into_iter().flatten().min();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(reader: &mut HeartbeatReader, number: usize, values: &[(MemberField, i64)]) {
        for (field, value) in values {
            reader.set(HeartbeatField::Member(number, *field), *value);
        }
    }

    #[test]
    fn each_heartbeat_counts_once_and_those_that_failed_do_not() {
        let mut reader = HeartbeatReader::default();
        // The command runs a second after its sample began.
        for (date_ms, reply_ms, request_ms, is_healthy) in
            [(2000, 0, 900, 1), (3000, 1500, 900, 1), (4000, 1500, 2900, 1), (5000, 4900, 2900, 0)]
        {
            reader.set(HeartbeatField::Date, date_ms);
            set(
                &mut reader,
                0,
                &[(MemberField::Id, 7), (MemberField::IsSelf, 1), (MemberField::Applied, 1950)],
            );
            set(
                &mut reader,
                1,
                &[
                    (MemberField::Id, 9),
                    (MemberField::IsHealthy, is_healthy),
                    (MemberField::Reply, reply_ms),
                    (MemberField::Request, request_ms),
                ],
            );
            reader.end_sample();
        }
        let HeartbeatTimes { member, periods, .. } = reader.times;
        assert_eq!((member, periods.len()), (Some(7), 1));
        assert_eq!(periods[&0][&7].applied_age_ms, Some(50));
        let peer = &periods[&0][&9];
        assert_eq!((&peer.replies_ms[..], &peer.requests_ms[..]), (&[1500][..], &[900, 2900][..]));
    }

    #[test]
    fn weeks_keep_a_part() {
        let mut reader = HeartbeatReader::default();
        for number in 0..10_000 {
            let now_ms = number * HeartbeatTimes::PERIOD_MS;
            reader.set(HeartbeatField::Date, now_ms + 1);
            set(
                &mut reader,
                0,
                &[(MemberField::Id, 7), (MemberField::IsSelf, 1), (MemberField::Applied, now_ms)],
            );
            reader.end_sample();
        }
        assert!((2000..2300).contains(&reader.times.periods.len()), "{}", reader.times.periods.len());
    }

    #[test]
    fn other_paths_are_none_of_it() {
        for path in [
            "replSetGetStatus.members.0.uptime",
            "replSetGetStatus.members.x._id",
            "replSetGetStatus.members.4000000000._id",
            "replSetGetStatus._id",
            "serverStatus.date",
        ] {
            assert_eq!(HeartbeatField::parse(path), None, "{path}");
        }
        let parsed = HeartbeatField::parse("replSetGetStatus.members.2.lastHeartbeatRecv");
        assert_eq!(parsed, Some(HeartbeatField::Member(2, MemberField::Request)));
    }
}
