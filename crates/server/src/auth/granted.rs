//! What a connection may do: the privileges of its users, worked out when a user changes and not for each command.

use super::privilege::{Place, Privilege};
use super::rights::Rights;
use super::users::Users;
use crate::client::Client;

/// The privileges of a connection's users.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Of the users that this was worked out from; 0 when it has to be done.
    generation: u64,
    known: bool,
    privileges: Vec<Privilege>,
}

impl Granted {
    /// Works it out anew if a user has changed since; users that are gone are logged out.
    pub(super) fn refresh(&mut self, users: &Users, client: &Client) {
        let generation = users.generation();
        if self.generation == generation {
            return;
        }
        let mut here = client.users();
        let before = here.len();
        here.retain(|(name, database)| users.get(database, name).is_some());
        self.privileges = here
            .iter()
            .filter_map(|(name, database)| users.get(database, name))
            .flat_map(|user| user.roles.iter().flat_map(|role| role.privileges()).collect::<Vec<_>>())
            .collect();
        self.known = !here.is_empty();
        if here.len() != before {
            client.keep_users(here);
        }
        self.generation = generation;
    }

    /// Has it worked out anew before the next command.
    pub(crate) fn forget(&mut self) {
        self.generation = 0;
    }

    /// Whether anybody has logged in.
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether it includes any of `rights` at `place`.
    pub(super) fn allows(&self, rights: Rights, place: Place<'_>) -> bool {
        self.privileges.iter().any(|privilege| privilege.allows(rights, place))
    }
}
