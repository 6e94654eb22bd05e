//! Opening a log: which file has which part of it, and where it ends.

use std::io;

use ebbpool::Lsn;

use super::file::LogFile;
use super::header::{self, LogHeader};
use super::record::Position;
use super::scan::RecordReader;
use super::witness::Witness;
use super::{DamagePolicy, FIRST, LogLoss, unreadable};
use crate::error::DatabaseError;

/// The state of a log in its two files.
pub(super) struct FoundLog {
    /// The index of the file that records go to.
    pub(super) current: usize,
    /// One for each file.
    pub(super) headers: [LogHeader; 2],
    pub(super) end: Position,
    /// A position up to which the log was durable before it was opened.
    pub(super) durable: Lsn,
    /// One for each file.
    pub(super) witnesses: [Witness; 2],
    /// What is missing, if a damaged log is opened.
    pub(super) lost: Option<LogLoss>,
}

type LogFiles = [Box<dyn LogFile>; 2];

/// The readable headers of a log's two files.
enum FoundHeaders {
    /// The log's creation was interrupted.
    Unfinished,
    /// Only this file has a header, though the log was finished.
    One {
        file: usize,
        header: LogHeader,
    },
    Both([LogHeader; 2]),
}

/// Finds a log's parts and its end, and changes nothing. Returns nothing if the log's creation was interrupted.
pub(super) fn find(files: &LogFiles, damaged: DamagePolicy) -> Result<Option<FoundLog>, DatabaseError> {
    let headers = match find_headers(files)? {
        FoundHeaders::Unfinished => return Ok(None),
        FoundHeaders::One { file, header } => {
            return match damaged {
                DamagePolicy::Salvage => salvage(files, file, header, 0).map(Some),
                DamagePolicy::Refuse => Err(not_a_log(
                    "one of its two files has no header that can be read, so it was damaged or replaced; restore both from one backup",
                )),
            };
        }
        FoundHeaders::Both(headers) => headers,
    };
    let current = usize::from(headers[1].turn > headers[0].turn);
    let (younger, older) = (headers[current], headers[1 - current]);
    if younger.identity != older.identity {
        return Err(not_a_log("its two files are of different databases; restore both from one backup"));
    }
    if older.turn + 1 != younger.turn || older.start > younger.start {
        // One of the two is an old copy, so the younger file's records do not continue the older one's.
        return match damaged {
            DamagePolicy::Salvage => salvage(files, current, younger, 0).map(Some),
            DamagePolicy::Refuse => Err(DatabaseError::LogDamaged { position: older.start, durable: younger.start }),
        };
    }
    let witnesses = witnesses(files, &younger)?;
    let seed = older.identity.number;
    // The older file was synced whole before the younger one's header was written (`log.rs`, 3).
    let records = RecordReader::new(&*files[1 - current], seed, older.start).map_err(unreadable)?;
    let (end, _) = walk(&mut records.up_to(younger.start)).map_err(unreadable)?;
    if end != younger.start {
        return match damaged {
            DamagePolicy::Salvage => salvage(files, 1 - current, older, younger.start).map(Some),
            DamagePolicy::Refuse => Err(DatabaseError::LogDamaged { position: end, durable: younger.start }),
        };
    }
    find_end(files, current, headers, witnesses, damaged).map(Some)
}

