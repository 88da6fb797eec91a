//! The codec for OP_COMPRESSED: a message inside a message, compressed with a method that both sides agreed on.
//!
//! The size that a peer claims is checked against the maximum message size before memory is allocated, and against the
//! actual result. A compressed message inside a compressed one is refused.

use crate::header::{Header, OpCode};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::reader::Reader;
use crate::{Code, Failure};

/// A compression method, by its number on the wire (mongodb/specifications:source/compression/OP_COMPRESSED.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// No compression; only tests use it.
    Noop = 0,
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
}

impl Compressor {
    /// The methods that are offered and accepted in hello, the best compromise first.
    pub const ALL: [Compressor; 3] = [Compressor::Snappy, Compressor::Zstd, Compressor::Zlib];

    /// Its name in hello's `compression`.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// The method with this name.
    pub fn from_name(name: &str) -> Option<Compressor> {
        Compressor::ALL.into_iter().find(|compressor| compressor.name() == name)
    }

    fn from_number(number: u8) -> Option<Compressor> {
        match number {
            0 => Some(Compressor::Noop),
            1 => Some(Compressor::Snappy),
            2 => Some(Compressor::Zlib),
            3 => Some(Compressor::Zstd),
            _ => None,
        }
    }
}

/// Whether `command` must be sent uncompressed because it holds secrets or precedes the agreement.
pub fn never_compressed(command: &str) -> bool {
    const NAMES: [&str; 9] = [
        "hello",
        "isMaster",
        "ismaster",
        "saslStart",
        "saslContinue",
        "getnonce",
        "authenticate",
        "createUser",
        "updateUser",
    ];
    NAMES.contains(&command) || command.starts_with("copydb")
}

/// The bytes between the header and the compressed data: the original opcode, the uncompressed size, the compressor's number.
const PREFIX_BYTES: usize = 9;

/// Level of zlib: its own default, which mongod uses too.
const ZLIB_LEVEL: u32 = 6;

/// Level of Zstandard: its own default, which mongod uses too.
const ZSTD_LEVEL: i32 = 3;

/// Compresses and decompresses for one connection; the libraries' state is created once, at its first use.
#[derive(Default)]
pub struct Codec {
    snappy: Option<(snap::raw::Encoder, snap::raw::Decoder)>,
    zlib: Option<(flate2::Compress, flate2::Decompress)>,
    zstd: Option<(zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>)>,
}

