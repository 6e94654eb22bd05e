//! The column of a CSV that says what each line does.

use csv::ByteRecord;
use ebbpool_cost::one_line;

use super::{BadField, CsvField};
use crate::bad_lines::WordsForWrites;
use crate::columns::WriteColumn;
use crate::error::quoted;

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    /// It ends pages, waits for writes, or is of no account.
    Skip,
}

/// What a word means wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Read,
    Write,
    Trim,
    Flush,
}

const READS: [&str; 12] =
    ["read", "r", "rd", "false", "0", "get", "pread", "pread64", "readv", "preadv", "readahead", "read_fua"];
const WRITES: [&str; 14] = [
    "write", "w", "wr", "true", "1", "put", "set", "pwrite", "pwrite64", "writev", "pwritev", "write_fua", "write_same",
    "write_zeroes",
];
const TRIMS: [&str; 4] = ["trim", "discard", "unmap", "deallocate"];
const FLUSHES: [&str; 8] = ["flush", "sync", "fsync", "fdatasync", "syncfs", "barrier", "synchronize_cache", "nop"];

/// Names of a column in which 1 can only mean a write.
const SAY_WRITE: [&str; 5] = ["write", "is_write", "iswrite", "dirty", "writes"];

fn meaning(word: &[u8]) -> Option<Meaning> {
    let is_one_of = |words: &[&str]| words.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(word));
    let lists: [(&[&str], Meaning); 4] =
        [(&READS, Meaning::Read), (&WRITES, Meaning::Write), (&TRIMS, Meaning::Trim), (&FLUSHES, Meaning::Flush)];
    let listed = lists.iter().find(|(words, _)| is_one_of(words)).map(|(_, meaning)| *meaning);
    listed.or_else(|| of_block_layer(word))
}

