//! Logical sessions and the times of their last use. Sessions group cursors and operations so that these can be ended together.
//!
//! This server has no transactions, and the oplog records the results of retryable writes (`replication`), so a session holds no state of its own. A
//! session unused for 30 minutes is removed. Each connection reports a session to the table at most once a minute, which keeps the table off the hot
//! path.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::Result;
use crate::parse;

/// `logicalSessionTimeoutMinutes`, as hello reports it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The interval at which the table removes expired sessions, while new ones arrive.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// The default of mongod's `maxSessions`.
const MAX_SESSIONS: usize = 1_000_000;
const SHARDS: usize = 16;

/// The UUID of a session.
pub(crate) type SessionId = [u8; 16];

/// The owner of a session: the SHA-256 of `user@database`, or of an empty text without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionOwner([u8; 32]);

impl SessionOwner {
    /// The sessions of a user.
    pub(crate) fn new(name: &str, database: &str) -> SessionOwner {
        SessionOwner(Sha256::digest(format!("{name}@{database}")).into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Default for SessionOwner {
    fn default() -> Self {
        SessionOwner(Sha256::digest([]).into())
    }
}

/// A session's key: two users may each have a session with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) id: SessionId,
    pub(crate) owner: SessionOwner,
}

/// The recently used sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    shards: [Mutex<SessionShard>; SHARDS],
}

#[derive(Debug, Default)]
struct SessionShard {
    used: HashMap<SessionKey, Instant>,
    swept: Option<Instant>,
}

impl Sessions {
    /// Records that a session is being used.
    pub(crate) fn note(&self, key: SessionKey, now: Instant) -> Result<()> {
        let mut shard = self.shard(&key);
        if let Some(used) = shard.used.get_mut(&key) {
            *used = now;
            return Ok(());
        }
        if shard.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_INTERVAL) {
            shard.used.retain(|_, used| is_alive(*used, now));
            shard.swept = Some(now);
        }
        if shard.used.len() >= MAX_SESSIONS / SHARDS {
            let what =
                "Unable to add session into the cache because the number of active sessions is too high";
            return Err(Failure::new(Code::TooManyLogicalSessions, what));
        }
        shard.used.insert(key, now);
        Ok(())
    }

    /// Removes all sessions that `ended` selects, and returns them.
    pub(crate) fn end_all(&self, ended: &dyn Fn(&SessionKey) -> bool) -> Vec<SessionKey> {
        let mut gone = Vec::new();
        for shard in &self.shards {
            shard.lock().used.retain(|key, _| {
                let over = ended(key);
                if over {
                    gone.push(*key);
                }
                !over
            });
        }
        gone
    }

    /// All sessions that have not expired, with the time of each one's last use.
    pub(crate) fn all(&self, now: Instant) -> Vec<(SessionKey, Instant)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            all.extend(
                shard.used.iter().filter(|(_, used)| is_alive(**used, now)).map(|(key, at)| (*key, *at)),
            );
        }
        all
    }

    /// The number of sessions that have not expired, for `logicalSessionRecordCache.activeSessionsCount`.
    pub(crate) fn count(&self, now: Instant) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().used.values().filter(|used| is_alive(**used, now)).count())
            .sum()
    }

    fn shard(&self, key: &SessionKey) -> parking_lot::MutexGuard<'_, SessionShard> {
        let [first, ..] = key.id;
        // The remainder is always a valid index; the first shard covers the impossible case.
        let [zeroth, ..] = &self.shards;
        self.shards.get(usize::from(first) % SHARDS).unwrap_or(zeroth).lock()
    }
}

fn is_alive(used: Instant, now: Instant) -> bool {
    now.saturating_duration_since(used) < TIMEOUT
}

/// Reads `{id: UUID}`, the form of `lsid` and of what session commands list; `name` is what errors call it.
pub(crate) fn read_id(name: &str, value: RawBsonRef<'_>) -> Result<SessionId> {
    match value {
        RawBsonRef::Document(session) => Ok(read_parts(name, session, false)?.0),
        other => Err(parse::wrong_type(name, other, "object")),
    }
}

/// Reads `{id: UUID, uid: digest}`, a session as `$currentOp` shows it. Its owner is any user if `uid` is missing.
pub(crate) fn read_shown(name: &str, value: RawBsonRef<'_>) -> Result<(SessionId, Option<SessionOwner>)> {
    match value {
        RawBsonRef::Document(session) => read_parts(name, session, true),
        other => Err(parse::wrong_type(name, other, "object")),
    }
}

/// The owner with the digest in `uid`.
pub(crate) fn read_owner(bytes: &[u8]) -> Result<SessionOwner> {
    let digest = bytes
        .try_into()
        .map_err(|_| Failure::new(Code::UnsupportedFormat, "uid must be the 32 bytes of a SHA-256 digest"))?;
    Ok(SessionOwner(digest))
}

