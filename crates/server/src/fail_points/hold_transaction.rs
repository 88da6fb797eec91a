//! The fail point `holdTransaction`: a write of one application stays open before its commit, as a transaction does whose client does
//! something else.
//!
//! This server has no multi-document transactions, so this is how a study gets one that stays open. The write keeps its locks, its changes and
//! its snapshot, and `$currentOp` and `serverStatus` show it as mongod shows a session that is idle within a transaction. mongod has no
//! such fail point.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::client::Client;
use crate::parse;

/// `data` of the fail point.
#[derive(Clone, Debug)]
pub(super) struct HoldTransaction {
    app_name: String,
}

impl HoldTransaction {
    /// Reads the data. An unknown field is refused, and so is a missing name: all writes would stay open.
    pub(super) fn parse(data: &RawDocument) -> Result<HoldTransaction> {
        let mut app_name = None;
        for element in data {
            match element.map_err(|error| parse::malformed(&error))? {
                (name, RawBsonRef::String(text)) if name.as_str() == "appName" => app_name = Some(text),
                (name, _) => {
                    let what =
                        format!("the data of holdTransaction has an unknown field '{}'", name.as_str());
                    return Err(Failure::new(Code::InvalidOptions, what));
                }
            }
        }
        let app_name = app_name.ok_or_else(|| parse::missing("data.appName"))?;
        Ok(HoldTransaction { app_name: app_name.to_owned() })
    }

    /// Whether the fail point affects the writes of this client.
    pub(super) fn concerns(&self, client: &Client) -> bool {
        client.app_name().as_ref() == Some(&self.app_name)
    }
}

/// The number of transactions that are open between two operations, and of all since the start.
#[derive(Debug, Default)]
pub(crate) struct IdleTransactions {
    open: AtomicU64,
    started: AtomicU64,
}

impl IdleTransactions {
    /// Those that are open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// All since the start.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Shows a client's write as an idle transaction until the result is dropped.
    pub(super) fn begin<'t>(&'t self, client: &'t Client) -> IdleTransaction<'t> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.started.fetch_add(1, Ordering::Relaxed);
        client.set_idle_transaction(true);
        IdleTransaction { all: self, client }
    }
}

/// A transaction that is open between two operations.
pub(super) struct IdleTransaction<'t> {
    all: &'t IdleTransactions,
    client: &'t Client,
}

impl Drop for IdleTransaction<'_> {
    fn drop(&mut self) {
        self.client.set_idle_transaction(false);
        self.all.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn it_needs_the_name_of_one_application() {
        assert_eq!(HoldTransaction::parse(&rawdoc! { "appName": "a" }).unwrap().app_name, "a");
        let code = |data: bson::RawDocumentBuf| HoldTransaction::parse(&data).unwrap_err().code();
        assert_eq!(code(rawdoc! { "appName": "a", "x": 1 }), Code::InvalidOptions);
        assert_eq!(code(rawdoc! {}), Code(40414));
    }
}