impl Codec {
    /// Decompresses the message in an OP_COMPRESSED `frame` into `out`, with its own header, and returns the compression
    /// method. The previous contents of `out` are replaced.
    pub fn decompress(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<Compressor, Failure> {
        let header = Header::from_frame(frame)?;
        let mut reader = Reader::new(frame);
        reader.take(Header::BYTES)?;
        let op_code = OpCode(reader.i32()?);
        let claimed = reader.i32()?;
        let number = reader.u8()?;
        if header.op_code != OpCode::COMPRESSED || op_code == OpCode::COMPRESSED {
            return Err(Failure::new(Code::ProtocolError, "OP_COMPRESSED must hold an uncompressed message"));
        }
        let compressor = Compressor::from_number(number).ok_or_else(|| {
            let what = "Compression algorithm specified in message is not available";
            Failure::new(Code::InternalError, what)
        })?;
        let size = usize::try_from(claimed).ok().filter(|size| size + Header::BYTES <= MAX_MESSAGE_BYTES);
        let size = size.ok_or_else(|| {
            let what = "Decompressed message would be larger than maximum message size";
            Failure::new(Code::BadValue, what)
        })?;
        if size > most_unpacked_bytes(compressor, reader.rest().len()) {
            let what = "Decompressing message returned less data than expected";
            return Err(Failure::new(Code::BadValue, what));
        }
        let length_bytes = size + Header::BYTES;
        out.clear();
        out.extend_from_slice(&Header { length_bytes, op_code, ..header }.to_bytes());
        out.resize(length_bytes, 0);
        let place = out.get_mut(Header::BYTES..).unwrap_or_default();
        if self.unpack(compressor, reader.rest(), place)? == size {
            return Ok(compressor);
        }
        Err(Failure::new(Code::BadValue, "Decompressing message returned less data than expected"))
    }

    /// Writes `frame` as an OP_COMPRESSED to the end of `out`.
    pub fn compress(
        &mut self,
        frame: &[u8],
        compressor: Compressor,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let header = Header::from_frame(frame)?;
        let body = frame.get(Header::BYTES..).unwrap_or_default();
        let start = out.len();
        let data = start + Header::BYTES + PREFIX_BYTES;
        out.resize(data + most_bytes(compressor, body.len()), 0);
        let packed = self.pack(compressor, body, out.get_mut(data..).unwrap_or_default())?;
        out.truncate(data + packed);
        let compressed = Header {
            length_bytes: Header::BYTES + PREFIX_BYTES + packed,
            op_code: OpCode::COMPRESSED,
            ..header
        };
        let size = i32::try_from(body.len()).unwrap_or(i32::MAX);
        let parts: [&[u8]; 4] = [
            &compressed.to_bytes(),
            &header.op_code.0.to_le_bytes(),
            &size.to_le_bytes(),
            &[compressor as u8],
        ];
        let places = out.get_mut(start..data).unwrap_or_default().iter_mut();
        places.zip(parts.into_iter().flatten()).for_each(|(place, byte)| *place = *byte);
        Ok(())
    }

    /// Fills `out` from compressed data and returns the number of bytes written; more data than fits is an error.
    fn unpack(&mut self, compressor: Compressor, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        match compressor {
            Compressor::Noop if data.len() <= out.len() => {
                out.iter_mut().zip(data).for_each(|(place, byte)| *place = *byte);
                Ok(data.len())
            }
            Compressor::Noop => Err(malformed("noop", "it holds more than it says")),
            Compressor::Snappy => {
                let (_, decoder) = self.snappy.get_or_insert_with(new_snappy);
                decoder.decompress(data, out).map_err(|cause| malformed("snappy", cause))
            }
            Compressor::Zlib => {
                let (_, decoder) = self.zlib.get_or_insert_with(new_zlib);
                decoder.reset(true);
                let status = decoder.decompress(data, out, flate2::FlushDecompress::Finish);
                match status.map_err(|cause| malformed("zlib", cause))? {
                    flate2::Status::StreamEnd => {
                        Ok(usize::try_from(decoder.total_out()).unwrap_or(usize::MAX))
                    }
                    _ => Err(malformed("zlib", "it does not end where it should")),
                }
            }
            Compressor::Zstd => {
                let (_, decoder) = zstd_of(&mut self.zstd)?;
                decoder.decompress_to_buffer(data, out).map_err(|cause| malformed("zstd", cause))
            }
        }
    }

    /// Fills `out`, which has room for the worst case, and returns the number of bytes used.
    fn pack(&mut self, compressor: Compressor, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        match compressor {
            Compressor::Noop => {
                out.iter_mut().zip(data).for_each(|(place, byte)| *place = *byte);
                Ok(data.len())
            }
            Compressor::Snappy => {
                let (encoder, _) = self.snappy.get_or_insert_with(new_snappy);
                encoder.compress(data, out).map_err(|cause| cannot("snappy", cause))
            }
            Compressor::Zlib => {
                let (encoder, _) = self.zlib.get_or_insert_with(new_zlib);
                encoder.reset();
                let status = encoder.compress(data, out, flate2::FlushCompress::Finish);
                match status.map_err(|cause| cannot("zlib", cause))? {
                    flate2::Status::StreamEnd => {
                        Ok(usize::try_from(encoder.total_out()).unwrap_or(usize::MAX))
                    }
                    _ => Err(cannot("zlib", "its bound was too small")),
                }
            }
            Compressor::Zstd => {
                let (encoder, _) = zstd_of(&mut self.zstd)?;
                encoder.compress_to_buffer(data, out).map_err(|cause| cannot("zstd", cause))
            }
        }
    }
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

/// The maximum size of `length` bytes after compression.
fn most_bytes(compressor: Compressor, length: usize) -> usize {
    match compressor {
        Compressor::Noop => length,
        Compressor::Snappy => snap::raw::max_compress_len(length),
        // Incompressible data is stored in blocks, five bytes more for each; zlib adds six. Halved blocks for good measure.
        Compressor::Zlib => length + length / 1000 + 64,
        Compressor::Zstd => zstd::zstd_safe::compress_bound(length),
    }
}

/// The maximum size of `length` compressed bytes after decompression: a larger claim is false, and gets no memory.
fn most_unpacked_bytes(compressor: Compressor, length: usize) -> usize {
    // The greatest factor of each format: 64 bytes copied for 3, 258 bytes for 2 bits, a block of 128 KiB for 4 bytes.
    let factor = match compressor {
        Compressor::Noop => 1,
        Compressor::Snappy => 22,
        Compressor::Zlib => 1032,
        Compressor::Zstd => 32 << 10,
    };
    length.saturating_mul(factor)
}

fn new_snappy() -> (snap::raw::Encoder, snap::raw::Decoder) {
    (snap::raw::Encoder::new(), snap::raw::Decoder::new())
}

fn new_zlib() -> (flate2::Compress, flate2::Decompress) {
    (flate2::Compress::new(flate2::Compression::new(ZLIB_LEVEL), true), flate2::Decompress::new(true))
}

type Zstd = (zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>);

fn zstd_of(place: &mut Option<Zstd>) -> Result<&mut Zstd, Failure> {
    if place.is_none() {
        let encoder = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|cause| cannot("zstd", cause))?;
        let decoder = zstd::bulk::Decompressor::new().map_err(|cause| cannot("zstd", cause))?;
        *place = Some((encoder, decoder));
    }
    place.as_mut().ok_or_else(|| cannot("zstd", "it could not be set up"))
}

#[cold]
fn malformed(name: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::new(Code::BadValue, format!("the {name} data of the message cannot be decompressed: {cause}"))
}

#[cold]
fn cannot(name: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::new(Code::InternalError, format!("the message cannot be compressed with {name}: {cause}"))
}
