//! The engine: prepares and opens the directory of a database, and handles its tables and operations on the whole database.
//!
//! It refuses a directory that another engine filled: WiredTiger itself would add its files to those.

use std::ffi::{CString, c_int};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use fathom_engine::{Engine, Error, Kind, Result, Session, Statistics, Table, TableMetadata, TableSpec};
use fathom_engine_wt_sys::{WT_ERROR, WT_NOTFOUND, WT_STAT_DSRC_BLOCK_REUSE_BYTES, WT_STAT_DSRC_BLOCK_SIZE};

use crate::connection::{self, ConnectionHandle, SessionHandle, c_string};
use crate::events::{self, EventHandler, MessageReceiver};
use crate::fault::EngineFault;
use crate::options::Options;
use crate::pool::EngineState;
use crate::{creation, statistics};

/// An open WiredTiger database. Dropping the last reference closes it with a checkpoint.
#[derive(Debug)]
pub struct WiredTiger {
    shared: Arc<EngineState>,
}

impl WiredTiger {
    /// Opens or creates the database of a directory; after a crash it recovers from the journal.
    ///
    /// # Errors
    /// `Kind::Busy` if another process has it open, `Kind::NotOurs` if another engine filled the directory,
    /// `Kind::Corruption` if the files are damaged, `Kind::Usage` for a setting that WiredTiger does not accept.
    pub fn open(options: Options) -> Result<WiredTiger> {
        WiredTiger::open_logged(options, None)
    }

    /// The same with a log from the first message on.
    ///
    /// # Errors
    /// As [`WiredTiger::open`].
    pub fn open_logged(options: Options, log: Option<MessageReceiver>) -> Result<WiredTiger> {
        prepare(&options)?;
        let events = EventHandler::forever();
        if log.is_some() {
            events.set_log(log);
        }
        let fault = EngineFault::new(events);
        if !options.journal && has_journal(&options) {
            // As mongod does: recover with the journal once, then go on without it.
            let journaled = Options { journal: true, ..options.clone() };
            let connection = connect(&journaled, events, &fault)?;
            EngineState::new(journaled, connection, events, EngineFault::new(events)).close()?;
            remove_journal(&options)?;
        }
        let connection = connect(&options, events, &fault)?;
        Ok(WiredTiger { shared: Arc::new(EngineState::new(options, connection, events, fault)) })
    }

    /// Sends the library's messages to a log, beginning with those since the opening.
    pub fn set_log(&self, log: MessageReceiver) {
        self.shared.events.set_log(Some(log));
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Runs one operation on a session of its own.
    fn with_session(
        &self,
        action: &str,
        object: &str,
        thing: impl FnOnce(&SessionHandle) -> c_int,
    ) -> Result<()> {
        let session = self.shared.checkout()?;
        let entered = session.enter()?;
        events::forget_last();
        match thing(entered.session()) {
            0 => Ok(()),
            code => Err(self.shared.error(code, action, object)),
        }
    }

    /// The address of a table for the library.
    fn uri(table: &Table) -> Result<CString> {
        c_string(&creation::uri(table.ident()))
    }

    fn statistic(&self, table: &Table, settings: &std::ffi::CStr, number: u32) -> Result<u64> {
        let uri = c_string(&format!("statistics:{}", creation::uri(table.ident())))?;
        let mut value = 0;
        self.with_session("read the statistics of", table.ident(), |session| {
            match statistics::one(session, &uri, settings, number) {
                Ok(number) => {
                    value = number;
                    0
                }
                Err(code) => code,
            }
        })?;
        Ok(value)
    }

    fn all_statistics(&self, uri: &str, object: &str) -> Result<Statistics> {
        let uri = c_string(uri)?;
        let mut found = Statistics::default();
        self.with_session("read the statistics of", object, |session| {
            match statistics::all(session, &uri, c"statistics=(fast)") {
                Ok(statistics) => {
                    found = statistics;
                    0
                }
                Err(code) => code,
            }
        })?;
        Ok(found)
    }
}

fn connect(
    options: &Options,
    events: &'static EventHandler,
    fault: &EngineFault,
) -> Result<ConnectionHandle> {
    let settings = c_string(&options.open_string())?;
    events::forget_last();
    ConnectionHandle::open(&options.dir, events, &settings)
        .map_err(|code| fault.opening_error(code, &options.dir.display().to_string()))
}

impl Engine for WiredTiger {
    fn name(&self) -> &'static str {
        "wiredTiger"
    }

