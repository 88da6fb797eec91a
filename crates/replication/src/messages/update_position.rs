//! `replSetUpdatePosition`: how far members are, passed upstream (mongodb/mongo:src/mongo/db/repl/update_position_args.cpp).

use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

use super::ReplicationMetadata;
use crate::fields;
use crate::optime::OpTime;
use crate::write_concern::Progress;

/// How far one member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The member's `_id`.
    pub member_id: i64,
    /// The version of the configuration that this is about.
    pub config_version: i64,
    /// How far it is.
    pub progress: Progress,
}

/// The command: the sender's own position, and those that it knows of members downstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePosition {
    /// The positions.
    pub positions: Vec<Position>,
    /// The sender's `$replData`. Its term is at least that of every member it speaks for.
    pub metadata: Option<ReplicationMetadata>,
}

impl UpdatePosition {
    /// The command.
    pub fn to_document(&self) -> Document {
        let positions: Vec<Bson> =
            self.positions.iter().map(|position| position.to_document().into()).collect();
        let mut document = doc! { "replSetUpdatePosition": 1, "optimes": positions };
        if let Some(metadata) = &self.metadata {
            document.insert("$replData", metadata.to_document());
        }
        document
    }

    /// Reads the command.
    pub fn from_document(document: &Document) -> Result<UpdatePosition, Failure> {
        let list = fields::array(document, "optimes")?.ok_or_else(|| fields::missing("optimes"))?;
        let positions = list
            .iter()
            .map(|item| match item {
                Bson::Document(item) => Position::from_document(item),
                _ => Err(Failure::new(Code::TypeMismatch, "\"optimes\" must hold documents")),
            })
            .collect::<Result<_, _>>()?;
        Ok(UpdatePosition { positions, metadata: ReplicationMetadata::beside(document)? })
    }
}

impl Position {
    fn to_document(self) -> Document {
        doc! {
            "durableOpTime": self.progress.durable.to_document(),
            "appliedOpTime": self.progress.applied.to_document(),
            "memberId": fields::int_or_long(self.member_id),
            "cfgver": self.config_version,
        }
    }

    fn from_document(document: &Document) -> Result<Position, Failure> {
        let number = |name: &str| {
            fields::integer(document, name).and_then(|value| value.ok_or_else(|| fields::missing(name)))
        };
        Ok(Position {
            member_id: number("memberId")?,
            config_version: number("cfgver")?,
            progress: Progress {
                applied: OpTime::required(document, "appliedOpTime")?,
                durable: OpTime::required(document, "durableOpTime")?,
            },
        })
    }
}
