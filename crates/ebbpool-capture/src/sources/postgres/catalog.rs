//! Names of PostgreSQL's relations from the files of its data directory, without a connection.
//!
//! `pg_filenode.map` says which files have the catalogues; the rows of `pg_class` and `pg_database` on their pages have the
//! names. The files are as old as the last checkpoint: relations that were created since may have no name.

use std::fs;
use std::path::{Path, PathBuf};

use hashbrown::HashMap;

/// Numbers of the catalogues `pg_class` and `pg_database`, which are the same in every database.
const PG_CLASS: u32 = 1259;
const PG_DATABASE: u32 = 1262;

/// `template1`, whose `pg_class` describes the shared catalogues too.
const TEMPLATE1: u32 = 1;

/// `RELMAPPER_FILEMAGIC`, and the most entries of a map.
const MAP_MAGIC: u32 = 0x0059_2717;
const MOST_ENTRIES: u32 = 64;

/// Tablespaces of databases and of shared catalogues.
pub(crate) const DEFAULT_TABLESPACE: u32 = 1663;
pub(crate) const GLOBAL_TABLESPACE: u32 = 1664;

/// A relation by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRelation {
    /// The name, without the schema.
    pub name: String,
    /// `r` for tables, `i` for indexes, `t` for TOAST tables, `S` for sequences, `m` for materialised views.
    pub kind: char,
}

fn number16(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?).into())
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The number of the file that has a catalogue, by the contents of a `pg_filenode.map`.
pub fn mapped_file(map: &[u8], catalogue: u32) -> Option<u32> {
    if number32(map, 0)? != MAP_MAGIC {
        return None;
    }
    let entries = number32(map, 4)?.min(MOST_ENTRIES) as usize;
    let entry = (0..entries).find(|&entry| number32(map, 8 + 8 * entry) == Some(catalogue))?;
    number32(map, 12 + 8 * entry)
}

/// The page size that the header of a page states; `None` if it is none.
pub fn page_size(page: &[u8]) -> Option<usize> {
    let size = number16(page, 18)? & 0xff00;
    (size.is_power_of_two() && (1024..=32768).contains(&size)).then_some(size)
}

/// The columns of the rows on the pages of a table that were not deleted, as far as the rows themselves say.
pub fn rows(table: &[u8], page_size: usize) -> impl Iterator<Item = &[u8]> {
    table.chunks_exact(page_size.max(1)).flat_map(|page| {
        let end = number16(page, 12).unwrap_or(0).min(page.len());
        let pointers = (24..end.max(24)).step_by(4);
        pointers.filter_map(move |at| row(page, number32(page, at)?))
    })
}

/// The columns of the row at a line pointer: 15 bits of offset, 2 of state, 15 of length.
fn row(page: &[u8], pointer: u32) -> Option<&[u8]> {
    const NORMAL: u32 = 1;
    /// Flags of a row: its inserter did not commit, its inserter did, nothing deleted it, it is only locked.
    const XMIN_COMMITTED: usize = 0x0100;
    const XMIN_INVALID: usize = 0x0200;
    const XMAX_INVALID: usize = 0x0800;
    const ONLY_LOCKED: usize = 0x0080;
    let (offset, length) = ((pointer & 0x7fff) as usize, (pointer >> 17) as usize);
    if pointer >> 15 & 3 != NORMAL {
        return None;
    }
    let row = page.get(offset..offset + length)?;
    let (deleter, flags) = (number32(row, 4)?, number16(row, 20)?);
    let is_deleted = deleter != 0 && flags & (XMAX_INVALID | ONLY_LOCKED) == 0;
    let is_aborted = flags & (XMIN_COMMITTED | XMIN_INVALID) == XMIN_INVALID;
    if is_deleted || is_aborted {
        return None;
    }
    row.get(usize::from(*row.get(22)?)..)
}

/// A column of the type `name`.
fn name(columns: &[u8], at: usize) -> Option<String> {
    let bytes = columns.get(at..at + 64)?;
    let text = bytes.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A data directory.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    path: PathBuf,
    major: u32,
}

impl DataDirectory {
    /// The directory of a server of this major version.
    pub fn new(path: impl Into<PathBuf>, major: u32) -> DataDirectory {
        DataDirectory {
            path: path.into(),
            major,
        }
    }

