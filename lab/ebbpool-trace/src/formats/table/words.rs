//! The column of a CSV that says what each line does.

use csv::ByteRecord;
use ebbpool_cost::one_line;

use super::{Action, BadField, Field, is_like};
use crate::bad_lines::WordsForWrites;
use crate::columns::{Columns, WriteColumn};
use crate::error::quoted;

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Of(Action),
    /// It waits for writes, or is of no account.
    Skip,
}

const READ: Operation = Operation::Of(Action::Read);
const WRITE: Operation = Operation::Of(Action::Write);
const TRIM: Operation = Operation::Of(Action::Trim);

/// What a word means wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Read,
    Write,
    Trim,
    Flush,
}

const READS: [&str; 10] = ["read", "r", "rd", "get", "pread", "pread64", "readv", "preadv", "readahead", "read_fua"];
const WRITES: [&str; 12] =
    ["write", "w", "wr", "put", "set", "pwrite", "pwrite64", "writev", "pwritev", "write_fua", "write_same", "write_zeroes"];
const TRIMS: [&str; 4] = ["trim", "discard", "unmap", "deallocate"];
const FLUSHES: [&str; 8] = ["flush", "sync", "fsync", "fdatasync", "syncfs", "barrier", "synchronize_cache", "nop"];

/// Answers to a question: of `is_write` 1 is a write, of `is_read` a read, and of `op` either.
const NO: [&str; 5] = ["0", "false", "f", "n", "no"];
const YES: [&str; 5] = ["1", "true", "t", "y", "yes"];
const SAY_WRITE: [&str; 6] = ["write", "iswrite", "dirty", "isdirty", "modified", "ismodified"];
/// Names of a column of the block layer's letters.
const SAY_LETTERS: [&str; 1] = ["rwbs"];

/// What the name of a column says of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    IsWrite,
    Letters,
    Open,
}

impl Question {
    fn of(name: &str) -> Question {
        let whole: String = name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect();
        match name {
            _ if SAY_WRITE.contains(&whole.as_str()) => Question::IsWrite,
            name if is_like(name, &SAY_LETTERS) => Question::Letters,
            _ => Question::Open,
        }
    }

    fn meaning(self, word: &[u8]) -> Option<Meaning> {
        let is_one_of = |words: &[&str]| words.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(word));
        let lists: [(&[&str], Meaning); 4] =
            [(&READS, Meaning::Read), (&WRITES, Meaning::Write), (&TRIMS, Meaning::Trim), (&FLUSHES, Meaning::Flush)];
        let listed = || lists.iter().find(|(words, _)| is_one_of(words)).map(|(_, meaning)| *meaning);
        match self {
            Question::IsWrite if is_one_of(&NO) => Some(Meaning::Read),
            Question::IsWrite if is_one_of(&YES) => Some(Meaning::Write),
            Question::IsWrite => listed(),
            Question::Letters => of_block_layer(word),
            // D, F and N alone have too many meanings.
            Question::Open => {
                let letters = || of_block_layer(word).filter(|meaning| matches!(meaning, Meaning::Read | Meaning::Write));
                listed().or_else(letters)
            }
        }
    }
}

/// The letters of Linux's block layer (blkparse(1), RWBS): `F` for a flush before, an operation, and flags in their order.
fn of_block_layer(word: &[u8]) -> Option<Meaning> {
    let rest = word.strip_prefix(b"F").filter(|rest| matches!(rest.first(), Some(b'R' | b'W' | b'D' | b'F'))).unwrap_or(word);
    // Zoned devices: a reset ends the pages of a zone, an append writes.
    match rest {
        [b'Z', b'R', flags @ ..] if flags.iter().all(|flag| b"AS".contains(flag)) => return Some(Meaning::Trim),
        [b'Z', b'A', flags @ ..] if flags.iter().all(|flag| b"FSM".contains(flag)) => return Some(Meaning::Write),
        _ => {}
    }
    let (operation, mut flags) = rest.split_first()?;
    for flag in [&b"E"[..], b"F", b"A", b"S", b"M"] {
        let is_erase = flag != b"E" || *operation == b'D';
        flags = flags.strip_prefix(flag).filter(|_| is_erase).unwrap_or(flags);
    }
    match operation {
        _ if !flags.is_empty() => None,
        b'R' => Some(Meaning::Read),
        b'W' => Some(Meaning::Write),
        b'D' => Some(Meaning::Trim),
        b'F' | b'N' => Some(Meaning::Flush),
        _ => None,
    }
}

