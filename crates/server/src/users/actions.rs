//! Table: MongoDB's actions, which roles grant and commands require.
//!
//! They are those of the built-in roles of MongoDB 4.4, the version that this server claims, under their own names: `rolesInfo` shows them.

use std::ops::BitOr;

macro_rules! actions {
    ($($name:ident)*) => {
        /// One of MongoDB's actions.
        #[allow(non_camel_case_types, reason = "they are MongoDB's names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Action { $($name),* }

        /// The names of the actions, in their order.
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

actions! {
    addShard appendOplogNote applicationMessage authSchemaUpgrade bypassDocumentValidation changeCustomData changePassword
    changeStream checkFreeMonitoringStatus cleanupOrphaned clearJumboFlag collMod collStats compact connPoolStats connPoolSync
    convertToCapped createCollection createIndex createRole createUser dbHash dbStats dropCollection dropConnections dropDatabase
    dropIndex dropRole dropUser emptycapped enableProfiler enableSharding find flushRouterConfig forceUUID fsync getCmdLineOpts
    getDatabaseVersion getDefaultRWConcern getLog getParameter getShardMap getShardVersion grantRole hostInfo indexStats inprog
    insert internal invalidateUserCache killAnyCursor killAnySession killCursors killop listCachedAndActiveUsers listCollections
    listDatabases listIndexes listSessions listShards logRotate moveChunk netstat planCacheIndexFilter planCacheRead
    planCacheWrite reIndex refineCollectionShardKey remove removeShard renameCollectionSameDB replSetConfigure replSetGetConfig
    replSetGetStatus replSetResizeOplog replSetStateChange resync revokeRole serverStatus setAuthenticationRestriction
    setDefaultRWConcern setFeatureCompatibilityVersion setFreeMonitoring setParameter shardingState shutdown splitChunk
    splitVector storageDetails top touch trafficRecord unlock update useUUID validate viewRole viewUser
}

/// The set of the named actions.
macro_rules! set {
    ($($name:ident)*) => {
        $crate::users::ActionSet::of(&[$($crate::users::Action::$name),*])
    };
}

pub(crate) use set;

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActionSet(u128);

impl ActionSet {
    /// All actions, which only `__system` has.
    pub(crate) const ALL: ActionSet = ActionSet(u128::MAX);

    pub(crate) const fn of(mut actions: &[Action]) -> ActionSet {
        let mut bits: u128 = 0;
        while let [first, rest @ ..] = actions {
            bits |= 1_u128 << (*first as u32);
            actions = rest;
        }
        ActionSet(bits)
    }

    /// The actions that are in either set.
    pub(crate) const fn with(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 | other.0)
    }

    /// The actions that are not in `other`.
    pub(crate) fn without(self, other: ActionSet) -> ActionSet {
        ActionSet(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names in alphabetical order; the one name `anyAction` for all of them, as in mongod.
    pub(crate) fn names(self) -> Vec<&'static str> {
        if self == ActionSet::ALL {
            return vec!["anyAction"];
        }
        let mut names: Vec<&'static str> =
            (0..).zip(NAMES).filter(|(bit, _)| (self.0 >> bit) & 1 == 1).map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
    }
}

impl BitOr for ActionSet {
    type Output = ActionSet;

    fn bitor(self, other: ActionSet) -> ActionSet {
        self.with(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_named_by_its_actions_in_order() {
        let both = set![validate find] | set![addShard];
        assert_eq!(both.names(), ["addShard", "find", "validate"]);
        assert_eq!(both.without(set![find addShard]), set![validate]);
        assert!(both.without(both).is_empty() && ActionSet::default().names().is_empty());
        assert_eq!(ActionSet::ALL.names(), ["anyAction"]);
        assert!(NAMES.len() <= 128);
    }
}
