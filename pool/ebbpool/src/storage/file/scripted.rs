//! A file in memory that fails as a test's script says.

use std::collections::HashMap;
use std::io::{self, IoSlice};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::raw::Raw;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Read,
    Write,
    Allocate,
    Reserve,
    Truncate,
    SyncData,
    SyncAll,
}

#[derive(Clone, Copy, Debug)]
enum ScriptedResult {
    Fail(Errno),
    /// Moves at most this number of bytes.
    Short(usize),
}

#[derive(Debug, Default)]
struct ScriptedState {
    bytes: Vec<u8>,
    script: HashMap<(Call, usize), ScriptedResult>,
    counts: HashMap<Call, usize>,
    /// Every call that touches one of these bytes fails.
    bad: Vec<(std::ops::Range<usize>, Errno)>,
    /// How often each byte was written.
    written: Vec<u32>,
    /// The end of the reserved blocks.
    reserved: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Scripted(Mutex<ScriptedState>);

impl Scripted {
    pub(crate) fn new(length: usize) -> Self {
        let raw = Scripted::default();
        raw.0.lock().set_length(length);
        raw
    }

    /// The `nth` call of this sort from now on fails.
    pub(crate) fn fails(&self, call: Call, nth: usize, with: Errno) {
        self.acts(call, nth, ScriptedResult::Fail(with));
    }

    /// The `nth` call of this sort from now on moves at most `bytes` bytes.
    pub(crate) fn is_short(&self, call: Call, nth: usize, bytes: usize) {
        self.acts(call, nth, ScriptedResult::Short(bytes));
    }

    fn acts(&self, call: Call, nth: usize, result: ScriptedResult) {
        let mut state = self.0.lock();
        let so_far = state.counts.get(&call).copied().unwrap_or(0);
        state.script.insert((call, so_far + nth), result);
    }

    pub(crate) fn is_bad(&self, bytes: std::ops::Range<usize>, with: Errno) {
        self.0.lock().bad.push((bytes, with));
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.0.lock().counts.get(&call).copied().unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }

    pub(crate) fn reserved(&self) -> usize {
        self.0.lock().reserved
    }

    pub(crate) fn times_written(&self, at: usize) -> u32 {
        self.0.lock().written[at]
    }
}

impl ScriptedState {
    fn set_length(&mut self, length: usize) {
        self.bytes.resize(length, 0);
        self.written.resize(length, 0);
    }

    /// The number of bytes that this call may move.
    fn most(&mut self, call: Call, at: u64, length: usize) -> io::Result<usize> {
        let count = self.counts.entry(call).or_default();
        *count += 1;
        let span = at as usize..at as usize + length;
        let hit = |bad: &std::ops::Range<usize>| bad.start < span.end && span.start < bad.end;
        match self.script.get(&(call, *count)) {
            Some(&ScriptedResult::Fail(errno)) => return Err(errno.into()),
            Some(&ScriptedResult::Short(bytes)) => return Ok(bytes.min(length)),
            None => {}
        }
        match self.bad.iter().find(|(bad, _)| hit(bad)) {
            Some(&(_, errno)) => Err(errno.into()),
            None => Ok(length),
        }
    }
}

impl Raw for Scripted {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.0.lock();
        let most = state.most(Call::Read, offset, buffer.len())?;
        let rest = state.bytes.get(offset as usize..).unwrap_or_default();
        let moved = most.min(rest.len());
        buffer[..moved].copy_from_slice(&rest[..moved]);
        Ok(moved)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|b| b.iter().copied()).collect();
        let mut state = self.0.lock();
        let most = state.most(Call::Write, offset, bytes.len())?;
        let end = offset as usize + most;
        if end > state.bytes.len() {
            state.set_length(end);
        }
        state.bytes[offset as usize..end].copy_from_slice(&bytes[..most]);
        for times in &mut state.written[offset as usize..end] {
            *times += 1;
        }
        Ok(most)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().bytes.len() as u64)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        // Like ext4, which does not free what it reserved before it ran out of space.
        state.set_length((from + (to - from) / 2) as usize);
        state.most(Call::Allocate, from, 0)?;
        state.set_length(to as usize);
        state.reserved = state.reserved.max(to as usize);
        Ok(())
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.reserved = state.reserved.max((from + (to - from) / 2) as usize);
        state.most(Call::Reserve, from, 0)?;
        state.reserved = to as usize;
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        state.most(Call::Truncate, length, 0)?;
        let length = length as usize;
        if length <= state.bytes.len() {
            state.reserved = state.reserved.min(length);
        }
        state.set_length(length);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.lock().most(Call::SyncData, 0, 0).map(|_| ())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.lock().most(Call::SyncAll, 0, 0).map(|_| ())
    }
}
