//! The states of a member, with MongoDB's numbers and names (mongodb/mongo:src/mongo/db/repl/member_state.h).

/// The state that a member reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It has no configuration yet.
    Startup,
    /// Accepts writes, or is about to.
    Primary,
    /// Holds the data and follows.
    Secondary,
    /// Cannot be read from at present: in maintenance, or recovering.
    Recovering,
    /// Getting its data for the first time.
    Startup2,
    /// No heartbeat was answered yet.
    #[default]
    Unknown,
    /// Votes, and holds no data.
    Arbiter,
    /// It does not answer heartbeats.
    Down,
    /// Undoes entries that no primary of a later term has.
    Rollback,
    /// Was in the set, but no longer is.
    Removed,
}

impl MemberState {
    /// The number of this state in MongoDB.
    pub fn number(self) -> i32 {
        match self {
            MemberState::Startup => 0,
            MemberState::Primary => 1,
            MemberState::Secondary => 2,
            MemberState::Recovering => 3,
            MemberState::Startup2 => 5,
            MemberState::Unknown => 6,
            MemberState::Arbiter => 7,
            MemberState::Down => 8,
            MemberState::Rollback => 9,
            MemberState::Removed => 10,
        }
    }

    /// The state with a number, if it is one.
    pub fn from_number(number: i64) -> Option<MemberState> {
        ALL.into_iter().find(|state| i64::from(state.number()) == number)
    }

    /// The name in `stateStr`.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Startup => "STARTUP",
            MemberState::Primary => "PRIMARY",
            MemberState::Secondary => "SECONDARY",
            MemberState::Recovering => "RECOVERING",
            MemberState::Startup2 => "STARTUP2",
            MemberState::Unknown => "UNKNOWN",
            MemberState::Arbiter => "ARBITER",
            MemberState::Down => "DOWN",
            MemberState::Rollback => "ROLLBACK",
            MemberState::Removed => "REMOVED",
        }
    }

    /// Whether clients and other members may read from it.
    pub fn is_readable(self) -> bool {
        matches!(self, MemberState::Primary | MemberState::Secondary)
    }
}

const ALL: [MemberState; 10] = [
    MemberState::Startup,
    MemberState::Primary,
    MemberState::Secondary,
    MemberState::Recovering,
    MemberState::Startup2,
    MemberState::Unknown,
    MemberState::Arbiter,
    MemberState::Down,
    MemberState::Rollback,
    MemberState::Removed,
];

impl std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_states_are_one_to_one() {
        for state in ALL {
            assert_eq!(MemberState::from_number(i64::from(state.number())), Some(state));
        }
        assert_eq!(MemberState::from_number(4), None);
    }
}
