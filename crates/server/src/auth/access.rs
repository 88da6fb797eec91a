//! Who may run a command, as the table of commands says it.

/// Who may run a command. What single commands need beyond that is in `needs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever is connected, logged in or not.
    Nobody,
    /// Whoever is logged in.
    Anybody,
    /// Who may read the command's database.
    Read,
    /// Who may write it.
    Write,
    /// Who may administer the database (validate, profile, drop it).
    DatabaseAdmin,
    /// Who may administer the users of the database.
    UserAdmin,
    /// Who may watch the server.
    Monitor,
    /// Who may manage the server.
    Manage,
}
