//! Which file has which part of a log, and where the log ends.

use std::io;

use ebbpool::Lsn;

use super::file::LogFile;
use super::header::{self, Header};
use super::record::Position;
use super::scan::Frames;
use super::witness::Witness;
use super::{Damaged, FIRST, Lost, unreadable};
use crate::error::Error;

/// Two files of a log, the later one named.
pub(super) struct Found {
    pub(super) current: usize,
    /// By file.
    pub(super) headers: [Header; 2],
    pub(super) end: Position,
    /// How far the log was durable at least before it was opened.
    pub(super) durable: Lsn,
    /// By file.
    pub(super) witnesses: [Witness; 2],
    /// Only where it was to be opened though it is damaged.
    pub(super) lost: Option<Lost>,
}

type Files = [Box<dyn LogFile>; 2];

/// Looks, and changes nothing. Nothing if the log was never finished being made.
pub(super) fn find(files: &Files, damaged: Damaged) -> Result<Option<Found>, Error> {
    let [first, second] = [Header::find(&*files[0])?, Header::find(&*files[1])?];
    let headers = match [first, second] {
        [Some(first), Some(second)] => [first, second],
        [None, None] => {
            let unfinished = may_be_unfinished(&*files[0])? && may_be_unfinished(&*files[1])?;
            return match unfinished {
                true => Ok(None),
                false => Err(not_a_log(
                    "neither of its files begins with the header of a log",
                )),
            };
        }
        // The first file is made first, and has records only when the second one is made too. What is made
        // again after a crash finds the second one's header, perhaps, and has made the first one empty.
        [Some(header @ Header { turn: 1, .. }), None]
        | [None, Some(header @ Header { turn: 0, .. })]
            if may_be_unfinished(&*files[0])?
                && may_be_unfinished(&*files[1])?
                && witnessed(&witnesses(files, &header)?) <= FIRST =>
        {
            return Ok(None);
        }
        [one, other] => {
            let error = not_a_log(
                "one of its two files has no header that can be read, so it was damaged or replaced; restore both from one backup",
            );
            return match (damaged, one, other) {
                (Damaged::Salvage, Some(header), None) => salvage(files, 0, header, 0).map(Some),
                (Damaged::Salvage, None, Some(header)) => salvage(files, 1, header, 0).map(Some),
                _ => Err(error),
            };
        }
    };
    let current = usize::from(headers[1].turn > headers[0].turn);
    let (younger, older) = (headers[current], headers[1 - current]);
    if younger.identity != older.identity {
        return Err(not_a_log(
            "its two files are of different databases; restore both from one backup",
        ));
    }
    if older.turn + 1 != younger.turn || older.start > younger.start {
        // One of the two is an old copy, and the younger one's records follow on none of it.
        return match damaged {
            Damaged::Salvage => salvage(files, current, younger, 0).map(Some),
            Damaged::Refuse => Err(Error::LogDamaged {
                position: older.start,
                durable: younger.start,
            }),
        };
    }
    let witnesses = witnesses(files, &younger)?;
    let seed = older.identity.number;
    // The older file was synced whole before the younger one's header was written (`log/mod.rs`, 3).
    let frames = Frames::new(&*files[1 - current], seed, older.start).map_err(unreadable)?;
    let (end, _) = walk(&mut frames.up_to(younger.start)).map_err(unreadable)?;
    if end != younger.start {
        return match damaged {
            Damaged::Salvage => salvage(files, 1 - current, older, younger.start).map(Some),
            Damaged::Refuse => Err(Error::LogDamaged {
                position: end,
                durable: younger.start,
            }),
        };
    }
    let mut frames = Frames::new(&*files[current], seed, younger.start).map_err(unreadable)?;
    let (end, durable) = walk(&mut frames).map_err(unreadable)?;
    let witnessed = witnessed(&witnesses);
    let behind = frames.durable_behind().map_err(unreadable)?;
    let lost = match behind {
        Some(durable) => Some(durable.max(witnessed)),
        None => Some(witnessed).filter(|&durable| durable > end),
    };
    let lost = lost.map(|durable| Lost {
        end,
        durable,
        beginning: false,
    });
    match (lost, damaged) {
        (Some(Lost { durable, .. }), Damaged::Refuse) => Err(match behind {
            Some(_) => Error::LogDamaged {
                position: end,
                durable,
            },
            None => Error::LogCut { end, durable },
        }),
        _ => Ok(Some(Found {
            current,
            headers,
            end,
            durable: durable.max(younger.start).min(end),
            witnesses,
            lost,
        })),
    }
}

/// What can be read of one file alone; the log was durable up to `durable` at least.
fn salvage(files: &Files, file: usize, header: Header, durable: Lsn) -> Result<Found, Error> {
    let witnesses = witnesses(files, &header)?;
    let seed = header.identity.number;
    let mut frames = Frames::new(&*files[file], seed, header.start).map_err(unreadable)?;
    let (end, _) = walk(&mut frames).map_err(unreadable)?;
    let durable = witnessed(&witnesses).max(durable).max(end);
    Ok(Found {
        current: file,
        // The other one counts as empty.
        headers: [header; 2],
        end,
        durable: end,
        witnesses,
        lost: Some(Lost {
            end,
            durable,
            beginning: durable == end,
        }),
    })
}

fn witnesses(files: &Files, header: &Header) -> Result<[Witness; 2], Error> {
    let of = |file: usize| Witness::find(&*files[file], header.identity.number);
    Ok([of(0).map_err(unreadable)?, of(1).map_err(unreadable)?])
}

/// How far the log was durable by what either file says.
fn witnessed(witnesses: &[Witness; 2]) -> Lsn {
    witnesses[0].durable().max(witnesses[1].durable())
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

fn not_a_log(what: &'static str) -> Error {
    unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
}
