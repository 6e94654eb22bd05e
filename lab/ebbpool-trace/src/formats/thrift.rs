//! Checks Thrift's compact protocol, in which Parquet writes its footer and the headers
//! of its pages, before the `parquet` crate decodes them.
//!
//! The crate trusts the lengths in a file. The items of a list consume no bytes if they
//! are booleans, or if the header of a page ends there; the crate then counts to a
//! damaged length for as long as that takes. It also allocates as many bytes as a string
//! claims to have. And it reads the fields that it knows as if they had the right type,
//! whatever their type is, and continues at another offset than this check; the check
//! therefore includes the types in the headers of pages, which are short.

use std::io::{self, Read, Take};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// The depth of nesting that the Parquet crate accepts.
const DEEPEST: u32 = 64;
/// Bytes of the footer's length and of the magic after it.
const TAIL: u64 = 8;

const NUMBER: u8 = 5;
const LONG: u8 = 6;
const STRING: u8 = 8;
const STRUCT: u8 = 12;
const BOOLEAN: u8 = 2;

/// The specified fields of a struct: number, type, and the fields of its own.
struct StructFields(&'static [(i16, u8, &'static StructFields)]);

static NOTHING: StructFields = StructFields(&[]);
static STATISTICS: StructFields = StructFields(&[
    (1, STRING, &NOTHING),
    (2, STRING, &NOTHING),
    (3, LONG, &NOTHING),
    (4, LONG, &NOTHING),
    (5, STRING, &NOTHING),
    (6, STRING, &NOTHING),
    (7, BOOLEAN, &NOTHING),
    (8, BOOLEAN, &NOTHING),
]);
static DATA_PAGE: StructFields = StructFields(&[
    (1, NUMBER, &NOTHING),
    (2, NUMBER, &NOTHING),
    (3, NUMBER, &NOTHING),
    (4, NUMBER, &NOTHING),
    (5, STRUCT, &STATISTICS),
]);
static DICTIONARY_PAGE: StructFields = StructFields(&[(1, NUMBER, &NOTHING), (2, NUMBER, &NOTHING), (3, BOOLEAN, &NOTHING)]);
static DATA_PAGE_2: StructFields = StructFields(&[
    (1, NUMBER, &NOTHING),
    (2, NUMBER, &NOTHING),
    (3, NUMBER, &NOTHING),
    (4, NUMBER, &NOTHING),
    (5, NUMBER, &NOTHING),
    (6, NUMBER, &NOTHING),
    (7, BOOLEAN, &NOTHING),
    (8, STRUCT, &STATISTICS),
]);
/// The header of a page, as the Parquet format has it.
static PAGE: StructFields = StructFields(&[
    (1, NUMBER, &NOTHING),
    (2, NUMBER, &NOTHING),
    (3, NUMBER, &NOTHING),
    (4, NUMBER, &NOTHING),
    (5, STRUCT, &DATA_PAGE),
    (6, STRUCT, &NOTHING),
    (7, STRUCT, &DICTIONARY_PAGE),
    (8, STRUCT, &DATA_PAGE_2),
]);

/// A Parquet file whose footer and page headers are checked.
pub(super) struct CheckedFile<R> {
    file: R,
}

impl<R: ChunkReader> CheckedFile<R> {
    /// Refuses a footer with an impossible length.
    pub(super) fn new(file: R) -> ParquetResult<CheckedFile<R>> {
        // The crate refuses files that are not Parquet at all.
        if let Some(end) = file.len().checked_sub(TAIL) {
            let tail = file.get_bytes(end, TAIL as usize)?;
            let length = tail.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            if let Some(start) = end.checked_sub(length.into()) {
                check(file.get_read(start)?, length.into(), &NOTHING)?;
            }
        }
        Ok(CheckedFile { file })
    }
}

impl<R: ChunkReader> Length for CheckedFile<R> {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl<R: ChunkReader> ChunkReader for CheckedFile<R> {
    type T = R::T;

