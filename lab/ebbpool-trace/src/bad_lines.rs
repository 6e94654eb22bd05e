//! What readings of a trace leave out or find only while reading, for notes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::TraceError;

/// A note that arises while a trace is read, without the label of the part that it is about: the same bytes may have another name
/// later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateNote {
    /// The part, by its number in the source, then its number in that part if this is a source, and so on.
    pub(crate) part: Vec<usize>,
    /// The text before the label of the part.
    pub(crate) before: String,
    /// The text after it.
    pub(crate) after: String,
}

/// The lines left out so far: their number, and what was wrong with the first; and the words for writes of each part.
#[derive(Debug, Default)]
pub(crate) struct LeftOutLines {
    count: u64,
    /// The part of the first line, and the error after the part's label.
    first: (usize, String),
    words: Vec<(usize, WordsForWrites)>,
}

/// The words in the column of writes of a part that was read, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct WordsForWrites {
    /// The column, and the words that mean a write.
    pub(crate) expected: String,
    /// True if a line has one of them.
    pub(crate) is_found: bool,
    /// Some of the others, quoted.
    pub(crate) others: Vec<String>,
    /// True if the part was read to its end.
    pub(crate) is_read: bool,
    /// Words of lines that end pages, and how many there were.
    pub(crate) trimmed: Vec<(String, u64)>,
    /// Words of lines that were skipped, and how many there were.
    pub(crate) skipped: Vec<(String, u64)>,
    /// Requests without a time, or with an earlier one than those before, of a part that is merged by times.
    pub(crate) unordered: u64,
}

impl WordsForWrites {
    /// A note if lines had words, and none of them means a write.
    fn note(&self) -> Option<String> {
        let which = match self.is_read {
            true => "no line",
            false => "no line read so far",
        };
        (!self.is_found && !self.others.is_empty()).then(|| {
            format!(
                ": all references are reads, since {which} has {}; the first words there are {}",
                self.expected,
                self.others.join(", ")
            )
        })
    }
}

impl WordsForWrites {
    /// Notes on the lines that neither read nor write.
    fn others(&self) -> impl Iterator<Item = String> {
        let all = [
            (&self.trimmed, "trims, which end the pages that they cover as a whole"),
            (&self.skipped, "lines that neither read nor write are skipped"),
        ];
        let unordered = (self.unordered > 0).then(|| {
            format!(
                ": {} requests have no time, or an earlier one than those before, and count as made with the latest of these",
                self.unordered
            )
        });
        let all = all.into_iter().filter(|(words, _)| !words.is_empty()).map(|(words, what)| {
            let words: Vec<String> = words.iter().map(|(word, count)| format!("{count} {word}")).collect();
            format!(": {what}: {}", words.join(", "))
        });
        all.chain(unordered)
    }
}

impl LeftOutLines {
    /// Notes for the user.
    pub(crate) fn notes(&self) -> Vec<LateNote> {
        let (part, error) = &self.first;
        let before = match self.count {
            0 => None,
            1 => Some("left out 1 bad line: ".into()),
            count => Some(format!("left out {count} bad lines, the first: ")),
        };
        let left_out = before.map(|before| LateNote { part: vec![*part], before, after: error.clone() });
        let without_writes = self
            .words
            .iter()
            .filter_map(|(part, words)| Some(LateNote { part: vec![*part], before: String::new(), after: words.note()? }));
        let skipped = self
            .words
            .iter()
            .flat_map(|(part, words)| words.others().map(|after| LateNote { part: vec![*part], before: String::new(), after }));
        left_out.into_iter().chain(without_writes).chain(skipped).collect()
    }
}

/// Counts the bad lines of one reading of a trace.
#[derive(Debug, Clone)]
pub(crate) struct BadLines {
    allowed: u64,
    /// The part that is read.
    part: usize,
    count: Arc<Mutex<u64>>,
    /// The lines left out by the reading that got furthest.
    most: Arc<Mutex<LeftOutLines>>,
}

impl BadLines {
    /// For a new reading, which may leave out at most `allowed` lines.
    pub(crate) fn new(allowed: u64, most: &Arc<Mutex<LeftOutLines>>) -> BadLines {
        BadLines { allowed, part: 0, count: Arc::default(), most: Arc::clone(most) }
    }

    /// Counts the bad lines of the same reading, in the part with this number.
    pub(crate) fn in_part(&self, part: usize) -> BadLines {
        BadLines { part, ..self.clone() }
    }

    /// Takes what a reading has found in the column of writes so far.
    pub(crate) fn found_words(&self, words: WordsForWrites) {
        let mut most = lock(&self.most);
        match most.words.iter_mut().find(|(part, _)| *part == self.part) {
            Some((_, known)) => {
                known.is_found |= words.is_found;
                known.is_read |= words.is_read;
                known.unordered = known.unordered.max(words.unordered);
                if words.others.len() > known.others.len() {
                    known.others = words.others;
                }
                let sum = |words: &[(String, u64)]| words.iter().map(|(_, count)| count).sum::<u64>();
                for (known, words) in [(&mut known.skipped, words.skipped), (&mut known.trimmed, words.trimmed)] {
                    if sum(&words) >= sum(known) {
                        *known = words;
                    }
                }
            }
            None => most.words.push((self.part, words)),
        }
    }

    /// Leaves out the line that `error` is about; fails if that is one line too many.
    pub(crate) fn leave_out(&self, error: TraceError) -> Result<(), TraceError> {
        if self.allowed == 0 {
            return Err(error);
        }
        let mut count = lock(&self.count);
        if *count == self.allowed {
            return Err(TraceError::TooManyBadLines { allowed: self.allowed, error: Box::new(error) });
        }
        *count += 1;
        let mut most = lock(&self.most);
        if most.count == 0 {
            let text = error.to_string();
            let after = match &error {
                TraceError::Line { file, .. } | TraceError::Row { file, .. } => text.strip_prefix(file.as_str()),
                _ => None,
            };
            most.first = (self.part, after.unwrap_or(&text).into());
        }
        most.count = most.count.max(*count);
        Ok(())
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
