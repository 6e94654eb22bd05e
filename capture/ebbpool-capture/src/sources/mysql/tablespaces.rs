//! Names of InnoDB's tablespaces, by the first pages of their files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hashbrown::{HashMap, HashSet};

use crate::foreign;
use crate::sources::open_files::{OpenFile, open_files};
use crate::target::Process;

/// A tablespace by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tablespace {
    /// The schema; empty for those that belong to none.
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// The number of a tablespace by the first bytes of its file; `None` if they are no tablespace's.
pub fn space_number(header: &[u8]) -> Option<u32> {
    // FIL_PAGE_OFFSET, FIL_PAGE_TYPE, FIL_PAGE_SPACE_ID and FSP_SPACE_ID of fil0types.h and fsp0types.h.
    const PAGE: usize = 4;
    const TYPE: usize = 24;
    const SPACE: usize = 34;
    const SPACE_AGAIN: usize = 38;
    const SPACE_HEADER: [u8; 2] = [0, 8];
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let space = number(SPACE)?;
    let is_first = number(PAGE)? == 0 && header.get(TYPE..TYPE + 2)? == SPACE_HEADER;
    (is_first && number(SPACE_AGAIN)? == space).then_some(space)
}

fn space_of_file(mut file: File) -> Option<u32> {
    let mut header = [0; 64];
    file.read_exact(&mut header).ok()?;
    space_number(&header)
}

/// Schema and name by the path of a tablespace's file. Those in the data directory itself belong to no schema.
fn named(path: &str, data: &str) -> (String, String) {
    let path = Path::new(path);
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    let directory = path.parent().unwrap_or(Path::new(""));
    let is_table = path.extension().is_some_and(|extension| extension == "ibd");
    match is_table && directory != Path::new(data) {
        true => (text(directory.file_name()), text(path.file_stem())),
        false => (String::new(), text(path.file_name())),
    }
}

/// The tablespaces of a server.
#[derive(Debug, Default)]
pub(super) struct Tablespaces {
    spaces: HashMap<u32, Tablespace>,
    /// Files that were looked at, by device and number.
    looked_at: HashSet<(u32, u64)>,
}

impl Tablespaces {
    fn add(&mut self, path: &str, space: u32, bytes: u64, data: &str) {
        let (schema, name) = named(path, data);
        let tablespace = Tablespace { schema, name, bytes };
        self.spaces.insert(space, tablespace);
    }

    /// Looks at the files that the server has opened since the last time.
    pub(super) fn refresh(&mut self, process: Process, data: &str) {
        for file in open_files(process) {
            let OpenFile { path, link, device, inode, bytes, .. } = file;
            if !self.looked_at.insert((device, inode)) {
                continue;
            }
            if let Some(space) = foreign::open_link(&link).ok().and_then(space_of_file) {
                self.add(&path, space, bytes, data);
            }
        }
    }

    /// Looks at the tables in the data directory that the server has not open.
    pub(super) fn look_at_tables(&mut self, process: Process, data: &str) {
        let Ok(directory) = process.directory("cwd") else {
            return;
        };
        for schema in directory.names(".") {
            let names = directory.names(&schema).into_iter();
            for name in names.filter(|name| name.ends_with(".ibd")) {
                let path = format!("{schema}/{name}");
                let file = directory.file(&path).ok();
                let Some(space) = file.and_then(space_of_file) else {
                    continue;
                };
                if !self.spaces.contains_key(&space) {
                    let bytes = directory.bytes(&path).unwrap_or(0);
                    self.add(&path, space, bytes, data);
                }
            }
        }
    }

    pub(super) fn find(&self, space: u32) -> Option<&Tablespace> {
        self.spaces.get(&space)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn header(space: u32) -> Vec<u8> {
        let mut header = vec![0; 64];
        header[24..26].copy_from_slice(&[0, 8]);
        header[34..38].copy_from_slice(&space.to_be_bytes());
        header[38..42].copy_from_slice(&space.to_be_bytes());
        header
    }

    #[test]
    fn numbers_of_tablespaces_are_read_from_first_pages() {
        assert_eq!(space_number(&header(7)), Some(7));
        assert_eq!(space_number(&header(0xffff_ffef)), Some(0xffff_ffef));
        assert_eq!(space_number(&header(7)[..41]), None);
        assert_eq!(space_number(&[]), None);
        for at in [7, 25, 37] {
            let mut wrong = header(7);
            wrong[at] ^= 1;
            assert_eq!(space_number(&wrong), None, "byte {at}");
        }
    }

    #[test]
    fn tables_have_schemas() {
        let name = |path: &str| {
            let (schema, name) = named(path, "/var/lib/mysql");
            format!("{schema}.{name}")
        };
        assert_eq!(name("/var/lib/mysql/shop/orders.ibd"), "shop.orders");
        assert_eq!(name("/data/shop/orders#p#p0.ibd"), "shop.orders#p#p0");
        assert_eq!(name("/var/lib/mysql/mysql.ibd"), ".mysql.ibd");
        assert_eq!(name("/var/lib/mysql/ibdata1"), ".ibdata1");
        assert_eq!(name("/var/lib/mysql/undo_001"), ".undo_001");
    }

    #[test]
    fn open_tablespaces_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("shop");
        fs::create_dir(&path).expect("a directory");
        let path = path.join("orders.ibd");
        fs::write(&path, header(7)).expect("written");
        let open = File::open(&path).expect("open");
        let mut spaces = Tablespaces::default();
        spaces.refresh(Process::current(), "/var/lib/mysql");
        drop(open);
        let expected = Tablespace { schema: "shop".into(), name: "orders".into(), bytes: 64 };
        assert_eq!(spaces.find(7), Some(&expected));
        assert_eq!(spaces.find(8), None);
    }
}