    /// The crate reads the headers of pages, and the tail of the file, by this call.
    fn get_read(&self, start: u64) -> ParquetResult<R::T> {
        let most = self.file.len().saturating_sub(start);
        if most != TAIL {
            check(self.file.get_read(start)?, most, &PAGE)?;
        }
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.file.get_bytes(start, length)
    }
}

/// Walks over the struct at the front of `bytes`, which has at most `most` bytes. A
/// struct that is cut off is refused, because the crate does not notice the end of a
/// page's header while it skips a field.
fn check(bytes: impl Read, most: u64, specified: &StructFields) -> ParquetResult<()> {
    let mut walk = Walker(bytes.take(most));
    match walk.fields(specified, DEEPEST) {
        Ok(()) => Ok(()),
        Err(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => Err(ParquetError::EOF("its footer or the header of a page is cut off".to_owned())),
            io::ErrorKind::InvalidData => Err(ParquetError::General(error.to_string())),
            _ => Err(error.into()),
        },
    }
}

struct Walker<R>(Take<R>);

impl<R: Read> Walker<R> {
    /// A struct's fields up to the byte that ends it.
    fn fields(&mut self, specified: &StructFields, depth: u32) -> io::Result<()> {
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0xF;
            if kind == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => {
                    let number = self.number()?;
                    (number >> 1) as i16 ^ -((number & 1) as i16)
                }
                more => id.checked_add(more.into()).ok_or_else(|| impossible("a field with too high a number"))?,
            };
            let field = specified.0.iter().find(|(number, _, _)| *number == id);
            if let Some(&(_, field_kind, _)) = field
                && field_kind != kind
                && !(is_boolean(field_kind) && is_boolean(kind))
            {
                return Err(impossible("a field of another type than it should have"));
            }
            match field {
                // A boolean field has its value in its type.
                _ if is_boolean(kind) => {}
                Some(&(_, STRUCT, fields)) => self.fields(fields, depth)?,
                _ => self.value(kind, depth)?,
            }
        }
    }

    /// A value of type `kind`, in a struct or in a collection.
    fn value(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(impossible("structs and lists too deep in one another"));
        };
        match kind {
            3 => self.byte().map(|_| ()),
            4 | NUMBER | LONG => self.number().map(|_| ()),
            7 => self.skip(8),
            STRING => {
                let length = self.length()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.length()?,
                    count => count.into(),
                };
                self.items(count, &[head & 0xF], depth)
            }
            11 => match self.length()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.items(count, &[kinds >> 4, kinds & 0xF], depth)
                }
            },
            STRUCT => self.fields(&NOTHING, depth),
            13 => self.skip(16),
            _ => Err(impossible("a value of no type")),
        }
    }

    /// The items of a collection: `count` times a value of each of these types.
    fn items(&mut self, count: u64, kinds: &[u8], depth: u32) -> io::Result<()> {
        // Parquet has no collections of booleans here, and the crate does not know that
        // each boolean is a byte.
        if count > 0 && kinds.iter().any(|&kind| is_boolean(kind)) {
            return Err(impossible("a list of booleans"));
        }
        for _ in 0..count {
            for &kind in kinds {
                self.value(kind, depth)?;
            }
        }
        Ok(())
    }

    /// The number of bytes or values that follow; at least a byte for each must be left.
    fn length(&mut self) -> io::Result<u64> {
        let length = self.number()?;
        match length > self.0.limit() {
            true => Err(impossible("a length beyond its end")),
            false => Ok(length),
        }
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(impossible("a number of more than 64 bits"))
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.0.by_ref().take(count), &mut io::sink())? == count {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

fn is_boolean(kind: u8) -> bool {
    matches!(kind, 1 | 2)
}

fn impossible(what: &str) -> io::Error {
    let problem = format!("its footer or the header of a page has {what}");
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(bytes: &[u8]) -> bool {
        check(bytes, bytes.len() as u64, &NOTHING).is_ok()
    }

    #[test]
    fn every_type_passes() {
        #[rustfmt::skip]
        let all = [
            // Fields that are true and false, a byte, numbers, one of them with a long id.
            0x11, 0x12, 0x13, 7, 0x14, 1, 0x05, 0x80, 1, 0xFF, 1, 0x16, 0,
            // A double, three letters, a list of two bytes, an empty list.
            0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 3, b'a', b'b', b'c', 0x19, 0x23, 1, 2, 0x19, 0,
            // A set of one number, a map of a byte to an empty struct, an empty map, a uuid.
            0x1A, 0x15, 1, 0x1B, 1, 0x3C, 9, 0, 0x1B, 0,
            0x1D, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
            // A struct with a byte; a list of 16 bytes with a length of its own.
            0x1C, 0x13, 5, 0, 0x19, 0xF3, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
            0,
        ];
        let mut walk = Walker(all.take(all.len() as u64));
        walk.fields(&NOTHING, DEEPEST).unwrap();
        assert_eq!(walk.0.limit(), 0, "all of it was walked over");
        for end in 0..all.len() {
            let cut = check(&all[..end], all.len() as u64, &NOTHING);
            let message = cut.unwrap_err().to_string();
            assert!(message.contains("is cut off"), "at {end}: {message}");
        }
    }

    #[test]
    fn a_page_header_is_checked_before_it_is_read() {
        // A page's header, a footer that is an empty struct, and the tail.
        let file = |header: &[u8]| {
            let bytes = [header, &[0], &1u32.to_le_bytes(), b"PAR1"].concat();
            CheckedFile::new(Bytes::from(bytes)).unwrap()
        };
        let right = file(&[0x15, 4, 0]);
        assert!(right.get_read(0).is_ok());
        let wrong = file(&[0x99, 0x41, 1, 1, 1, 1, 0]);
        let message = wrong.get_read(0).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("a list of booleans"), "{message}");
        // A list where the length of the page should be.
        for header in [&[0x39, 0x14, 1, 0][..], &[0x5C, 0x18, 1, b'a', 0, 0]] {
            let message = file(header).get_read(0).map(|_| ()).unwrap_err();
            let message = message.to_string();
            assert!(message.contains("of another type"), "{message}");
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bytes in [
            // Endless booleans: in a list, in a list of lists, in a map.
            &[0x19, 0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 7][..],
            &[0x19, 0xF9, 2, 0xF2, 0xFF, 0xFF, 0xFF, 0xFF, 7],
            &[0x1B, 2, 0x13, 0, 0, 0],
            // Letters, and values, that are missing.
            &[0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            &[0x19, 0xFC, 4, 0, 0, 0],
            // More than 64 bits, no type, endless nesting.
            &[0x16, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
            &[0x1E],
            &[0x1C; 100],
        ] {
            assert!(!is_right(bytes), "{bytes:x?}");
        }
    }
}
