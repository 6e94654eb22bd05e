//! The databases of a process, and the pagers whose databases have no name yet.

use std::sync::Arc;

use hashbrown::HashMap;

/// The most databases that a capture distinguishes; a process can open new ones, or say so, for as long as it is captured.
const MOST_DATABASES: usize = 1 << 16;

/// The most pagers without a name.
const MOST_UNNAMED: usize = 1 << 14;

/// What stands for the databases beyond these.
const OTHERS: &str = "other databases";

/// A database of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Database {
    /// The path; `None` for databases in memory and temporary ones.
    pub(super) path: Option<Arc<str>>,
    pub(super) page_size: Option<u64>,
    pub(super) bytes: u64,
}

/// Databases by number.
#[derive(Debug, Default)]
pub(super) struct Databases {
    all: Vec<Database>,
    by_path: HashMap<Option<Arc<str>>, u32>,
    /// Pagers that were not seen to begin, and the databases that stand for theirs.
    unnamed: HashMap<u64, u32>,
}

impl Databases {
    pub(super) fn get(&self, number: u32) -> Option<&Database> {
        self.all.get(number as usize)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Database> {
        self.all.iter_mut()
    }

    fn add(&mut self, path: Option<Arc<str>>) -> u32 {
        let path = match self.all.len() {
            MOST_DATABASES => return MOST_DATABASES as u32 - 1,
            count if count == MOST_DATABASES - 1 => Some(OTHERS.into()),
            _ => path,
        };
        self.all.push(Database { path, ..Database::default() });
        self.all.len() as u32 - 1
    }

    /// The number of the database with this path; `None` stands for all temporary ones.
    pub(super) fn of_path(&mut self, path: Option<&str>) -> u32 {
        let path: Option<Arc<str>> = path.map(Arc::from);
        if let Some(&number) = self.by_path.get(&path) {
            return number;
        }
        let number = self.add(path.clone());
        if self.by_path.len() < MOST_DATABASES {
            self.by_path.insert(path, number);
        }
        number
    }

    /// A pager that was open when the capture began: its database gets a name while it is open, or at its end.
    pub(super) fn meet(&mut self, pager: u64) -> u32 {
        if self.unnamed.len() >= MOST_UNNAMED {
            self.unnamed.clear();
        }
        let number = self.add(None);
        self.unnamed.insert(pager, number);
        number
    }

    /// The database that stands for that of a pager without a name.
    pub(super) fn of_unnamed(&self, pager: u64) -> Option<u32> {
        self.unnamed.get(&pager).copied()
    }

    /// The pager has ended; returns the database that stood for its.
    pub(super) fn forget(&mut self, pager: u64) -> Option<u32> {
        self.unnamed.remove(&pager)
    }

    /// Any pager may have ended.
    pub(super) fn forget_all(&mut self) {
        self.unnamed.clear();
    }

    /// The pagers without a name.
    pub(super) fn unnamed(&self) -> Vec<u64> {
        self.unnamed.keys().copied().collect()
    }

    pub(super) fn name(&mut self, number: u32, path: &str) {
        let database = self.all.get_mut(number as usize);
        if let Some(database) = database.filter(|_| (number as usize) < MOST_DATABASES - 1) {
            database.path = Some(path.into());
        }
    }

    /// For each database, the first one that has its path.
    pub(super) fn first_of_paths(&self) -> Vec<u32> {
        let mut first = HashMap::new();
        let databases = self.all.iter().zip(0u32..);
        let found = databases.map(|(database, number)| *first.entry(&database.path).or_insert(number));
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_with_one_path_are_one() {
        let mut databases = Databases::default();
        let one = databases.of_path(Some("/srv/one.db"));
        let met = databases.meet(8);
        assert_eq!(databases.of_unnamed(8), Some(met));
        databases.name(met, "/srv/one.db");
        assert_eq!(databases.forget(8), Some(met));
        assert_eq!((databases.of_unnamed(8), databases.unnamed().len()), (None, 0));
        let lost = databases.meet(9);
        databases.forget_all();
        assert_eq!((databases.of_unnamed(9), databases.unnamed().len()), (None, 0));
        databases.name(lost, "/srv/two.db");
        let temporary = databases.of_path(None);
        assert_eq!(databases.of_path(Some("/srv/one.db")), one);
        assert_eq!(databases.first_of_paths(), [one, one, lost, temporary]);
    }

    #[test]
    fn a_process_that_opens_new_databases_for_ever_takes_no_more_memory() {
        let mut databases = Databases::default();
        for turn in 0..MOST_DATABASES as u64 {
            databases.of_path(Some(&format!("/srv/{turn}.db")));
            let met = databases.meet(turn);
            databases.name(met, &format!("/srv/met{turn}.db"));
        }
        assert_eq!(databases.all.len(), MOST_DATABASES);
        assert!(databases.by_path.len() <= MOST_DATABASES);
        assert!(databases.unnamed.len() <= MOST_UNNAMED);
        let last = databases.of_path(Some("/srv/new.db"));
        let path = databases.get(last).and_then(|last| last.path.as_deref());
        assert_eq!(path, Some(OTHERS));
        assert_eq!(databases.of_path(Some("/srv/7.db")), 14);
    }
}
