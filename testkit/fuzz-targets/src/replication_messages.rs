//! Fuzzes messages of replica set members and set configurations: each is refused or accepted, and an accepted one survives a round trip.

use bson::Document;
use fathom_replication::messages::{
    HeartbeatArguments, HeartbeatReply, OplogQueryMetadata, ReplicationMetadata, RequestVotesArguments,
    RequestVotesReply, UpdatePosition,
};
use fathom_replication::{LastVote, OpTime, ReplicaSetConfig, WriteConcern};

/// Written and read again, it is written the same.
macro_rules! comes_back {
    ($document:expr, $type:ident, $read:ident) => {
        if let Ok(value) = $type::$read($document) {
            let written = value.to_document();
            let again = $type::$read(&written).unwrap().to_document();
            assert_eq!(again.to_vec().unwrap(), written.to_vec().unwrap());
        }
    };
}

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(document) = Document::from_reader(bytes) else { return };
    comes_back!(&document, HeartbeatArguments, from_document);
    comes_back!(&document, HeartbeatReply, from_document);
    comes_back!(&document, OplogQueryMetadata, from_document);
    comes_back!(&document, ReplicationMetadata, from_document);
    comes_back!(&document, RequestVotesArguments, from_document);
    comes_back!(&document, RequestVotesReply, from_document);
    comes_back!(&document, UpdatePosition, from_document);
    comes_back!(&document, LastVote, from_document);
    comes_back!(&document, OpTime, from_document);
    comes_back!(&document, WriteConcern, parse);
    if let Ok(config) = ReplicaSetConfig::parse(&document)
        && config.validate().is_ok()
    {
        assert_eq!(ReplicaSetConfig::parse(&config.to_document()).unwrap(), config);
        assert!(config.write_majority() >= 1 && config.majority_votes() * 2 > config.voters());
    }
}
