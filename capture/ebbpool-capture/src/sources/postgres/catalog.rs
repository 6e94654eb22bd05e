//! Names of PostgreSQL's relations from the files of its data directory, without a connection.
//!
//! `pg_filenode.map` says which files have the catalogues; the rows of `pg_class` and `pg_database` on their pages have the
//! names. The files are as old as the last checkpoint: relations that were created since may have no name.

use std::cell::Cell;
use std::path::Path;

use hashbrown::HashMap;

use crate::foreign::{ForeignDirectory, SMALL, TABLE};
use crate::target::Process;

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
    /// Bytes of a row without columns, and of the pointer to it: no page has more rows than these allow (`MaxHeapTuplesPerPage`).
    const LEAST_ROW: usize = 28;
    table.chunks_exact(page_size.max(1)).flat_map(|page| {
        let end = number16(page, 12).unwrap_or(0).min(page.len());
        let pointers = (24..end.max(24)).step_by(4).take(page.len() / LEAST_ROW);
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

/// The most files of a relation that are looked at, of 1 GiB each.
const MOST_SEGMENTS: u32 = 1 << 15;

/// The most files and names that are looked at of a data directory, about a second's work: a server that lies may name any number.
/// Relations beyond have the pages that were referenced.
const MOST_LOOKS: u64 = 1 << 18;

/// The last fork (`INIT_FORKNUM`); more is no event of PostgreSQL.
const LAST_FORK: u32 = 3;

/// True if relations of PostgreSQL may have a fork of this number.
pub(super) fn is_fork(fork: u32) -> bool {
    fork <= LAST_FORK
}

/// A data directory.
#[derive(Debug)]
pub struct DataDirectory {
    /// `None` if it cannot be looked at, and so has nothing in it.
    directory: Option<ForeignDirectory>,
    major: u32,
    /// Bytes of catalogues that may still be read.
    left: Cell<u64>,
    /// Files and names that may still be looked at.
    looks: Cell<u64>,
}

/// The most bytes of catalogues that are read of a server, which may have any number of databases.
const MOST_CATALOGUES: u64 = 4 * TABLE;

impl DataDirectory {
    /// The directory of a server of this major version, at a path of this process.
    pub fn new(path: impl AsRef<Path>, major: u32) -> DataDirectory {
        DataDirectory::of(ForeignDirectory::own(path.as_ref()).ok(), major)
    }

    /// The directory in which a server of this major version works.
    pub(super) fn of_server(process: Process, major: u32) -> DataDirectory {
        DataDirectory::of(process.directory("cwd").ok(), major)
    }

    fn of(directory: Option<ForeignDirectory>, major: u32) -> DataDirectory {
        DataDirectory { directory, major, left: Cell::new(MOST_CATALOGUES), looks: Cell::new(MOST_LOOKS) }
    }

    /// The directory, for that many looks into it; `None` if there were as many as may be.
    fn looked_into(&self, looks: u64) -> Option<&ForeignDirectory> {
        self.looks.set(self.looks.get().checked_sub(looks)?);
        self.directory.as_ref()
    }

    fn read(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        self.looked_into(1)?.read(path, most).ok()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let found = self.looked_into(1).map_or_else(Vec::new, |directory| directory.names(path));
        self.looks.set(self.looks.get().saturating_sub(found.len() as u64));
        found
    }

    fn bytes(&self, path: &str) -> Option<u64> {
        self.looked_into(1)?.bytes(path)
    }

    /// The directory of a database's catalogues, which may be in a tablespace of its own; 0 stands for the shared
    /// catalogues.
    fn database(&self, database: u32) -> String {
        if database == 0 {
            return "global".into();
        }
        let usual = format!("base/{database}");
        if self.bytes(&map_in(&usual)).is_some() {
            return usual;
        }
        let tablespaces = self.names("pg_tblspc").into_iter();
        let mut others = tablespaces.filter_map(|name| {
            let directory = self.tablespace(name.parse().ok()?)?;
            Some(format!("{directory}/{database}"))
        });
        let found = others.find(|other| self.bytes(&map_in(other)).is_some());
        found.unwrap_or(usual)
    }

    fn table(&self, database: u32, catalogue: u32) -> Option<Vec<u8>> {
        let directory = self.database(database);
        let map = self.read(&map_in(&directory), SMALL)?;
        let file = mapped_file(&map, catalogue)?;
        let path = format!("{directory}/{file}");
        let left = self.left.get();
        self.left.set(left.checked_sub(self.bytes(&path)?)?);
        self.read(&path, TABLE.min(left))
    }

    /// Bytes of a page, by the header of a catalogue's first page.
    pub fn page_size(&self) -> Option<usize> {
        page_size(&self.table(0, PG_DATABASE)?)
    }

    /// Names of the databases whose numbers are wanted, by number.
    pub fn databases(&self, is_wanted: impl Fn(u32) -> bool) -> HashMap<u32, String> {
        let table = self.table(0, PG_DATABASE).unwrap_or_default();
        let size = page_size(&table).unwrap_or(8192);
        let found = rows(&table, size).filter_map(|row| {
            let number = number32(row, 0).filter(|&number| is_wanted(number))?;
            Some((number, name(row, 4)?))
        });
        found.collect()
    }

    /// Relations of a database by the numbers of their files, as far as these are wanted; 0 stands for the shared catalogues.
    pub fn relations(&self, database: u32, is_wanted: impl Fn(u32) -> bool) -> HashMap<u32, NamedRelation> {
        // Shared catalogues are described in every database.
        let described_in = if database == 0 { TEMPLATE1 } else { database };
        let table = self.table(described_in, PG_CLASS).unwrap_or_default();
        let size = page_size(&table).unwrap_or(8192);
        let map = self.read(&map_in(&self.database(database)), SMALL);
        let map = map.unwrap_or_default();
        let found = rows(&table, size).filter_map(|row| {
            let file = file_of(row, &map).filter(|&file| is_wanted(file))?;
            Some((file, relation(row, self.major)?))
        });
        found.collect()
    }

    /// Pages of a relation's fork, by the size of its files. A file holds at most 1 GiB; the next has `.1` behind its name.
    pub fn pages(&self, key: &[u32; 4], page_size: usize) -> u64 {
        let [tablespace, database, relation, fork] = *key;
        let directory = match tablespace {
            // Else any number of databases would have the same file.
            GLOBAL_TABLESPACE if database != 0 => return 0,
            GLOBAL_TABLESPACE => "global".to_owned(),
            DEFAULT_TABLESPACE => format!("base/{database}"),
            tablespace => match self.tablespace(tablespace) {
                Some(directory) => format!("{directory}/{database}"),
                None => return 0,
            },
        };
        let file = format!("{directory}/{relation}{}", suffix(fork));
        let mut all = self.bytes(&file).unwrap_or(0);
        for segment in 1..MOST_SEGMENTS {
            let Some(more) = self.bytes(&format!("{file}.{segment}")) else {
                break;
            };
            all = all.saturating_add(more);
        }
        all / page_size.max(1) as u64
    }

    /// The directory of this version in a tablespace of its own.
    fn tablespace(&self, tablespace: u32) -> Option<String> {
        let link = format!("pg_tblspc/{tablespace}");
        let version = format!("PG_{}_", self.major);
        let mut names = self.names(&link).into_iter();
        let found = names.find(|name| name.starts_with(&version))?;
        Some(format!("{link}/{found}"))
    }
}

/// The map of the files in a database's directory.
fn map_in(directory: &str) -> String {
    format!("{directory}/pg_filenode.map")
}

/// The name of a fork of a relation.
pub fn fork_name(fork: u32) -> &'static str {
    match fork {
        0 => "main",
        1 => "fsm",
        2 => "vm",
        LAST_FORK => "init",
        _ => "unknown",
    }
}

/// What follows a relation's number in the name of its file.
fn suffix(fork: u32) -> String {
    match fork {
        0 => String::new(),
        fork => format!("_{}", fork_name(fork)),
    }
}

/// The file in a row of `pg_class`. A relation whose file is 0 is in the map.
fn file_of(row: &[u8], map: &[u8]) -> Option<u32> {
    const FILE: usize = 88;
    match number32(row, FILE)? {
        0 => mapped_file(map, number32(row, 0)?),
        file => Some(file),
    }
}

/// The names in a row of `pg_class`.
fn relation(row: &[u8], major: u32) -> Option<NamedRelation> {
    // PostgreSQL 18 has a column more before the kind (`relallfrozen`).
    let kind = if major >= 18 { 119 } else { 115 };
    Some(NamedRelation { name: name(row, 4)?, kind: char::from(*row.get(kind)?) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use hashbrown::HashSet;

    use super::*;

    /// A table of that many pages with rows of `pg_class` one byte apart, whose files have different numbers.
    fn overlapping_rows(pages: usize) -> Vec<u8> {
        let mut page = vec![0u8; 8192];
        let pointers = 1000usize;
        page[12..14].copy_from_slice(&(24 + 4 * pointers as u16).to_le_bytes());
        page[18..20].copy_from_slice(&(8192u16 | 4).to_le_bytes());
        for at in 0..pointers {
            let pointer = (24 + 4 * pointers + at) as u32 | 1 << 15 | 300 << 17;
            page[24 + 4 * at..28 + 4 * at].copy_from_slice(&pointer.to_le_bytes());
        }
        // Bit 3 of a row's flags says that nothing has deleted it; its columns begin behind 8 bytes.
        let mut numbers = 0u32;
        for byte in &mut page[24 + 4 * pointers..] {
            numbers = numbers.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = 8 | (numbers >> 24) as u8 & 0x40;
        }
        page.repeat(pages)
    }

    #[test]
    fn names_take_no_more_memory_than_the_relations_that_were_requested() {
        let data = tempfile::tempdir().expect("a folder");
        let path = |name: &str| data.path().join(name);
        let mut map = Vec::new();
        for word in [MAP_MAGIC, 1, PG_CLASS, 7] {
            map.extend(word.to_le_bytes());
        }
        fs::create_dir_all(path("base/5")).expect("a folder");
        fs::write(path("base/5/pg_filenode.map"), &map).expect("written");
        fs::write(path("base/5/7"), overlapping_rows(4)).expect("written");
        let directory = DataDirectory::new(data.path(), 15);
        let table = overlapping_rows(4);
        let files: HashSet<u32> = rows(&table, 8192).filter_map(|row| file_of(row, &map)).collect();
        assert!(files.len() > 10, "{}", files.len());
        let one = files.iter().copied().next();
        let found = directory.relations(5, |file| files.contains(&file));
        assert_eq!(found.len(), files.len());
        let found = directory.relations(5, |file| Some(file) == one);
        assert_eq!(found.len(), 1);
        // However many databases a server names, its catalogues are read up to a limit in all.
        let file = fs::File::create(path("base/5/7")).expect("a file");
        file.set_len(TABLE).expect("a size");
        let read = (0..6).filter(|_| directory.table(5, PG_CLASS).is_some());
        assert!(read.count() < 4);
    }

    #[test]
    fn a_database_is_found_in_a_tablespace_of_its_own() {
        let (data, space) = (tempfile::tempdir(), tempfile::tempdir());
        let (data, space) = (data.expect("a folder"), space.expect("a folder"));
        let make = |path: &str| fs::create_dir_all(path).expect("a folder");
        let (data, space) = (data.path().display(), space.path().display());
        make(&format!("{data}/base/5"));
        make(&format!("{data}/pg_tblspc"));
        symlink(space.to_string(), format!("{data}/pg_tblspc/16500")).expect("a link");
        for other in ["PG_14_202107181", "PG_15_202209061"] {
            make(&format!("{space}/{other}/16384"));
        }
        let theirs = format!("{space}/PG_15_202209061/16384");
        let map = "pg_filenode.map";
        fs::write(format!("{data}/base/5/{map}"), "map").expect("written");
        fs::write(format!("{theirs}/{map}"), "map").expect("written");
        fs::write(format!("{theirs}/7"), vec![0; 3 * 8192]).expect("written");
        fs::write(format!("{theirs}/7.1"), vec![0; 8192]).expect("written");
        let directory = DataDirectory::new(data.to_string(), 15);
        assert_eq!(directory.database(5), "base/5");
        let expected = "pg_tblspc/16500/PG_15_202209061/16384";
        assert_eq!(directory.database(16384), expected);
        assert_eq!(directory.pages(&[16500, 16384, 7, 0], 8192), 4);
        assert_eq!(directory.pages(&[16501, 16384, 7, 0], 8192), 0);
        assert_eq!(directory.database(9), "base/9");
    }

    #[test]
    fn a_server_with_any_number_of_files_is_looked_at_for_a_second() {
        let data = tempfile::tempdir().expect("a folder");
        let path = |name: &str| data.path().join(name);
        fs::create_dir_all(path("base/5")).expect("a folder");
        fs::write(path("base/5/7"), vec![0; 3 * 8192]).expect("written");
        for segment in 1..100 {
            fs::hard_link(path("base/5/7"), path(&format!("base/5/7.{segment}"))).expect("a link");
        }
        // Tablespaces in which each database is looked for.
        for tablespace in 0..100 {
            fs::create_dir_all(path(&format!("pg_tblspc/{tablespace}/PG_15_1"))).expect("a folder");
        }
        let directory = DataDirectory::new(data.path(), 15);
        assert_eq!(directory.pages(&[DEFAULT_TABLESPACE, 5, 7, 0], 8192), 300);
        assert_eq!(directory.pages(&[GLOBAL_TABLESPACE, 5, 7, 0], 8192), 0);
        let before = directory.looks.get();
        directory.database(9);
        assert!((300..700).contains(&(before - directory.looks.get())));
        for database in 0..10_000 {
            directory.database(database);
        }
        assert_eq!(directory.looks.get(), 0);
        assert_eq!(directory.pages(&[DEFAULT_TABLESPACE, 5, 7, 0], 8192), 0);
    }
}
