//! A simple write-ahead log of physical redo records.

use std::io;
use std::sync::Mutex;

use ebbpool::storage::FaultyFile;
use ebbpool::{Log, Lsn};
use xxhash_rust::xxh3::xxh3_64;

/// The number of bytes of a record: page, offset, value, and a checksum over these and its LSN.
pub const RECORD: u64 = 32;

/// A change of eight bytes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub page: u64,
    pub offset: u64,
    pub value: u64,
}

impl Record {
    /// The LSN of a record is the offset in the file at which it ends.
    fn encode(self, lsn: Lsn) -> [u8; RECORD as usize] {
        let mut bytes = [0; RECORD as usize];
        let parts = [self.page, self.offset, self.value, lsn];
        for (into, part) in bytes.chunks_exact_mut(8).zip(parts) {
            into.copy_from_slice(&part.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], lsn: Lsn) -> Option<Record> {
        let part = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let record = Record { page: part(0), offset: part(8), value: part(16) };
        (record.encode(lsn) == bytes).then_some(record)
    }
}

pub struct Wal {
    file: FaultyFile,
    state: Mutex<State>,
}

struct State {
    /// Records that are not in the file yet.
    buffer: Vec<u8>,
    end: Lsn,
    durable: Lsn,
}

impl Wal {
    /// Opens the log, and returns the records that survived. Whatever follows them is cut off, and that is synced:
    /// otherwise lost records could reappear behind later ones.
    pub fn open(file: FaultyFile) -> io::Result<(Wal, Vec<Record>)> {
        let bytes = file.read_all()?;
        let found = bytes.chunks_exact(RECORD as usize).zip(1..);
        let records = found.map_while(|(bytes, number)| Record::decode(bytes, number * RECORD));
        let records: Vec<Record> = records.collect();
        let end = records.len() as u64 * RECORD;
        file.set_len(end)?;
        file.sync()?;
        let state = Mutex::new(State { buffer: Vec::new(), end, durable: end });
        Ok((Wal { file, state }, records))
    }

    pub fn append(&self, record: Record) -> Lsn {
        let mut state = self.state.lock().unwrap();
        state.end += RECORD;
        let lsn = state.end;
        state.buffer.extend(record.encode(lsn));
        lsn
    }

    /// Writes the records to the file without a sync; returns the LSN of the last one.
    pub fn write(&self) -> io::Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        if !state.buffer.is_empty() {
            self.file.append(&state.buffer)?;
            state.buffer.clear();
        }
        Ok(state.end)
    }
}

impl Log for Wal {
    fn durable_lsn(&self) -> Lsn {
        self.state.lock().unwrap().durable
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        let written = self.write()?;
        assert!(lsn <= written, "LSN {lsn} is requested, and the log ends at {written}");
        self.file.sync()?;
        let mut state = self.state.lock().unwrap();
        state.durable = state.durable.max(written);
        Ok(())
    }

    fn end_lsn(&self) -> Lsn {
        self.state.lock().unwrap().end
    }
}
