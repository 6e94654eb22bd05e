//! The symbols of a program by name.
//!
//! Names are not copied: in a hostile file each byte may belong to hundreds of names.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A symbol, whose name is a piece of the program's file.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    length: u16,
    is_exported: bool,
    address: u64,
}

impl Symbol {
    fn name<'data>(&self, data: &'data [u8]) -> &'data [u8] {
        data.get(self.start..self.start + usize::from(self.length)).unwrap_or_default()
    }
}

/// Symbols by name. All functions take the file of which the names are pieces.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    hasher: RandomState,
    table: HashTable<Symbol>,
}

impl Symbols {
    /// Adds a symbol, or gives a known one another address. A name that is no piece of the file is left out.
    pub(crate) fn insert(&mut self, data: &[u8], name: &str, address: u64, is_exported: bool) {
        let start = (name.as_ptr() as usize).checked_sub(data.as_ptr() as usize);
        let (Some(start), Ok(length)) = (start, u16::try_from(name.len())) else {
            return;
        };
        let new = Symbol { start, length, is_exported, address };
        if new.name(data) != name.as_bytes() {
            return;
        }
        let hasher = &self.hasher;
        let entry = self.table.entry(
            hasher.hash_one(name.as_bytes()),
            |known| known.name(data) == name.as_bytes(),
            |known| hasher.hash_one(known.name(data)),
        );
        match entry {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.address = address;
                known.is_exported |= is_exported;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(new);
            }
        }
    }

    fn get(&self, data: &[u8], name: &str) -> Option<&Symbol> {
        let hash = self.hasher.hash_one(name.as_bytes());
        self.table.find(hash, |known| known.name(data) == name.as_bytes())
    }

    pub(crate) fn address(&self, data: &[u8], name: &str) -> Option<u64> {
        self.get(data, name).map(|symbol| symbol.address)
    }

    pub(crate) fn is_exported(&self, data: &[u8], name: &str) -> bool {
        self.get(data, name).is_some_and(|symbol| symbol.is_exported)
    }

    /// The first symbol in alphabetic order whose name begins so.
    pub(crate) fn beginning<'data>(&self, data: &'data [u8], prefix: &str) -> Option<(&'data str, u64)> {
        let named = self.table.iter().map(|symbol| (symbol.name(data), symbol.address));
        let found = named.filter(|(name, _)| name.starts_with(prefix.as_bytes()));
        let (name, address) = found.min()?;
        Some((std::str::from_utf8(name).ok()?, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_pieces_of_the_file() {
        let file = "one\0two\0onerous\0".to_owned().into_bytes();
        let text = std::str::from_utf8(&file).expect("text");
        let mut symbols = Symbols::default();
        symbols.insert(&file, &text[0..3], 1, false);
        symbols.insert(&file, &text[4..7], 2, false);
        symbols.insert(&file, &text[8..15], 3, true);
        // The end of another name, the same name again, and text of another file.
        symbols.insert(&file, &text[10..15], 4, false);
        symbols.insert(&file, &text[8..11], 5, true);
        symbols.insert(&file, "elsewhere", 6, true);
        let found = |name: &str| symbols.address(&file, name);
        assert_eq!((found("one"), found("two")), (Some(5), Some(2)));
        assert_eq!((found("onerous"), found("erous")), (Some(3), Some(4)));
        assert_eq!((found("three"), found("elsewhere")), (None, None));
        assert!(symbols.is_exported(&file, "one") && !symbols.is_exported(&file, "two"));
        assert_eq!(symbols.beginning(&file, "on"), Some(("one", 5)));
        assert_eq!(symbols.beginning(&file, "x"), None);
        assert!(size_of::<Symbol>() <= 24);
    }
}