/// The letters of Linux's block layer (blkparse(1), RWBS): an operation, behind `F` for a flush before it, and flags.
fn of_block_layer(word: &[u8]) -> Option<Meaning> {
    let rest = word.strip_prefix(b"F").filter(|rest| matches!(rest.first(), Some(b'R' | b'W' | b'D'))).unwrap_or(word);
    let (operation, flags) = rest.split_first()?;
    if !flags.iter().all(|flag| b"FASMVE".contains(flag)) {
        return None;
    }
    match operation {
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
    Words(CsvField, Box<Words>),
}

/// The words of the user, and those met.
#[derive(Debug)]
pub(super) struct Words {
    column: WriteColumn,
    /// True if 0 and 1 mean what they seem to.
    has_numbers: bool,
    /// Words whose meaning is known by now.
    known: Vec<(Vec<u8>, Operation)>,
    /// Lines with words that were skipped.
    skipped: Vec<(Vec<u8>, &'static str, u64)>,
    /// True once a record had a word that writes.
    is_found: bool,
    /// Some of the other words, for a note should none be found.
    others: Vec<Vec<u8>>,
    /// True if a record has changed one of these since the last news.
    is_news: bool,
}

/// The most words that are remembered: a column of numbers has as many as lines.
const MOST: usize = 32;
/// Others that a note names.
const MOST_OTHERS: usize = 4;

impl WriteField {
    pub(super) fn new(field: CsvField, column: WriteColumn) -> WriteField {
        let has_numbers = SAY_WRITE.iter().any(|name| name.eq_ignore_ascii_case(&field.name));
        let words = Words {
            column,
            has_numbers,
            known: Vec::new(),
            skipped: Vec::new(),
            is_found: false,
            others: Vec::new(),
            is_news: false,
        };
        WriteField::Words(field, Box::new(words))
    }

    /// What a record does.
    pub(super) fn of<'a>(&mut self, record: &'a ByteRecord) -> Result<Operation, BadField<'a>> {
        match self {
            WriteField::Never => Ok(Operation::Read),
            WriteField::Words(field, words) => {
                let text = record.get(field.at).unwrap_or_default().trim_ascii();
                words.of(text).map_err(|expected| (expected, text))
            }
        }
    }

    /// What the records so far had in the column, if there is something new.
    pub(super) fn news(&mut self, is_read: bool) -> Option<WordsForWrites> {
        let WriteField::Words(field, words) = self else {
            return None;
        };
        if !std::mem::take(&mut words.is_news) && !is_read {
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
            skipped: words.skipped.iter().map(|(word, what, count)| (format!("{} ({what})", quoted(word)), *count)).collect(),
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
            Operation::Write => {
                self.is_news |= !self.is_found;
                self.is_found = true;
            }
            Operation::Read if !self.is_found && self.others.len() < MOST_OTHERS => {
                const LONGEST: usize = 64;
                let word = &word[..word.len().min(LONGEST)];
                if !self.others.iter().any(|other| other == word) {
                    self.others.push(word.to_vec());
                    self.is_news = true;
                }
            }
            Operation::Read => {}
            Operation::Skip => self.count(word),
        }
        Ok(operation)
    }

    fn count(&mut self, word: &[u8]) {
        self.is_news = true;
        if let Some((_, _, count)) = self.skipped.iter_mut().find(|(it, _, _)| it == word) {
            *count += 1;
            return;
        }
        let what = match meaning(word) {
            Some(Meaning::Trim) => "trims",
            Some(Meaning::Flush) => "flushes",
            _ => "by skip=",
        };
        if self.skipped.len() < MOST {
            self.skipped.push((word.to_vec(), what, 1));
        } else if let Some((_, _, count)) = self.skipped.last_mut() {
            *count += 1;
        }
    }

    fn meaning_of(&self, word: &[u8]) -> Result<Operation, String> {
        let WriteColumn { column, values, reads, skipped } = &self.column;
        let lists = [(values, Operation::Write), (reads, Operation::Read), (skipped, Operation::Skip)];
        let of = |it: &[u8]| lists.iter().find(|(list, _)| list.iter().any(|value| value.as_bytes() == it)).map(|(_, it)| *it);
        if let Some(operation) = of(word).or_else(|| of(WriteColumn::OTHERS.as_bytes())) {
            return Ok(operation);
        }
        let all = values.join("|");
        let shown = one_line(&String::from_utf8_lossy(word));
        // Who says that 0 writes says that 1 reads.
        let is_inverted = values.iter().any(|value| meaning(value.as_bytes()) == Some(Meaning::Read));
        match meaning(word) {
            Some(Meaning::Trim | Meaning::Flush) => Ok(Operation::Skip),
            Some(Meaning::Write) if is_inverted => Ok(Operation::Read),
            Some(Meaning::Read) if !values.is_empty() => Ok(Operation::Read),
            Some(Meaning::Write) if !values.is_empty() => Err(format!(
                "{} in column '{column}': '{shown}' means a write elsewhere, so say --columns …,write={column}:{all}|{shown}, or …,write={column}:{all},read={column}:{shown}",
                values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ")
            )),
            Some(_) if matches!(word, b"0" | b"1") && !self.has_numbers => Err(format!(
                "a word such as write in column '{column}': in some traces 1 is a write, in others 0, so say --columns …,write={column}:1 or …,write={column}:0"
            )),
            Some(Meaning::Write) => Ok(Operation::Write),
            Some(Meaning::Read) => Ok(Operation::Read),
            None if values.is_empty() => Err(format!(
                "true or false, 1 or 0, W or R, write or read in column '{column}' (for other words say which mean a write, as in --columns …,write={column}:WORD)"
            )),
            None => Err(format!(
                "{} or a word for reading in column '{column}': for '{shown}' say --columns …,write={column}:{all},read={column}:{shown}, or skip={column}:{shown}; read={column}:* for all others",
                values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_block_layer() {
        let letters = ["R", "RA", "RS", "WS", "WSM", "FWFS", "WFS", "D", "DS", "DE", "F", "FF", "FN", "N", "FD", "X", "", "RW"];
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
        ];
        assert_eq!(found, expected);
    }

    fn words(column: &str, name: &str) -> Words {
        let columns: crate::columns::Columns = format!("page=p,{column}").parse().unwrap();
        match WriteField::new(CsvField { at: 0, name: name.to_owned() }, columns.write.unwrap()) {
            WriteField::Words(_, words) => *words,
            WriteField::Never => panic!("no words"),
        }
    }

    /// Words, and what each means: r, w, s(kip), or ? for a question that the error asks.
    #[test]
    fn each_word_is_known_or_asked_for() {
        for (column, name, expected) in [
            ("write=op", "op", "R:r W:w read:r WRITE:w UNMAP:s flush:s pwrite64:w FF:s X:? 1:? 0:? true:w"),
            ("write=dirty", "dirty", "1:w 0:r 2:?"),
            ("write=op:W", "op", "W:w R:r RA:r D:s FF:s WS:? X:? w:? 1:? 0:r"),
            ("write=op:1", "op", "1:w 0:r 2:?"),
            ("write=op:0", "op", "0:w 1:r 2:?"),
            ("write=op:W,read=op:X,skip=op:Y|R", "op", "W:w X:r Y:s R:s Z:?"),
            ("write=op:W,read=op:*", "op", "W:w WS:r X:r UNMAP:r"),
            ("write=op:*,read=op:R", "op", "W:w R:r X:w"),
        ] {
            for pair in expected.split(' ') {
                let (word, meaning) = pair.split_once(':').unwrap();
                let found = match words(column, name).of(word.as_bytes()) {
                    Ok(Operation::Read) => "r",
                    Ok(Operation::Write) => "w",
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
