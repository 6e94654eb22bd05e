//! The probabilities of references to pages, where the source of the references knows them.

/// The probabilities that the next reference is to a certain page; references are independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageProbability {
    /// The probability that it is to the page, to read or to write it.
    pub reference: f64,
    /// The probability that it writes the page; at most `reference`.
    pub write: f64,
}

/// The probabilities of all pages, for references that are independent of each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageProbabilities {
    /// By page number.
    pages: Vec<PageProbability>,
    /// Of each page beyond them.
    beyond: PageProbability,
}

impl PageProbabilities {
    /// The probabilities of the pages numbered from 0; no other page is ever referenced.
    pub fn from_pages(pages: Vec<PageProbability>) -> Self {
        PageProbabilities { pages, beyond: PageProbability::default() }
    }

    /// Every page has the probabilities `each`.
    pub fn alike(each: PageProbability) -> Self {
        PageProbabilities { pages: Vec::new(), beyond: each }
    }

    /// How probable a read and a write of page `page` are, each from 0 to 1.
    #[inline]
    pub fn for_page(&self, page: u64) -> PageProbability {
        let index = usize::try_from(page).ok();
        let found = index.and_then(|index| self.pages.get(index));
        found.copied().unwrap_or(self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_by_number_and_pages_beyond() {
        let [one, other] = [(0.75, 0.5), (0.25, 0.0)].map(|(reference, write)| PageProbability { reference, write });
        let numbered = PageProbabilities::from_pages(vec![one, other]);
        assert_eq!([numbered.for_page(0), numbered.for_page(1)], [one, other]);
        for page in [2, u64::MAX] {
            assert_eq!(numbered.for_page(page), PageProbability::default());
            assert_eq!(PageProbabilities::alike(other).for_page(page), other);
        }
    }
}
