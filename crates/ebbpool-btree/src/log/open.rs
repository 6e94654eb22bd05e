//! Which file has which part of a log, and where the log ends.

use std::io;

use ebbpool::Lsn;

use super::file::LogFile;
use super::header::{self, Header};
use super::record::Position;
use super::scan::Frames;
use super::unreadable;
use crate::error::Error;

/// Two files of a log, the later one named.
pub(super) struct Found {
    pub(super) current: usize,
    /// By file.
    pub(super) headers: [Header; 2],
    pub(super) end: Position,
    /// How far the log was durable at least before it was opened.
    pub(super) durable: Lsn,
}

/// Looks, and changes nothing. Nothing if the log was never finished being made.
pub(super) fn find(files: &[Box<dyn LogFile>; 2]) -> Result<Option<Found>, Error> {
    let [first, second] = [Header::find(&*files[0])?, Header::find(&*files[1])?];
    let headers = match [first, second] {
        [Some(first), Some(second)] => [first, second],
        [None, None] => {
            let unfinished = may_be_unfinished(&*files[0])? && may_be_unfinished(&*files[1])?;
            return match unfinished {
                true => Ok(None),
                false => Err(damaged(
                    "neither of its files begins with the header of a log",
                )),
            };
        }
        // The first file is made first, and has records only when the second one is made too. What is made
        // again after a crash finds the second one's header, perhaps, and has made the first one empty.
        [Some(Header { turn: 1, .. }), None] | [None, Some(Header { turn: 0, .. })]
            if may_be_unfinished(&*files[0])? && may_be_unfinished(&*files[1])? =>
        {
            return Ok(None);
        }
        _ => {
            return Err(damaged(
                "one of its two files has no header that can be read, so it was damaged or replaced; restore both from one backup",
            ));
        }
    };
    let current = usize::from(headers[1].turn > headers[0].turn);
    let (younger, older) = (headers[current], headers[1 - current]);
    if younger.identity != older.identity {
        return Err(damaged(
            "its two files are of different databases; restore both from one backup",
        ));
    }
    // The older file was synced whole before the younger one's header was written.
    let gap = |position| Error::LogDamaged {
        position,
        durable: younger.start,
    };
    if older.turn + 1 != younger.turn || older.start > younger.start {
        return Err(gap(older.start));
    }
    let seed = older.identity.number;
    let frames = Frames::new(&*files[1 - current], seed, older.start).map_err(unreadable)?;
    let (end, _) = walk(&mut frames.up_to(younger.start)).map_err(unreadable)?;
    if end != younger.start {
        return Err(gap(end));
    }
    let mut frames = Frames::new(&*files[current], seed, younger.start).map_err(unreadable)?;
    let (end, durable) = walk(&mut frames).map_err(unreadable)?;
    match frames.durable_behind().map_err(unreadable)? {
        Some(durable) => Err(Error::LogDamaged {
            position: end,
            durable,
        }),
        None => Ok(Some(Found {
            current,
            headers,
            end,
            durable: durable.max(younger.start),
        })),
    }
}

/// Where the records end, and how far one among them says that they were durable.
fn walk(frames: &mut Frames<'_>) -> io::Result<(Position, Lsn)> {
    let mut durable = 0;
    while let Some((_, _, record)) = frames.next()? {
        durable = durable.max(record.durable().unwrap_or_default());
    }
    Ok((frames.position(), durable.min(frames.position())))
}

fn may_be_unfinished(file: &dyn LogFile) -> Result<bool, Error> {
    header::may_be_unfinished(file).map_err(unreadable)
}

fn damaged(what: &'static str) -> Error {
    unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
}