/// The field that says what a record does.
#[derive(Debug, Default)]
pub(super) enum WriteField {
    /// All read.
    #[default]
    Never,
    Words(Field, Box<Words>),
}

/// True if a column of this name has true or 1 for a write, and the user says no more of its words.
pub(super) fn is_plain(column: &WriteColumn, name: &str) -> bool {
    let named = [&column.values, &column.reads, &column.trims, &column.skipped];
    named.iter().all(|values| values.is_empty()) && Question::of(name) == Question::IsWrite
}

/// The words of the user, and those met.
#[derive(Debug)]
pub(super) struct Words {
    column: WriteColumn,
    /// All columns, for answers.
    columns: Columns,
    question: Question,
    /// Words whose meaning is known by now.
    known: Vec<(Vec<u8>, Operation)>,
    /// Lines with words that were skipped.
    skipped: Vec<(Vec<u8>, &'static str, u64)>,
    /// Those with a word for which there is no room there.
    others_skipped: u64,
    /// True once a record had a word that writes.
    is_found: bool,
    /// Some of the other words, for a note should none be found.
    others: Vec<Vec<u8>>,
    /// True if a record has changed one of these since the last news.
    is_news: bool,
}

/// Of the words counted, those that end pages.
const TRIMS_NOTE: &str = "trims";

/// The most words that are remembered: a column of numbers has as many as lines.
const MOST: usize = 32;
/// Others that a note names.
const MOST_OTHERS: usize = 4;

impl WriteField {
    /// The field that `column` of `columns` names; `name` is what the column is called.
    pub(super) fn new(field: Field, column: WriteColumn, columns: Columns, name: &str) -> WriteField {
        let words = Words {
            column,
            columns,
            question: Question::of(name),
            known: Vec::new(),
            skipped: Vec::new(),
            others_skipped: 0,
            is_found: false,
            others: Vec::new(),
            is_news: false,
        };
        WriteField::Words(field, Box::new(words))
    }

    /// What a record does.
    pub(super) fn of<'a>(&mut self, record: &'a ByteRecord) -> Result<Operation, BadField<'a>> {
        match self {
            WriteField::Never => Ok(READ),
            WriteField::Words(field, words) => {
                let text = record.get(field.at).unwrap_or_default().trim_ascii();
                words.of(text).map_err(|expected| (expected, text))
            }
        }
    }

    /// The answer that skips records with the word of this one.
    pub(super) fn answer_skipping(&self, record: &ByteRecord) -> Option<String> {
        let WriteField::Words(field, words) = self else {
            return None;
        };
        let text = record.get(field.at).unwrap_or_default().trim_ascii();
        Some(words.with(&|write| write.skipped.push(String::from_utf8_lossy(text).into_owned())))
    }

    /// What the records so far had in the column, if there is something new.
    pub(super) fn news(&mut self, is_read: bool, empty: u64, (others, unmet): (u64, Option<String>)) -> Option<WordsForWrites> {
        let without = unmet.map_or(String::new(), |unmet| format!(", of whose values no line has {unmet}"));
        let counted = [("requests of no page".to_owned(), empty), (format!("left out by only={without}"), others)];
        let counted: Vec<(String, u64)> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
        let WriteField::Words(field, words) = self else {
            let words = WordsForWrites { is_read, skipped: counted, ..WordsForWrites::default() };
            return Some(words).filter(|words| !words.skipped.is_empty());
        };
        if !std::mem::take(&mut words.is_news) && !is_read && counted.is_empty() {
            return None;
        }
        let values: Vec<String> = words.column.values.iter().map(|word| quoted(word.as_bytes())).collect();
        Some(WordsForWrites {
            expected: match values.is_empty() {
                true => format!("a word for a write in column '{}'", one_line(&field.name)),
                false => format!("{} in column '{}'", values.join(", "), one_line(&field.name)),
            },
            is_found: words.is_found,
            others: words.others.iter().map(|word| quoted(word)).collect(),
            is_read,
            unordered: 0,
            trimmed: words
                .skipped
                .iter()
                .filter(|(_, what, _)| *what == TRIMS_NOTE)
                .map(|(word, _, count)| (quoted(word), *count))
                .collect(),
            skipped: words
                .skipped
                .iter()
                .filter(|(_, what, _)| *what != TRIMS_NOTE)
                .map(|(word, what, count)| (format!("{} ({what})", quoted(word)), *count))
                .chain((words.others_skipped > 0).then(|| ("others".to_owned(), words.others_skipped)))
                .chain(counted)
                .collect(),
        })
    }
}

