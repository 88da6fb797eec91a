//! Packing: the list first, then each file of the record in the order of names.

use std::io::{self, Write};
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use tar::{Builder, EntryType, Header};

use super::parts::{Summed, is_run_name};
use super::{BYTES_MAX, BundleFile, BundleList, FORMAT, LIST};
use crate::folders::{Condition, RunFile, RunFolder};
use crate::plain;

/// How hard Zstandard tries; its bytes are those of one thread, so that they do not depend on the machine.
const LEVEL: i32 = 9;

/// What was packed.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The list.
    pub list: BundleList,
    /// Names of what lies in the folder and was left out.
    pub left_out: Vec<String>,
}

/// Packs `run` into `out`.
///
/// # Errors
/// When it is still written, a file of it cannot be read or changes meanwhile, or `out` fails.
pub fn pack(run: &RunFolder, out: impl Write) -> Result<Packed> {
    if run.condition == Condition::Running {
        let what = format!("{} is still running", run.path.display());
        return Err(Error::new(Kind::Busy, what).advise("wait for its end"));
    }
    if !is_run_name(&run.name) {
        let what = format!("'{}' is no name that a bundle can bear", run.name.escape_debug());
        return Err(Error::usage(what).advise("rename the folder to letters, digits, '-', '_' and '.'"));
    }
    let (packed, left): (Vec<&RunFile>, Vec<&RunFile>) =
        run.contents.files.iter().partition(|file| file.is_record());
    let files = packed.into_iter().map(|file| summed(&run.path, file)).collect::<Result<Vec<_>>>()?;
    let list = BundleList { format: FORMAT, run: run.name.clone(), files };
    write(run, &list, out)?;
    let left_out = left.into_iter().map(|file| file.name.clone());
    Ok(Packed { list, left_out: left_out.chain(run.contents.foreign.iter().cloned()).collect() })
}

fn summed(folder: &Path, file: &RunFile) -> Result<BundleFile> {
    let path = folder.join(&file.name);
    let read = |e| Error::io("read", &path, e);
    let mut through = Summed::new(io::sink());
    io::copy(&mut plain::open(&path, BYTES_MAX)?, &mut through).map_err(read)?;
    let (bytes, sha256) = through.done();
    Ok(BundleFile { name: file.name.clone(), bytes, sha256 })
}

fn write(run: &RunFolder, list: &BundleList, out: impl Write) -> Result<()> {
    let failed = |e| Error::io("write", "the bundle", e);
    let encoder = zstd::stream::write::Encoder::new(out, LEVEL).map_err(failed)?;
    let mut archive = Builder::new(encoder);
    let text = serde_json::to_vec_pretty(list)
        .map_err(|e| Error::new(Kind::Malformed, "cannot write the bundle's list").because(e))?;
    archive.append_data(&mut header(text.len() as u64), LIST, text.as_slice()).map_err(failed)?;
    for file in &list.files {
        let path = run.path.join(&file.name);
        let source = plain::open(&path, BYTES_MAX)?;
        let mut source = Summed::new(io::Read::take(source, file.bytes));
        let name = format!("{}/{}", run.name, file.name);
        archive.append_data(&mut header(file.bytes), name, &mut source).map_err(failed)?;
        if source.done() != (file.bytes, file.sha256.clone()) {
            let what = format!("{} changed while it was packed", path.display());
            return Err(Error::new(Kind::Busy, what).advise("try again"));
        }
    }
    let mut out = archive.into_inner().and_then(zstd::stream::write::Encoder::finish).map_err(failed)?;
    out.flush().map_err(failed)
}

/// A plain file of nobody, made at no time.
fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
