//! The states that plain SQLite's world went through, and which of them must survive.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::{Connection, OpenFlags};

use crate::machine::{Files, Machine};
use crate::sql;
use crate::step::Database;

/// A state of one database: its file without journal and WAL, and what it holds.
pub struct Content {
    pub file: Vec<u8>,
    pub dump: Vec<String>,
}

struct State {
    time: u32,
    files: Files,
}

/// All states since the last recovery, the latest last.
#[derive(Default)]
pub struct History {
    states: Vec<State>,
    contents: HashMap<(usize, Database), Rc<Content>>,
    /// The first state of a database that may be left after a crash.
    floors: HashMap<Database, usize>,
}

/// Opens a database of the scratch machine.
pub fn open_scratch(vfs: &std::ffi::CStr, path: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags_and_vfs(path, flags, vfs)
}

impl History {
    /// Begins anew with one state, of which nothing may be lost.
    pub fn begin(&mut self, files: Files, time: u32) {
        *self = History::default();
        self.states.push(State { time, files });
    }

    /// The world may have reached another state. Files that are unclear are as they were before.
    pub fn push(&mut self, mut files: Files, time: u32, is_unclear: impl Fn(&str) -> bool) {
        if let Some(before) = self.states.last() {
            files.retain(|name, _| !is_unclear(name));
            let unclear = before.files.iter().filter(|(name, _)| is_unclear(name));
            files.extend(unclear.map(|(name, file)| (name.clone(), file.clone())));
        }
        self.states.push(State { time, files });
    }

    pub fn last(&self) -> usize {
        self.states.len() - 1
    }

    pub fn floor(&self, database: Database) -> usize {
        self.floors.get(&database).copied().unwrap_or(0)
    }

    /// Nothing before a state may be left.
    pub fn raise(&mut self, database: Database, state: usize) {
        let floor = self.floors.entry(database).or_default();
        *floor = state.max(*floor);
    }

    /// The states after one were acknowledged at a time.
    pub fn date(&mut self, state: usize, time: u32) {
        for later in self.states.iter_mut().skip(state.saturating_add(1)) {
            later.time = time;
        }
    }

    /// Nothing older than a time may be left.
    pub fn raise_by_time(&mut self, database: Database, time: u32) {
        if let Some(state) = self.states.iter().rposition(|state| state.time <= time) {
            self.raise(database, state);
        }
    }

    /// What a database was in a state, as plain SQLite has it after opening and closing it.
    pub fn content(
        &mut self,
        state: usize,
        database: Database,
        path: &str,
        scratch: &Machine,
        vfs: &std::ffi::CStr,
    ) -> Result<Rc<Content>, String> {
        if let Some(known) = self.contents.get(&(state, database)) {
            return Ok(Rc::clone(known));
        }
        scratch.put(self.states[state].files.clone());
        let connection = open_scratch(vfs, path).map_err(|error| error.to_string())?;
        let dump = sql::dump(&connection).map_err(|error| format!("plain SQLite: {error}"))?;
        drop(connection);
        let file = scratch.content(path);
        let content = Rc::new(Content { file, dump });
        self.contents.insert((state, database), Rc::clone(&content));
        Ok(content)
    }
}
