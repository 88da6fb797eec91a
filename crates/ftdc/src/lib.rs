//! FTDC (full-time diagnostic data capture): the recording that each mongod and mongos makes of itself in `diagnostic.data`.
//!
//! A file is a sequence of BSON documents ([`DocumentReader`]). Most of them hold a [`MetricChunk`]: up to 300 samples of `serverStatus` and the like, one a
//! second, as columns of deltas that are compressed with zlib. [`ChunkWriter`] makes chunks from samples.
//!
//! [`visit_recordings`] reads files, directories and archives of them; [`take_inventory`] lists their contents, and [`visit_samples`] passes the
//! values of chosen metrics on, each sample once.
//!
//! The format is described by mongod's source (mongodb/mongo:src/mongo/db/ftdc/README.md), whose readers refuse some chunks that its writers make;
//! this crate reads all that is written. It does not interpret metrics. All text is treated as bytes that may not be UTF-8, and all lengths are
//! untrusted until they are checked.

mod chunk;
mod chunk_writer;
mod document;
mod inventory;
mod metric;
mod metric_reader;
mod piped_files;
mod recording_file;
mod recording_reader;
mod sample_blocks;
mod sample_filter;
mod scrubber;
mod server_dump;
mod server_dumps;
mod server_facts;
mod server_words;
mod shell_json;
mod stream_path;
mod tar_entries;
mod timeline;
mod varint;

pub use chunk::{ChunkBuffer, MAX_VALUES, MetricChunk};
pub use chunk_writer::{ChunkWriter, MAX_SAMPLES};
pub use document::{Document, DocumentReader, may_begin_recording};
pub use inventory::{FileInventory, ServerInventory, take_inventory};
pub use metric::{Metric, MetricKind};
pub use recording_file::{
    CompanionKind, RecordingFile, SearchEvent, search_companions, search_recordings, visit_recordings,
    visit_stream,
};
pub use recording_reader::{FileEnd, RecordingEvent, read_recording};
pub use sample_blocks::{SampleBlock, SampleEvent, visit_samples, visit_servers};
pub use sample_filter::{SampleFilter, SampleRows};
pub use scrubber::Scrubber;
pub use server_dump::ServerDump;
pub use server_dumps::ServerDumps;
pub use server_facts::{ROLES, STORAGE_PARAMETERS, ServerFacts};
pub use timeline::{Gap, Period, SampleTime, Timeline};
