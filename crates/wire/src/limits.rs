//! The size limits that hello announces and every parser here enforces (mongodb/mongo:src/mongo/rpc/message.h,
//! src/mongo/bson/util/builder.h, src/mongo/db/ops/write_ops.h).

/// `maxMessageSizeBytes`: the longest message, header included.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// `maxBsonObjectSize`: the longest document that a user may store.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The longest document on the wire: a stored one of maximum size must fit into a command with its other fields.
pub const MAX_COMMAND_DOCUMENT_BYTES: usize = MAX_DOCUMENT_BYTES + 16 * 1024;

/// `maxWriteBatchSize`: the maximum number of writes in one command.
pub const MAX_WRITE_BATCH: usize = 100_000;

/// The deepest nesting of documents and arrays; a flat document has depth 1, and the elements in it may nest this much.
pub const MAX_NESTING_DEPTH: usize = 200;