fn read_parts(
    name: &str,
    session: &RawDocument,
    may_have_owner: bool,
) -> Result<(SessionId, Option<SessionOwner>)> {
    let mut id = None;
    let mut owner = None;
    for element in session {
        let (field, value) = element.map_err(|error| parse::malformed(&error))?;
        match (field.as_str(), value) {
            ("id", RawBsonRef::Binary(binary)) if binary.subtype == BinarySubtype::Uuid => {
                let bytes = binary.bytes.try_into().map_err(|_| {
                    Failure::new(
                        Code::InvalidUUID,
                        "uuid must be a 16-byte binary field with UUID (4) subtype",
                    )
                })?;
                id = Some(bytes);
            }
            ("id", RawBsonRef::Binary(_)) => {
                let what = format!(
                    "BSON field '{name}.id' is the wrong binData type 'general', expected type 'UUID'"
                );
                return Err(Failure::new(Code::TypeMismatch, what));
            }
            ("id", other) => return Err(parse::wrong_type(&format!("{name}.id"), other, "binData")),
            ("uid", RawBsonRef::Binary(digest)) if may_have_owner => owner = Some(read_owner(digest.bytes)?),
            ("uid", _) => {
                let what = "Unauthorized to set user digest in LogicalSessionId";
                return Err(Failure::new(Code::Unauthorized, what));
            }
            (other, _) => return Err(parse::unknown_field(name, other)),
        }
    }
    let id = id.ok_or_else(|| parse::missing(&format!("{name}.id")))?;
    Ok((id, owner))
}

#[cfg(test)]
mod tests {
    use bson::{Binary, rawdoc};

    use super::*;

    fn key(number: u8) -> SessionKey {
        SessionKey { id: [number; 16], owner: SessionOwner::default() }
    }

    #[test]
    fn sessions_come_go_and_time_out() {
        let sessions = Sessions::default();
        let start = Instant::now();
        for number in 0..40 {
            sessions.note(key(number), start).unwrap();
        }
        sessions.note(key(3), start + TIMEOUT / 2).unwrap();
        assert_eq!(sessions.count(start), 40);
        assert!(
            sessions.end_all(&|one| *one == key(1)).len() == 1
                && sessions.end_all(&|one| *one == key(1)).is_empty()
        );
        assert_eq!(sessions.all(start + TIMEOUT).len(), 1);
        // A new session makes its shard remove expired ones: 3, 19 and 35 share a shard.
        sessions.note(key(51), start + TIMEOUT).unwrap();
        assert_eq!(sessions.shard(&key(3)).used.len(), 2);
        let gone = sessions.end_all(&|one| one.id[0] >= 3);
        assert!(gone.contains(&key(51)) && gone.contains(&key(3)));
        assert_eq!(sessions.count(start), 2);
    }

    #[test]
    fn a_session_is_a_uuid_and_nothing_else() {
        let binary = |subtype, length: usize| Binary { subtype, bytes: vec![1; length] };
        let read = |document: bson::RawDocumentBuf| read_id("lsid", RawBsonRef::Document(&document));
        assert_eq!(read(rawdoc! { "id": binary(BinarySubtype::Uuid, 16) }).unwrap(), [1; 16]);
        let code = |document| read(document).unwrap_err().code();
        assert_eq!(code(rawdoc! { "id": binary(BinarySubtype::Uuid, 5) }), Code::InvalidUUID);
        assert_eq!(code(rawdoc! { "id": binary(BinarySubtype::Generic, 16) }), Code::TypeMismatch);
        assert_eq!(code(rawdoc! { "id": 1 }), Code::TypeMismatch);
        assert_eq!(code(rawdoc! {}), Code(40414));
        assert_eq!(code(rawdoc! { "x": 1 }), Code(40415));
        assert_eq!(read_id("lsid", RawBsonRef::Int32(1)).unwrap_err().code(), Code::TypeMismatch);
        // As `$currentOp` shows it, with its owner: only commands that end sessions of any user take that.
        let shown =
            rawdoc! { "id": binary(BinarySubtype::Uuid, 16), "uid": binary(BinarySubtype::Generic, 32) };
        let (id, owner) = read_shown("lsid", RawBsonRef::Document(&shown)).unwrap();
        assert_eq!((id, owner.unwrap().bytes()), ([1; 16], &[1; 32]));
        assert_eq!(read(shown).unwrap_err().code(), Code::Unauthorized);
    }

    #[test]
    fn owners_are_told_apart() {
        assert_ne!(SessionOwner::new("a", "b"), SessionOwner::new("a", "c"));
        assert_eq!(SessionOwner::default().bytes()[..2], [0xe3, 0xb0]);
    }
}