    /// The directory of a database's files in the default tablespace; 0 stands for the shared catalogues.
    fn database(&self, database: u32) -> PathBuf {
        match database {
            0 => self.path.join("global"),
            database => self.path.join("base").join(database.to_string()),
        }
    }

    fn table(&self, database: u32, catalogue: u32) -> Option<Vec<u8>> {
        let directory = self.database(database);
        let map = fs::read(directory.join("pg_filenode.map")).ok()?;
        let file = mapped_file(&map, catalogue)?;
        fs::read(directory.join(file.to_string())).ok()
    }

    /// Bytes of a page, by the header of a catalogue's first page.
    pub fn page_size(&self) -> Option<usize> {
        page_size(&self.table(0, PG_DATABASE)?)
    }

    /// Names of databases by number.
    pub fn databases(&self) -> HashMap<u32, String> {
        let table = self.table(0, PG_DATABASE).unwrap_or_default();
        let size = page_size(&table).unwrap_or(8192);
        let found = rows(&table, size).filter_map(|row| Some((number32(row, 0)?, name(row, 4)?)));
        found.collect()
    }

    /// Relations of a database by the number of their file; 0 stands for the shared catalogues.
    pub fn relations(&self, database: u32) -> HashMap<u32, NamedRelation> {
        // Shared catalogues are described in every database.
        let described_in = if database == 0 { TEMPLATE1 } else { database };
        let table = self.table(described_in, PG_CLASS).unwrap_or_default();
        let size = page_size(&table).unwrap_or(8192);
        let map = fs::read(self.database(database).join("pg_filenode.map")).unwrap_or_default();
        let found = rows(&table, size).filter_map(|row| relation(row, self.major, &map));
        found.collect()
    }

    /// Pages of a relation's fork, by the size of its files. A file holds at most 1 GiB; the next has `.1` behind its name.
    pub fn pages(&self, key: &[u32; 4], page_size: usize) -> u64 {
        let [tablespace, database, relation, fork] = *key;
        let directory = match tablespace {
            DEFAULT_TABLESPACE | GLOBAL_TABLESPACE => self.database(database),
            tablespace => match self.tablespace(tablespace) {
                Some(directory) => directory.join(database.to_string()),
                None => return 0,
            },
        };
        let name = format!("{relation}{}", suffix(fork));
        let bytes = |file: &Path| fs::metadata(file).map(|metadata| metadata.len()).ok();
        let mut all = bytes(&directory.join(&name)).unwrap_or(0);
        let mut segment = 1;
        while let Some(more) = bytes(&directory.join(format!("{name}.{segment}"))) {
            all += more;
            segment += 1;
        }
        all / page_size.max(1) as u64
    }

    /// The directory of this version in a tablespace of its own.
    fn tablespace(&self, tablespace: u32) -> Option<PathBuf> {
        let link = self.path.join("pg_tblspc").join(tablespace.to_string());
        let version = format!("PG_{}_", self.major);
        let entries = fs::read_dir(link).ok()?.flatten();
        let mut found = entries.map(|entry| entry.path());
        found.find(|path| {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with(&version))
        })
    }
}

/// The name of a fork of a relation.
pub(crate) fn fork_name(fork: u32) -> &'static str {
    match fork {
        0 => "main",
        1 => "fsm",
        2 => "vm",
        _ => "init",
    }
}

/// What follows a relation's number in the name of its file.
fn suffix(fork: u32) -> String {
    match fork {
        0 => String::new(),
        fork => format!("_{}", fork_name(fork)),
    }
}

/// The file and the names in a row of `pg_class`. A relation whose file is 0 is in the map.
fn relation(row: &[u8], major: u32, map: &[u8]) -> Option<(u32, NamedRelation)> {
    const FILE: usize = 88;
    // PostgreSQL 18 has a column more before the kind (`relallfrozen`).
    let kind = if major >= 18 { 119 } else { 115 };
    let file = match number32(row, FILE)? {
        0 => mapped_file(map, number32(row, 0)?)?,
        file => file,
    };
    let relation = NamedRelation {
        name: name(row, 4)?,
        kind: char::from(*row.get(kind)?),
    };
    Some((file, relation))
}
