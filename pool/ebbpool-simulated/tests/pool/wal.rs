//! A write-ahead log of physical redo records, for simulated threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebbpool::storage::{EIO, FaultyDisk, FaultyFile};
use ebbpool::{Log, Lsn};
use ebbpool_simulation::{Mutex, fail, random, step, thread};
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{FaultLog, FaultRates};

/// The number of bytes of a record: page, version, slot, value, and a checksum over these and its LSN.
pub const RECORD: u64 = 40;

/// A change of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub page: u64,
    /// The version of the page after the change.
    pub version: u64,
    /// [`ZEROS`]: all slots become zero.
    pub slot: u64,
    pub value: u64,
}

/// The slot number of a record that makes all slots zero.
pub const ZEROS: u64 = u64::MAX;

impl Record {
    /// The LSN of a record is the offset in the file at which it ends.
    fn encode(self, lsn: Lsn) -> [u8; RECORD as usize] {
        let mut bytes = [0; RECORD as usize];
        let parts = [self.page, self.version, self.slot, self.value, lsn];
        for (into, part) in bytes.chunks_exact_mut(8).zip(parts) {
            into.copy_from_slice(&part.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], lsn: Lsn) -> Option<Record> {
        let part = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        let record = Record { page: part(0), version: part(8), slot: part(16), value: part(24) };
        (record.encode(lsn) == bytes).then_some(record)
    }
}

pub struct Wal {
    disk: FaultyDisk,
    file: FaultyFile,
    state: Mutex<State>,
    /// Not simulated: the disk reads it while it checks for violations, and that is not a step.
    durable: AtomicU64,
    /// Its syncs take as long as those of the pages, and have faults of their own.
    fault_rates: FaultRates,
    faults: Arc<FaultLog>,
}

struct State {
    /// Records that are not in the file yet.
    buffer: Vec<u8>,
    end: Lsn,
}

impl Wal {
    /// Opens the log, and returns the records that survived. Whatever follows them is cut off, and that is synced:
    /// otherwise lost records could reappear behind later ones.
    pub fn open(disk: &FaultyDisk, fault_rates: FaultRates, faults: &Arc<FaultLog>) -> io::Result<(Wal, Vec<Record>)> {
        let file = disk.bytes("log");
        faults.note_power(disk);
        let bytes = file.read_all()?;
        let found = bytes.chunks_exact(RECORD as usize).zip(1..);
        let records = found.map_while(|(bytes, number)| Record::decode(bytes, number * RECORD));
        let records: Vec<Record> = records.collect();
        let end = records.len() as u64 * RECORD;
        file.set_len(end)?;
        file.sync()?;
        let wal = Wal {
            disk: disk.clone(),
            file,
            state: Mutex::new(State { buffer: Vec::new(), end }),
            durable: AtomicU64::new(end),
            fault_rates,
            faults: Arc::clone(faults),
        };
        Ok((wal, records))
    }

    pub fn append(&self, record: Record) -> Lsn {
        let mut state = self.state.lock();
        state.end += RECORD;
        let lsn = state.end;
        state.buffer.extend(record.encode(lsn));
        lsn
    }

    fn write(&self) -> io::Result<Lsn> {
        let mut state = self.state.lock();
        if !state.buffer.is_empty() {
            self.faults.note_power(&self.disk);
            self.file.append(&state.buffer)?;
            state.buffer.clear();
        }
        Ok(state.end)
    }
}

impl Log for Wal {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::SeqCst)
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        let written = self.write()?;
        if lsn > written {
            fail(format!("LSN {lsn} is requested, and the log ends at {written}"));
        }
        if self.fault_rates.slow > 0 {
            thread::sleep(Duration::from_micros(random() % self.fault_rates.slow));
        }
        let often = self.fault_rates.log_error;
        if often > 0 && random().is_multiple_of(often) && self.faults.happens() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        self.faults.note_power(&self.disk);
        self.file.sync()?;
        self.durable.fetch_max(written, Ordering::SeqCst);
        step();
        Ok(())
    }

    fn end_lsn(&self) -> Lsn {
        self.state.lock().end
    }
}
