//! The locks of operations by resource and mode, under mongod's names.

/// A resource, and the mode in which an operation locks it. An operation on documents locks the whole server and its collection in
/// intent; a change of the schema locks its collection exclusively. This server has no locks of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    GlobalRead,
    GlobalWrite,
    CollectionRead,
    CollectionWrite,
    CollectionExclusive,
}

impl LockKind {
    /// All kinds, resources from the outermost on and the strongest mode of each last.
    pub(crate) const ALL: [LockKind; 5] = [
        LockKind::GlobalRead,
        LockKind::GlobalWrite,
        LockKind::CollectionRead,
        LockKind::CollectionWrite,
        LockKind::CollectionExclusive,
    ];

    /// The resources from the outermost on.
    pub(crate) const RESOURCES: [&'static str; 2] = ["Global", "Collection"];

    /// Its resource as mongod names it.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            LockKind::GlobalRead | LockKind::GlobalWrite => "Global",
            LockKind::CollectionRead | LockKind::CollectionWrite | LockKind::CollectionExclusive => {
                "Collection"
            }
        }
    }

    /// Its mode as mongod names it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            LockKind::GlobalRead | LockKind::CollectionRead => "r",
            LockKind::GlobalWrite | LockKind::CollectionWrite => "w",
            LockKind::CollectionExclusive => "W",
        }
    }
}

/// A value for each kind of lock.
#[derive(Debug, Default)]
pub(crate) struct LockKindMap<T> {
    global_read: T,
    global_write: T,
    collection_read: T,
    collection_write: T,
    collection_exclusive: T,
}

impl<T> LockKindMap<T> {
    /// The value of a kind.
    pub(crate) fn of(&self, kind: LockKind) -> &T {
        match kind {
            LockKind::GlobalRead => &self.global_read,
            LockKind::GlobalWrite => &self.global_write,
            LockKind::CollectionRead => &self.collection_read,
            LockKind::CollectionWrite => &self.collection_write,
            LockKind::CollectionExclusive => &self.collection_exclusive,
        }
    }

    /// All values with their kinds, in the order of [`LockKind::ALL`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LockKind, &T)> {
        LockKind::ALL.into_iter().map(|kind| (kind, self.of(kind)))
    }
}
