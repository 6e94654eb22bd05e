//! gzip and zstd compression of whole files, for reading and writing.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::TraceError;
use crate::output::OutputFile;

/// zstd level when the caller names none: it makes a trace at most 10 % larger than the
/// best level does, in a tenth of the time.
const ZSTD_LEVEL: i32 = 12;
const GZIP_LEVEL: u32 = 6;
const COPY_BUFFER: usize = 1 << 17;

/// A compression of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Gzip,
    Zstd,
}

impl Codec {
    /// How many bytes [`Codec::detect`] needs.
    pub(crate) const HEAD: usize = 10;

    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Gzip => "gzip",
            Codec::Zstd => "zstd",
        }
    }

    /// Recognises a compressed file by its first bytes.
    ///
    /// A u32 trace may begin with any bytes at all, so the whole gzip header is
    /// checked: no reserved flag, and an existing compression level and system.
    pub(crate) fn detect(head: &[u8]) -> Option<Codec> {
        // Ordinary and skippable frames.
        if let [a, b, c, d, ..] = *head {
            let magic = u32::from_le_bytes([a, b, c, d]);
            if magic == 0xFD2F_B528 || magic & 0xFFFF_FFF0 == 0x184D_2A50 {
                return Some(Codec::Zstd);
            }
        }
        match head {
            [0x1F, 0x8B, 0x08, flags, _, _, _, _, level, system, ..]
                if flags & 0xE0 == 0 && matches!(level, 0 | 2 | 4) && matches!(system, 0..=13 | 255) =>
            {
                Some(Codec::Gzip)
            }
            // Too short for a whole header, but it cannot be anything else.
            [0x1F, 0x8B, 0x08, ..] if head.len() < Codec::HEAD => Some(Codec::Gzip),
            _ => None,
        }
    }

    /// The compression that a file's name implies, and the name without its extension.
    pub(crate) fn of_name(path: &Path) -> (Option<Codec>, std::path::PathBuf) {
        let codec = path.extension().and_then(|extension| match extension.to_str()?.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => Some(Codec::Gzip),
            "zst" | "zstd" => Some(Codec::Zstd),
            _ => None,
        });
        match codec {
            Some(codec) => (Some(codec), path.with_extension("")),
            None => (None, path.to_owned()),
        }
    }

    /// The decompressed bytes of `compressed`: all zstd frames and gzip members
    /// one after another.
    pub(crate) fn decoder(self, compressed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Codec::Gzip => Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(COPY_BUFFER, compressed))),
            Codec::Zstd => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(io::BufReader::with_capacity(COPY_BUFFER, compressed))?;
                // `zstd --long=31` files need windows beyond the default limit.
                decoder.window_log_max(if cfg!(target_pointer_width = "64") { 31 } else { 30 })?;
                Box::new(decoder)
            }
        })
    }
}

/// An output file with the compression that its name implies.
pub(crate) enum Sink {
    Plain(OutputFile),
    Gzip(GzEncoder<OutputFile>),
    Zstd(zstd::stream::write::Encoder<'static, OutputFile>),
}

impl Sink {
    /// Starts writing `path`; `level` is a zstd level, at most 9 for gzip.
    pub(crate) fn create(path: &Path, level: Option<i32>) -> Result<Sink, TraceError> {
        Sink::of_file(OutputFile::create(path)?, path, level)
    }

    /// Starts writing a file that is open already, compressed as the name of `path` implies; `level` is a zstd level, at most 9
    /// for gzip.
    pub(crate) fn of_file(file: OutputFile, path: &Path, level: Option<i32>) -> Result<Sink, TraceError> {
        let label = file.label().to_owned();
        Ok(match Codec::of_name(path).0 {
            None => Sink::Plain(file),
            Some(Codec::Gzip) => {
                let level = level.map_or(GZIP_LEVEL, |level| level.clamp(1, 9) as u32);
                Sink::Gzip(GzEncoder::new(file, flate2::Compression::new(level)))
            }
            Some(Codec::Zstd) => {
                let failed = |error| TraceError::io(label.clone(), "write", error);
                let level = level.unwrap_or(ZSTD_LEVEL).clamp(1, 22);
                let mut encoder = zstd::stream::write::Encoder::new(file, level).map_err(failed)?;
                // Without a checksum, damage inside a block goes unnoticed.
                encoder.include_checksum(true).map_err(failed)?;
                Sink::Zstd(encoder)
            }
        })
    }

    /// The output file itself.
    pub(crate) fn file(&self) -> &OutputFile {
        match self {
            Sink::Plain(file) => file,
            Sink::Gzip(encoder) => encoder.get_ref(),
            Sink::Zstd(encoder) => encoder.get_ref(),
        }
    }

    /// Ends the compression and moves the file to its path; returns its size in bytes.
    pub(crate) fn finish(self) -> Result<u64, TraceError> {
        let label = self.file().label().to_owned();
        let failed = |error| TraceError::io(label, "write", error);
        match self {
            Sink::Plain(file) => Ok(file),
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
        }
        .map_err(failed)?
        .finish()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }
}
