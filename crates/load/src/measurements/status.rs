//! How an operation ended, in YCSB's words.

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// As it should.
    Ok,
    /// As it should, as one of several in a message.
    BatchedOk,
    /// The server refused it, or it was lost on the way.
    Error,
    /// The record is not there.
    NotFound,
    /// The binding has no such operation.
    NotImplemented,
    /// What came back is not what was written.
    UnexpectedState,
    /// The request was wrong.
    BadRequest,
    /// It was not allowed.
    Forbidden,
    /// The server was not ready for it.
    ServiceUnavailable,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 9] = [
        Status::Ok,
        Status::BatchedOk,
        Status::Error,
        Status::NotFound,
        Status::NotImplemented,
        Status::UnexpectedState,
        Status::BadRequest,
        Status::Forbidden,
        Status::ServiceUnavailable,
    ];

    /// As the report writes it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::BatchedOk => "BATCHED_OK",
            Status::Error => "ERROR",
            Status::NotFound => "NOT_FOUND",
            Status::NotImplemented => "NOT_IMPLEMENTED",
            Status::UnexpectedState => "UNEXPECTED_STATE",
            Status::BadRequest => "BAD_REQUEST",
            Status::Forbidden => "FORBIDDEN",
            Status::ServiceUnavailable => "SERVICE_UNAVAILABLE",
        }
    }

    /// Whether the operation did what it should.
    pub fn is_success(self) -> bool {
        matches!(self, Status::Ok | Status::BatchedOk)
    }
}
