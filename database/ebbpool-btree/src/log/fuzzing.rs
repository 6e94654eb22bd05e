//! Properties that hold for any bytes in a log's files; for fuzzing.

use ebbpool::Log;
use ebbpool::storage::FaultyDisk;

use super::{DamagePolicy, LogFile, LogIdentity, Position, Record, Wal, frame, header};

const NAMES: [&str; 2] = ["log0", "log1"];

/// Takes bytes for a record's body: if they are a record, it reads the same when it is logged again.
///
/// # Errors
///
/// The property that does not hold.
pub fn record(bytes: &[u8]) -> Result<(), String> {
    let Ok(record) = frame::decode(bytes, 0) else {
        return Ok(());
    };
    let mut again = Vec::new();
    let length = frame::append(&record, 64, 1, &mut again).map_err(|error| error.to_string())?;
    let body = frame::body(&again, 1).ok_or("what was logged has another checksum")?;
    let same = frame::decode(body, 64).is_ok_and(|again| again == record);
    demand(same && length == again.len(), "a record reads differently")
}

/// Takes bytes for the content of a log's files, and opens the log. Files that are refused remain
/// unchanged; a log that opens can be read, appended to, and opened again.
///
/// The first byte says which checksums are corrected before, so that more than the checksums is tested (1:
/// headers, 2: records). Then follow four headers without their checksums, two of each file, and the length
/// (two bytes) of the records in the first file; the rest are the records of the second file.
///
/// # Errors
///
/// The property that does not hold.
pub fn log(input: &[u8]) -> Result<(), String> {
    let disk = FaultyDisk::new(0);
    for (name, bytes) in NAMES.iter().zip(files(input)) {
        disk.bytes(name).write_at(0, &bytes).map_err(|error| error.to_string())?;
    }
    let before = contents(&disk)?;
    let Ok(Some((wal, identity))) = open(&disk) else {
        return demand(contents(&disk)? == before, "what was refused was changed");
    };
    let mut found = scanned(&wal)?;
    demand(wal.durable_lsn() == wal.end_lsn(), "not all is durable")?;
    let record = Record::End { txn: 1 };
    let appended = wal.append(&record).map_err(|error| error.to_string())?;
    found.push(appended.position);
    wal.sync(appended.lsn).map_err(|error| error.to_string())?;
    drop(wal);
    match open(&disk) {
        Ok(Some((wal, again))) if again == identity => demand(scanned(&wal)? == found, "it opens differently"),
        Ok(_) => Err("it is another log when opened again".into()),
        Err(error) => Err(format!("it does not open again: {error}")),
    }
}

fn open(disk: &FaultyDisk) -> Result<Option<(Wal, LogIdentity)>, crate::DatabaseError> {
    let files = NAMES.map(|name| Box::new(disk.bytes(name)) as Box<dyn LogFile>);
    Wal::open(files, 1000, DamagePolicy::Refuse)
}

/// Scans a log and returns where its records begin; also reads each record by its position.
fn scanned(wal: &Wal) -> Result<Vec<Position>, String> {
    let mut found = Vec::new();
    let mut problem = Ok(());
    let mut end = wal.begin();
    let scanned = wal.scan(&mut |position, lsn, record| {
        let mut buffer = Vec::new();
        let same = wal.read(position, &mut buffer)? == *record;
        if !same || position != end {
            problem = Err(format!("the record at {position} reads differently"));
        }
        end = lsn;
        found.push(position);
        Ok(())
    });
    scanned.map_err(|error| format!("what was opened cannot be read: {error}"))?;
    demand(end == wal.end_lsn(), "the end is elsewhere")?;
    problem.map(|()| found)
}

fn contents(disk: &FaultyDisk) -> Result<[Vec<u8>; 2], String> {
    let [first, second] = NAMES.map(|name| disk.bytes(name).read_all());
    let message = |error: std::io::Error| error.to_string();
    Ok([first.map_err(message)?, second.map_err(message)?])
}

fn files(input: &[u8]) -> [Vec<u8>; 2] {
    let (right, rest) = input.split_first().unwrap_or((&0, &[]));
    let (headers, rest) = part(rest, 4 * header::SUMMED);
    let (length, records) = part(rest, 2);
    let length = length.first_chunk().map_or(0, |b| u16::from_le_bytes(*b));
    let (first, second) = part(records, length.into());
    [(0, first), (1, second)].map(|(file, records)| {
        let headers = part(headers, 2 * header::SUMMED * file).1;
        let mut bytes = vec![0; header::LENGTH as usize];
        let mut latest = None;
        for place in 0..2 {
            let header = part(part(headers, header::SUMMED * place).1, header::SUMMED).0;
            let mut whole = [0; header::BYTES];
            whole[..header.len()].copy_from_slice(header);
            if right & 1 != 0 {
                header::complete(&mut whole);
            }
            let header = header::LogHeader::decode(&whole).ok().flatten();
            latest = latest.max(header.map(|header| (header.turn, header.start, header.identity)));
            let at = place * header::LENGTH as usize / 2;
            bytes[at..at + whole.len()].copy_from_slice(&whole);
        }
        let mut records = records.to_vec();
        if let Some((_, start, identity)) = latest
            && right & 2 != 0
        {
            complete(&mut records, start, identity.number);
        }
        bytes.extend_from_slice(&records);
        bytes
    })
}

/// Gives records their positions and checksums, as far as their lengths make sense.
fn complete(mut records: &mut [u8], mut position: Position, seed: u64) {
    while let Some(head) = records.get(16..frame::HEAD) {
        let body = head.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let length = frame::HEAD + body as usize;
        let Some((record, rest)) = records.split_at_mut_checked(length) else {
            return;
        };
        frame::seal(record, position, seed);
        position += length as u64;
        records = rest;
    }
}

fn part(bytes: &[u8], length: usize) -> (&[u8], &[u8]) {
    bytes.split_at(length.min(bytes.len()))
}

fn demand(holds: bool, what: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(what.into()),
    }
}