impl Words {
    /// What a word means; the error says what was expected.
    fn of(&mut self, word: &[u8]) -> Result<Operation, String> {
        let known = self.known.iter().find(|(it, _)| it == word).map(|(_, operation)| *operation);
        let operation = match known {
            Some(operation) => operation,
            None => {
                let operation = self.meaning_of(word)?;
                if self.known.len() < MOST {
                    self.known.push((word.to_vec(), operation));
                }
                operation
            }
        };
        match operation {
            WRITE => {
                self.is_news |= !self.is_found;
                self.is_found = true;
            }
            READ if !self.is_found && self.others.len() < MOST_OTHERS => {
                const LONGEST: usize = 64;
                let word = &word[..word.len().min(LONGEST)];
                if !self.others.iter().any(|other| other == word) {
                    self.others.push(word.to_vec());
                    self.is_news = true;
                }
            }
            READ => {}
            TRIM | Operation::Skip => self.count(word, operation),
        }
        Ok(operation)
    }

    /// Counts a line that neither reads nor writes.
    fn count(&mut self, word: &[u8], operation: Operation) {
        self.is_news = true;
        if let Some((_, _, count)) = self.skipped.iter_mut().find(|(it, _, _)| it == word) {
            *count += 1;
            return;
        }
        let what = match self.question.meaning(word) {
            _ if operation == TRIM => TRIMS_NOTE,
            Some(Meaning::Flush) => "flushes",
            _ => "by skip=",
        };
        if self.skipped.len() < MOST {
            self.skipped.push((word.to_vec(), what, 1));
        } else {
            self.others_skipped += 1;
        }
    }

    /// The columns as an answer, with another meaning of words.
    fn with(&self, change: &dyn Fn(&mut WriteColumn)) -> String {
        let mut write = self.column.clone();
        change(&mut write);
        Columns { write: Some(write), ..self.columns.clone() }.option()
    }