fn find_headers(files: &LogFiles) -> Result<FoundHeaders, DatabaseError> {
    let [first, second] = [LogHeader::find(&*files[0])?, LogHeader::find(&*files[1])?];
    match [first, second] {
        [Some(first), Some(second)] => Ok(FoundHeaders::Both([first, second])),
        [None, None] => {
            let unfinished = may_be_unfinished(&*files[0])? && may_be_unfinished(&*files[1])?;
            match unfinished {
                true => Ok(FoundHeaders::Unfinished),
                false => Err(not_a_log("neither of its files begins with the header of a log")),
            }
        }
        // The first file is created first, and gets records only after the second one is created. A
        // creation that is repeated after a crash empties the first file while the second one may still
        // have its header.
        [Some(header @ LogHeader { turn: 1, .. }), None] | [None, Some(header @ LogHeader { turn: 0, .. })]
            if may_be_unfinished(&*files[0])?
                && may_be_unfinished(&*files[1])?
                && witnessed(&witnesses(files, &header)?) <= FIRST =>
        {
            Ok(FoundHeaders::Unfinished)
        }
        [Some(header), None] => Ok(FoundHeaders::One { file: 0, header }),
        [None, Some(header)] => Ok(FoundHeaders::One { file: 1, header }),
    }
}

/// Finds the end of the current file's records, and whether records are missing after it. The other file is
/// whole.
fn find_end(
    files: &LogFiles,
    current: usize,
    headers: [LogHeader; 2],
    witnesses: [Witness; 2],
    damaged: DamagePolicy,
) -> Result<FoundLog, DatabaseError> {
    let younger = headers[current];
    let seed = younger.identity.number;
    let mut records = RecordReader::new(&*files[current], seed, younger.start).map_err(unreadable)?;
    let (end, durable) = walk(&mut records).map_err(unreadable)?;
    let witnessed = witnessed(&witnesses);
    let behind = records.durable_behind().map_err(unreadable)?;
    let lost = match behind {
        Some(durable) => Some(durable.max(witnessed)),
        None => Some(witnessed).filter(|&durable| durable > end),
    };
    let lost = lost.map(|durable| LogLoss { end, durable, beginning: false });
    match (lost, damaged) {
        (Some(LogLoss { durable, .. }), DamagePolicy::Refuse) => Err(match behind {
            Some(_) => DatabaseError::LogDamaged { position: end, durable },
            None => DatabaseError::LogCut { end, durable },
        }),
        _ => Ok(FoundLog { current, headers, end, durable: durable.max(younger.start).min(end), witnesses, lost }),
    }
}

/// The log as far as one file alone has it; it was durable up to `durable` at least.
fn salvage(files: &LogFiles, file: usize, header: LogHeader, durable: Lsn) -> Result<FoundLog, DatabaseError> {
    let witnesses = witnesses(files, &header)?;
    let seed = header.identity.number;
    let mut records = RecordReader::new(&*files[file], seed, header.start).map_err(unreadable)?;
    let (end, _) = walk(&mut records).map_err(unreadable)?;
    let durable = witnessed(&witnesses).max(durable).max(end);
    Ok(FoundLog {
        current: file,
        // The other file counts as empty.
        headers: [header; 2],
        end,
        durable: end,
        witnesses,
        lost: Some(LogLoss { end, durable, beginning: durable == end }),
    })
}

fn witnesses(files: &LogFiles, header: &LogHeader) -> Result<[Witness; 2], DatabaseError> {
    let of = |file: usize| Witness::find(&*files[file], header.identity.number);
    Ok([of(0).map_err(unreadable)?, of(1).map_err(unreadable)?])
}

/// How far the log was durable, by the witnesses of both files.
fn witnessed(witnesses: &[Witness; 2]) -> Lsn {
    witnesses[0].durable().max(witnesses[1].durable())
}

/// Where the records end, and the greatest position up to which one of them says that the log was durable.
fn walk(records: &mut RecordReader<'_>) -> io::Result<(Position, Lsn)> {
    let mut durable = 0;
    while let Some((_, _, record)) = records.next()? {
        durable = durable.max(record.durable().unwrap_or_default());
    }
    Ok((records.position(), durable.min(records.position())))
}

fn may_be_unfinished(file: &dyn LogFile) -> Result<bool, DatabaseError> {
    header::may_be_unfinished(file).map_err(unreadable)
}

fn not_a_log(what: &'static str) -> DatabaseError {
    unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
}