    fn version(&self) -> String {
        let (major, minor, patch) = connection::version();
        format!("{major}.{minor}.{patch}")
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(self.shared.checkout()?))
    }

    fn create_table(&self, ident: &str, spec: &TableSpec) -> Result<Table> {
        creation::check_ident(ident)?;
        let uri = c_string(&creation::uri(ident))?;
        let settings = format!("{},exclusive=true", creation::creation_string(&self.shared.options, spec));
        let settings = c_string(&settings)?;
        self.with_session("create the table", ident, |session| session.create(&uri, &settings))?;
        Ok(self.shared.register(ident, spec.keys))
    }

    fn open_table(&self, ident: &str) -> Result<Table> {
        self.shared.fault.check()?;
        if let Some(table) = self.shared.known(ident) {
            return Ok(table);
        }
        creation::check_ident(ident)?;
        let Some(metadata) = self.shared.metadata(ident)? else {
            return Err(self.shared.error(WT_NOTFOUND, "open the table", ident));
        };
        let Some(keys) = creation::key_kind(&metadata) else {
            return Err(Error::new(
                Kind::NotOurs,
                format!("the table {ident} has keys of another kind than ours"),
            ));
        };
        Ok(self.shared.register(ident, keys))
    }

    fn drop_table(&self, table: &Table) -> Result<()> {
        let uri = WiredTiger::uri(table)?;
        if self.shared.metadata(table.ident())?.is_none() {
            return Err(self.shared.error(WT_NOTFOUND, "drop the table", table.ident()));
        }
        self.shared.shed(table.slot());
        // As in mongod, unwritten data is discarded with the table, and the drop does not wait for a running checkpoint;
        // the caller tries again.
        let settings = c"force=true,checkpoint_wait=false";
        self.with_session("drop the table", table.ident(), |session| session.drop_table(&uri, settings))?;
        self.shared.forget(table.ident());
        Ok(())
    }

    fn tables(&self) -> Result<Vec<String>> {
        let mut idents = Vec::new();
        self.with_session("list the tables", "", |session| {
            let mut cursor = match session.open_cursor(c"metadata:", None) {
                Ok(cursor) => cursor,
                Err(code) => return code,
            };
            let code = loop {
                match cursor.next_metadata() {
                    Ok((key, _)) => {
                        idents.extend(
                            key.strip_prefix("table:")
                                .filter(|ident| !ident.starts_with("WiredTiger"))
                                .map(str::to_owned),
                        );
                    }
                    Err(WT_NOTFOUND) => break 0,
                    Err(code) => break code,
                }
            };
            cursor.close();
            code
        })?;
        idents.sort_unstable();
        Ok(idents)
    }

    fn flush_journal(&self) -> Result<()> {
        if !self.shared.options.journal {
            return self.checkpoint();
        }
        self.with_session("flush the journal", "", |session| session.log_flush(c"sync=on"))
    }

    fn checkpoint(&self) -> Result<()> {
        self.shared.checkpoint()
    }

    fn reconfigure(&self, settings: &str) -> Result<()> {
        let text = c_string(settings)?;
        self.with_session("change the settings to", settings, |_| self.shared.connection.reconfigure(&text))
    }

    fn statistics(&self) -> Result<Statistics> {
        self.all_statistics("statistics:", "the database")
    }

    fn table_statistics(&self, table: &Table) -> Result<Statistics> {
        self.all_statistics(&format!("statistics:{}", creation::uri(table.ident())), table.ident())
    }

    fn table_metadata(&self, table: &Table) -> Result<TableMetadata> {
        match self.shared.metadata(table.ident())? {
            Some(creation) => Ok(TableMetadata { creation, uri: creation::uri(table.ident()) }),
            None => Err(self.shared.error(WT_NOTFOUND, "read the metadata of", table.ident())),
        }
    }

    fn size_on_disk(&self, table: &Table) -> Result<u64> {
        self.statistic(table, c"statistics=(size)", WT_STAT_DSRC_BLOCK_SIZE)
    }

    fn free_bytes(&self, table: &Table) -> Result<u64> {
        self.statistic(table, c"statistics=(fast)", WT_STAT_DSRC_BLOCK_REUSE_BYTES)
    }

    fn compact(&self, table: &Table) -> Result<()> {
        let uri = WiredTiger::uri(table)?;
        self.with_session("compact the table", table.ident(), |session| session.compact(&uri, c"timeout=0"))
    }

    fn verify(&self, table: &Table) -> Result<()> {
        let uri = WiredTiger::uri(table)?;
        self.shared.shed(table.slot());
        let mut damaged = false;
        let mut verify = || {
            self.with_session("verify the table", table.ident(), |session| {
                let code = session.verify(&uri);
                damaged = code == WT_ERROR;
                code
            })
        };
        let outcome = match verify() {
            // Only data that is written to files can be verified.
            Err(error) if error.kind() == Kind::Busy => {
                self.shared.checkpoint()?;
                verify()
            }
            outcome => outcome,
        };
        outcome.map_err(|error| if damaged { error.with_kind(Kind::Corruption) } else { error })
    }

    fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

