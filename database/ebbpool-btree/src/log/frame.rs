//! The frames in which a log stores its records.

use std::io;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::{Position, Record};

/// The length of the head before a record's body: checksum of all that follows, position, the body's length.
pub(super) const HEAD: usize = 20;

/// The length of the longest body in bytes.
pub(super) const LONGEST: usize = 80 << 20;

/// Appends a record that begins at `position` to a buffer, and returns its length there.
///
/// # Errors
///
/// If the record is too long. The buffer is unchanged then.
pub(super) fn append(record: &Record<'_>, position: Position, seed: u64, into: &mut Vec<u8>) -> io::Result<usize> {
    let from = into.len();
    into.extend_from_slice(&[0; HEAD]);
    let outcome = postcard::to_io(record, &mut *into).map(drop);
    let body = into.len() - from - HEAD;
    let outcome = outcome.map_err(io::Error::other).and_then(|()| match body <= LONGEST {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a record of {body} bytes is too long: it may have {LONGEST}"),
        )),
    });
    if let Err(error) = outcome {
        into.truncate(from);
        return Err(error);
    }
    let frame = &mut into[from..];
    frame[16..HEAD].copy_from_slice(&(body as u32).to_le_bytes());
    seal(frame, position, seed);
    Ok(HEAD + body)
}

pub(super) fn seal(frame: &mut [u8], position: Position, seed: u64) {
    frame[8..16].copy_from_slice(&position.to_le_bytes());
    let sum = xxh3_64_with_seed(&frame[8..], seed);
    frame[..8].copy_from_slice(&sum.to_le_bytes());
}

/// The length of the record that begins with these bytes, head included. Nothing if it does not begin at
/// `position`, or is longer than `room`.
pub(super) fn length(bytes: &[u8], position: Position, room: u64) -> Option<usize> {
    let (head, _) = bytes.split_first_chunk::<HEAD>()?;
    let length = HEAD + u32_at(head, 16) as usize;
    let fits = length <= HEAD + LONGEST && length as u64 <= room;
    (fits && stands_at(bytes, position)).then_some(length)
}

/// True if the record that begins with these bytes has `position` in its head.
pub(super) fn stands_at(bytes: &[u8], position: Position) -> bool {
    bytes.get(8..16) == Some(&position.to_le_bytes())
}

/// The body of the record with these bytes; nothing if its checksum is wrong.
pub(super) fn body(frame: &[u8], seed: u64) -> Option<&[u8]> {
    let (sum, summed) = frame.split_first_chunk::<8>()?;
    let whole = xxh3_64_with_seed(summed, seed) == u64::from_le_bytes(*sum);
    frame.get(HEAD..).filter(|_| whole)
}

/// # Errors
///
/// If the body is not a record of this format, although its checksum is right.
pub(super) fn decode(body: &[u8], position: Position) -> io::Result<Record<'_>> {
    match postcard::take_from_bytes(body) {
        Ok((record, [])) => Ok(record),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the record at byte {position} is of an unknown kind"))),
    }
}

fn u32_at(head: &[u8; HEAD], at: usize) -> u32 {
    head[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}
