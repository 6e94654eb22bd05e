//! Classes of pages: by page number, by volume, by name, and those of several traces together.

use std::hash::Hash;

use hashbrown::HashMap;

use crate::error::TraceError;
use crate::formats::Decode;
use crate::reference::{Batch, OptionalColumns, PageClasses};

/// The most classes that are numbered as they appear: a column of other texts must not fill the memory.
const MOST_NAMES: usize = 1 << 20;

/// Adds the classes that follow from the page numbers.
pub(crate) struct ClassesByPage {
    decoder: Box<dyn Decode>,
    classes: PageClasses,
    /// The range of the last page.
    at: usize,
}

impl ClassesByPage {
    pub(crate) fn new(decoder: Box<dyn Decode>, classes: PageClasses) -> ClassesByPage {
        ClassesByPage { decoder, classes, at: 0 }
    }
}

/// The class of `page`; `at` remembers its range, because neighbours are often of the same class.
fn class_of(ranges: &[(u64, u32)], page: u64, at: &mut usize) -> u32 {
    let ends_before = |next: usize| ranges.get(next).is_some_and(|range| range.0 <= page);
    match ranges.get(*at) {
        Some(&(first, class)) if first <= page && !ends_before(*at + 1) => class,
        _ => match ranges.partition_point(|range| range.0 <= page) {
            0 => 0,
            after => {
                *at = after - 1;
                ranges[*at].1
            }
        },
    }
}

impl Decode for ClassesByPage {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let start = batch.classes.len();
        self.decoder.fill(batch, max)?;
        let ranges = self.classes.ranges();
        let pages = batch.pages.iter().skip(start);
        let classes = pages.map(|&page| class_of(ranges, page, &mut self.at));
        batch.classes.extend(classes);
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.decoder.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        Some(self.classes.clone())
    }

    fn columns(&self) -> OptionalColumns {
        self.decoder.columns()
    }
}

/// Numbers classes from 1, in order of appearance.
#[derive(Debug)]
pub struct ClassNumbers<K> {
    numbers: HashMap<K, u32>,
    names: Vec<String>,
    last: Option<(K, u32)>,
}

impl<K> Default for ClassNumbers<K> {
    fn default() -> ClassNumbers<K> {
        ClassNumbers { numbers: HashMap::new(), names: Vec::new(), last: None }
    }
}

impl<K: Hash + Eq + Clone> ClassNumbers<K> {
    /// The number of the class with this key; `name` names it when it appears. `None` if there are too many classes.
    pub fn number(&mut self, key: &K, name: impl FnOnce() -> String) -> Option<u32> {
        if let Some((last, number)) = &self.last
            && last == key
        {
            return Some(*number);
        }
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None if self.names.len() == MOST_NAMES => return None,
            None => {
                self.names.push(name());
                let number = self.names.len() as u32;
                self.numbers.insert(key.clone(), number);
                number
            }
        };
        self.last = Some((key.clone(), number));
        Some(number)
    }

    /// The classes that have appeared.
    pub fn classes(&self) -> PageClasses {
        PageClasses::named(self.names.clone())
    }
}

/// Gives the classes of several traces common numbers: classes of one name are one class. A class without a name is
/// called by its number.
#[derive(Debug, Default)]
pub(crate) struct CommonClasses {
    numbers: ClassNumbers<String>,
    /// The common number of each class of each part.
    of_parts: HashMap<(usize, u32), u32>,
}

impl CommonClasses {
    /// Enters the names of a part before its references.
    pub(crate) fn enter(&mut self, classes: &PageClasses) {
        for name in classes.names() {
            self.numbers.number(name, || name.clone());
        }
    }

    /// Gives `classes` of a part their common numbers; `own` has the names of that part.
    pub(crate) fn renumber(&mut self, part: usize, classes: &mut [u32], own: impl Fn() -> Option<PageClasses>) {
        for class in classes.iter_mut().filter(|class| **class > 0) {
            *class = match self.of_parts.get(&(part, *class)) {
                Some(&number) => number,
                None => {
                    let own = own().unwrap_or_default();
                    let name = own.name(*class).map_or_else(|| class.to_string(), str::to_owned);
                    let number = self.numbers.number(&name, || name.clone()).unwrap_or(0);
                    self.of_parts.insert((part, *class), number);
                    number
                }
            };
        }
    }

    /// The common classes so far.
    pub(crate) fn classes(&self) -> PageClasses {
        self.numbers.classes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_from_ranges() {
        let ranges = [(10, 3), (20, 0), (25, 1)];
        let mut at = 0;
        let classes = [9, 10, 19, 20, 24, 25, u64::MAX, 0, 12].map(|page| class_of(&ranges, page, &mut at));
        assert_eq!(classes, [0, 3, 3, 0, 0, 1, 1, 0, 3]);
        assert_eq!(class_of(&[], 5, &mut at), 0);
        assert!(PageClasses::from_ranges(Vec::new(), vec![(1, 1), (1, 2)]).is_none());
    }

    #[test]
    fn classes_of_one_name_are_one_class() {
        let names = |names: &[&str]| PageClasses::named(names.iter().map(|&n| n.into()).collect());
        let mut common = CommonClasses::default();
        let (first, second) = (names(&["a", "b"]), names(&["b", "c"]));
        common.enter(&first);
        common.enter(&second);
        let mut classes = [2, 0, 1, 7];
        common.renumber(0, &mut classes, || Some(first.clone()));
        assert_eq!(classes, [2, 0, 1, 4]);
        let mut classes = [2, 1, 7];
        common.renumber(1, &mut classes, || Some(second.clone()));
        assert_eq!(classes, [3, 2, 4]);
        assert_eq!(common.classes(), names(&["a", "b", "c", "7"]));
    }
}