/// The folder of the journal, as `path=journal` names it.
const JOURNAL: &str = "journal";
/// The file that marks a directory as WiredTiger's, and the first word in it.
const MARKER: &str = "WiredTiger";

/// Creates the directory and the journal's, and refuses a directory that is not ours.
///
/// # Errors
/// `Kind::NotOurs` for files of another engine; the operating system's errors.
pub(crate) fn prepare(options: &Options) -> Result<()> {
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(|error| Error::io("make the directory", dir, error))?;
    let marker = dir.join(MARKER);
    match fs::read(&marker) {
        Ok(bytes) if bytes.starts_with(MARKER.as_bytes()) => {}
        Ok(_) => {
            let what = format!("{} was not written by WiredTiger", marker.display());
            return Err(Error::new(Kind::NotOurs, what).advise("take another directory"));
        }
        Err(_) => refuse_others(dir)?,
    }
    let journal = dir.join(JOURNAL);
    fs::create_dir_all(&journal).map_err(|error| Error::io("make the directory", &journal, error))
}

/// Refuses the files of MongoDB's other engines.
fn refuse_others(dir: &Path) -> Result<()> {
    let strangers = [("CURRENT", "RocksDB"), ("db/CURRENT", "RocksDB"), ("local.ns", "MMAPv1")];
    for (file, engine) in strangers {
        if dir.join(file).exists() {
            let what = format!("{} holds a database of {engine}", dir.display());
            return Err(Error::new(Kind::NotOurs, what).advise("take another directory, or that engine"));
        }
    }
    Ok(())
}

/// Whether there is a journal to recover before the database is opened without one.
pub(crate) fn has_journal(options: &Options) -> bool {
    fs::read_dir(options.dir.join(JOURNAL))
        .is_ok_and(|entries| entries.flatten().any(|entry| is_journal(&entry)))
}

/// Removes the journal's files, after everything in them was recovered and a checkpoint made.
///
/// # Errors
/// The operating system's.
pub(crate) fn remove_journal(options: &Options) -> Result<()> {
    let folder = options.dir.join(JOURNAL);
    let entries = fs::read_dir(&folder).map_err(|error| Error::io("read the directory", &folder, error))?;
    for entry in entries.flatten().filter(is_journal) {
        let path = entry.path();
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
    }
    Ok(())
}

fn is_journal(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    ["WiredTigerLog.", "WiredTigerPreplog.", "WiredTigerTmplog."].iter().any(|start| name.starts_with(start))
}