    fn meaning_of(&self, word: &[u8]) -> Result<Operation, String> {
        let WriteColumn { column, values, reads, trims, skipped } = &self.column;
        let column = one_line(column);
        let lists = [(values, WRITE), (reads, READ), (trims, TRIM), (skipped, Operation::Skip)];
        let of = |it: &[u8]| lists.iter().find(|(list, _)| list.iter().any(|value| value.as_bytes() == it)).map(|(_, it)| *it);
        if let Some(operation) = of(word) {
            return Ok(operation);
        }
        let others = of(WriteColumn::OTHERS.as_bytes());
        let meaning = self.question.meaning(word);
        let is_one_of = |words: &[&str], it: &[u8]| words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(it));
        // Who says that 0 writes says that 1 reads.
        let (is_no, is_yes) = (is_one_of(&NO, word), is_one_of(&YES, word));
        let is_other_answer = values
            .iter()
            .any(|value| (is_no && is_one_of(&YES, value.as_bytes())) || (is_yes && is_one_of(&NO, value.as_bytes())));
        let is_inverted = values.iter().any(|value| self.question.meaning(value.as_bytes()) == Some(Meaning::Read));
        match meaning {
            Some(Meaning::Flush) => return Ok(Operation::Skip),
            Some(Meaning::Trim) => return Ok(TRIM),
            Some(Meaning::Write) if values.is_empty() => return Ok(WRITE),
            Some(Meaning::Write) if is_inverted => return Ok(READ),
            Some(Meaning::Read) => return Ok(READ),
            _ if is_other_answer => return Ok(READ),
            // A word that writes elsewhere is no other value for reading.
            Some(Meaning::Write) if others != Some(WRITE) => {}
            _ => {
                if let Some(others) = others {
                    return Ok(others);
                }
            }
        }
        let is_typed = std::str::from_utf8(word).is_ok_and(|word| !word.chars().any(char::is_control));
        if !is_typed {
            return Err(format!("words in UTF-8 without control characters in column '{}'", column));
        }
        // The answers, each whole.
        let shown = || String::from_utf8_lossy(word).into_owned();
        let with = |change: &dyn Fn(&mut WriteColumn)| self.with(change);
        let writes = with(&|write| write.values.push(shown()));
        let reads = with(&|write| write.reads.push(shown()));
        let trims = with(&|write| write.trims.push(shown()));
        let skips = with(&|write| write.skipped.push(shown()));
        let known = match values.is_empty() {
            true => "a word such as W or R, write or read".to_owned(),
            false => {
                format!("{} or a word for reading", values.iter().map(|it| format!("'{it}'")).collect::<Vec<_>>().join(", "))
            }
        };
        Err(match values.is_empty() {
            // The others read where only the word for a write is known.
            true if (is_no || is_yes) && !is_one_of(&["t", "f", "y", "n"], word) => format!(
                "{known} in column '{column}', since in some traces 1 is a write, in others 0: if '{}' is a write {writes}, else the value that is, as in {}",
                shown(),
                with(&|write| write.values.push(if is_no { "1" } else { "0" }.to_owned()))
            ),
            true => format!(
                "{known} in column '{column}': for '{}' {reads} if it reads, {trims} if it ends pages, {skips} if it does none of these; if it is a write {writes}",
                shown()
            ),
            false => format!(
                "{known} in column '{column}': for '{}' {writes} if it is a write, {reads} if it reads, {trims} if it ends pages, {skips} if it does none of these",
                shown()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_block_layer() {
        let letters = [
            "R", "RA", "RS", "WS", "WSM", "FWFS", "WFS", "D", "DS", "DE", "F", "FF", "FN", "N", "FD", "X", "", "RW", "REM",
            "NA", "WAVES", "ZR", "ZAS", "ZO",
        ];
        let found: Vec<_> = letters.iter().map(|word| of_block_layer(word.as_bytes())).collect();
        use Meaning::{Flush, Read, Trim, Write};
        let expected = [
            Some(Read),
            Some(Read),
            Some(Read),
            Some(Write),
            Some(Write),
            Some(Write),
            Some(Write),
            Some(Trim),
            Some(Trim),
            Some(Trim),
            Some(Flush),
            Some(Flush),
            None,
            Some(Flush),
            Some(Trim),
            None,
            None,
            None,
            None,
            Some(Flush),
            None,
            Some(Trim),
            Some(Write),
            None,
        ];
        assert_eq!(found, expected);
    }

    fn words(column: &str, name: &str) -> Words {
        let columns: Columns = format!("page=p,{column}").parse().unwrap();
        let write = columns.write.clone().unwrap();
        match WriteField::new(Field { at: 0, name: name.to_owned() }, write, columns, name) {
            WriteField::Words(_, words) => *words,
            WriteField::Never => panic!("no words"),
        }
    }

    /// Words, and what each means: r, w, t(rim), s(kip), or ? for a question that the error asks.
    #[test]
    fn each_word_is_known_or_asked_for() {
        for (column, name, expected) in [
            (
                "write=op",
                "op",
                "R:r W:w read:r WRITE:w UNMAP:t flush:s pwrite64:w WS:w FF:? D:? N:? NA:? X:? 1:? 0:? true:? Y:?",
            ),
            ("write=dirty", "dirty", "1:w 0:r 2:? N:r Y:w t:w F:r false:r D:?"),
            ("write=isDirty", "isDirty", "1:w False:r"),
            ("write=rwbs", "rwbs", "R:r FWFS:w D:t FF:s N:s NA:s X:? 1:?"),
            ("write=is_read", "is_read", "1:? true:? 0:? N:?"),
            ("write=is_read:0", "is_read", "1:r 0:w"),
            ("write=op:W", "op", "W:w R:r RA:r D:? FF:? WS:? X:? w:? 1:? 0:? TRIM:t"),
            ("write=op:Y", "op", "Y:w N:r y:? no:r R:r"),
            ("write=op:1", "op", "1:w 0:r 2:?"),
            ("write=op:0", "op", "0:w 1:r 2:?"),
            ("write=op:R", "op", "R:w W:r"),
            ("write=op:W,read=op:X,skip=op:Y|R", "op", "W:w X:r Y:s R:s Z:?"),
            ("write=op:W,trim=op:X,skip=op:UNMAP", "op", "W:w X:t UNMAP:s TRIM:t Z:?"),
            ("write=op:W,read=op:*", "op", "W:w WS:? X:r UNMAP:t 0:r"),
            ("write=op:*,read=op:R", "op", "W:w R:r X:w UNMAP:t"),
        ] {
            for pair in expected.split(' ') {
                let (word, meaning) = pair.split_once(':').unwrap();
                let found = match words(column, name).of(word.as_bytes()) {
                    Ok(READ) => "r",
                    Ok(WRITE) => "w",
                    Ok(TRIM) => "t",
                    Ok(Operation::Skip) => "s",
                    Err(question) => {
                        assert!(question.contains("--columns"), "{question}");
                        "?"
                    }
                };
                assert_eq!(found, meaning, "{column}: {word}");
            }
        }
    }
}
