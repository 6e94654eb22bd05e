//! *u32*: little-endian 32-bit words, `page << 1 | write`, pages below 2^31;
//! metadata in a `.json` beside the trace, `X.json` for `X.u32.zst`. Its `relations` give the classes of pages: each has a
//! `name`, the first page `base`, and a number of `blocks`; the class is its position, from 1.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebbpool_cost::one_line;
use serde_json::{Map, Value};

use super::{Decode, Decoding, Encode, FormatEntry, OpenedTrace, StoredClasses, WriteTarget};
use crate::compression::{Codec, Sink};
use crate::error::TraceError;
use crate::output::OutputFile;
use crate::reference::{Batch, Metadata, PageClasses};
use crate::stream::{BUFFER, Stream};

pub(super) static ENTRY: FormatEntry = FormatEntry {
    name: "u32",
    description: "little-endian 32-bit words `page << 1 | write`, metadata in a .json beside it",
    extensions: &["u32"],
    magic: |_| false,
    // Any bytes are words, so guessing is impossible.
    resembles: |_| false,
    keeps_metadata: true,
    stored_classes: StoredClasses::ByPage,
    open,
    create: Some(create),
};

const WORD: usize = 4;
const RELATIONS: &str = "relations";

struct WordDecoder {
    stream: Stream,
}

fn open(stream: Stream, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    if let Some(bytes) = stream.length()
        && bytes % WORD as u64 != 0
    {
        return Err(TraceError::Length { file: stream.label().to_owned(), bytes });
    }
    let mut metadata = Metadata::default();
    let mut classes = None;
    if let Some(path) = stream.path().and_then(sidecar)
        && let Some(fields) = read_sidecar(&path)?
    {
        metadata = metadata_of(&fields, &path)?;
        if decoding.columns.classes {
            classes = classes_of(&fields).map_err(|problem| wrong_sidecar(&path, problem))?;
        }
    }
    let opened = OpenedTrace {
        references: stream.length().map(|bytes| bytes / WORD as u64),
        decoder: Box::new(WordDecoder { stream }),
        metadata,
        notes: Vec::new(),
    };
    Ok(match classes {
        Some(classes) => opened.with_classes(classes),
        None => opened,
    })
}

fn wrong_sidecar(path: &Path, problem: &str) -> TraceError {
    TraceError::Metadata { file: one_line(&path.to_string_lossy()), problem: problem.to_owned() }
}

/// The classes that the relations give, `None` if there are no relations. A relation may have several forks, of which only
/// the main one is called by the relation's name alone.
fn classes_of(fields: &Map<String, Value>) -> Result<Option<PageClasses>, &'static str> {
    const SHAPE: &str = "relations are expected to be objects with a name, a base and a number of blocks";
    let relations = match fields.get(RELATIONS) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(relations)) => relations,
        Some(_) => return Err(SHAPE),
    };
    let mut names = Vec::new();
    let mut pages = Vec::new();
    for (class, relation) in (1..).zip(relations) {
        let text = |field: &str| relation.get(field).and_then(Value::as_str);
        let number = |field: &str| relation.get(field).and_then(Value::as_u64).ok_or(SHAPE);
        let name = text("name").ok_or(SHAPE)?;
        names.push(match text("fork") {
            None | Some("main") => name.to_owned(),
            Some(fork) => format!("{name} ({fork})"),
        });
        let base = number("base")?;
        pages.push((base, base.saturating_add(number("blocks")?), class));
    }
    let classes = PageClasses::from_single_pages(names, pages);
    classes.map(Some).ok_or("relations share pages; each page belongs to at most one")
}

/// The relations from which [`classes_of`] restores these classes; `None` if their classes are not consecutive numbers
/// from 1.
fn relations_of(classes: &PageClasses) -> Option<Value> {
    let ranges = classes.ranges();
    let ends = ranges.iter().skip(1).map(|range| range.0);
    let ends = ends.chain([u64::MAX]);
    let mut relations = ranges
        .iter()
        .zip(ends)
        .filter(|((_, class), _)| *class > 0)
        .map(|(&(base, class), end)| (class, base, end - base))
        .collect::<Vec<_>>();
    relations.sort_unstable();
    let consecutive = (1..).zip(&relations).all(|(at, one)| one.0 == at);
    let relation = |(class, base, blocks): (u32, u64, u64)| {
        let name = classes.name(class).map_or_else(|| class.to_string(), str::to_owned);
        serde_json::json!({ "name": name, "base": base, "blocks": blocks })
    };
    consecutive.then(|| relations.into_iter().map(relation).collect())
}

impl Decode for WordDecoder {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            let (words, rest) = self.stream.bytes().as_chunks::<WORD>();
            if words.is_empty() {
                let rest = rest.len();
                if self.stream.fill()? {
                    continue;
                }
                if rest > 0 {
                    return Err(TraceError::Length { file: self.stream.label().to_owned(), bytes: self.stream.decoded() });
                }
                break;
            }
            let words = &words[..words.len().min(max - batch.len())];
            let decoded = words.iter().map(|&word| u32::from_le_bytes(word));
            batch.pages.extend(decoded.clone().map(|word| u64::from(word >> 1)));
            batch.writes.extend(decoded.map(|word| word & 1 == 1));
            let used = words.len() * WORD;
            self.stream.consume(used);
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.stream.progress()
    }
}

/// The path of a u32 trace's metadata.
pub(super) fn sidecar(trace: &Path) -> Option<PathBuf> {
    let sidecar = Codec::of_name(trace).1.with_extension("json");
    // A trace that is itself called .json has no metadata file.
    (sidecar != trace).then_some(sidecar)
}

/// All fields of a sidecar; `None` if there is no such file.
fn read_sidecar(path: &Path) -> Result<Option<Map<String, Value>>, TraceError> {
    let file = || one_line(&path.to_string_lossy());
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TraceError::io(file(), "read", error)),
    };
    match serde_json::from_slice(&text) {
        Ok(Value::Object(fields)) => Ok(Some(fields)),
        Ok(_) => Err(TraceError::Metadata { file: file(), problem: "expected a JSON object".to_owned() }),
        Err(error) => Err(TraceError::Metadata {
            file: file(),
            problem: format!("not JSON: {}; mend or remove it", one_line(&error.to_string())),
        }),
    }
}

/// The field that is true where the trace was captured below a cache.
const BELOW_CACHE: &str = "below_cache";
/// The field that is true where names were numbered as they appeared.
const OWN_NUMBERS: &str = "own_numbers";

fn metadata_of(fields: &Map<String, Value>, path: &Path) -> Result<Metadata, TraceError> {
    let wrong = |field: &str, value: &Value, expected: &str| TraceError::Metadata {
        file: one_line(&path.to_string_lossy()),
        problem: one_line(&format!("{field} is {value}, expected {expected}")),
    };
    let number = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(field, value, "a whole number")),
        },
    };
    let flag = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(value) => Err(wrong(field, value, "true or false")),
    };
    Ok(Metadata {
        name: match fields.get("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(value) => return Err(wrong("name", value, "a string")),
        },
        page_size: number("page_size")?,
        database_pages: number("database_pages")?,
        below_cache: flag(BELOW_CACHE)?,
        own_numbers: flag(OWN_NUMBERS)?,
    })
}

struct WordEncoder {
    sink: Sink,
    words: Vec<u8>,
    sidecar: Option<Sidecar>,
}

/// A `.json` file to write.
struct Sidecar {
    path: PathBuf,
    fields: Map<String, Value>,
}

fn create(target: WriteTarget) -> Result<Box<dyn Encode>, TraceError> {
    // A pipe or device has no file beside it.
    let sidecar = match sidecar(target.path) {
        Some(path) if target.sink.file().is_regular() => new_sidecar(path, target.metadata, target.classes)?,
        _ => None,
    };
    Ok(Box::new(WordEncoder { sink: target.sink, words: Vec::with_capacity(BUFFER), sidecar }))
}

/// The new content of the sidecar; `None` if it does not change.
///
/// A sidecar that exists may belong to another form of the same trace (`X.u32` beside
/// `X.u32.zst`) and have more fields than ours, so its other fields remain; but it must
/// not claim another trace's page size or relations for the new one.
fn new_sidecar(path: PathBuf, metadata: &Metadata, classes: Option<&PageClasses>) -> Result<Option<Sidecar>, TraceError> {
    let old = read_sidecar(&path)?;
    let relations = classes.filter(|classes| !classes.ranges().is_empty()).and_then(relations_of);
    if old.is_none() && metadata.is_empty() && relations.is_none() {
        return Ok(None);
    }
    let old = old.unwrap_or_default();
    let mut new = old.clone();
    let mut set = |field: &str, value: Option<Value>| match value {
        Some(value) => new.insert(field.to_owned(), value),
        None => new.remove(field),
    };
    set("name", metadata.name.clone().map(Value::from));
    set("page_size", metadata.page_size.map(Value::from));
    set("database_pages", metadata.database_pages.map(Value::from));
    set(BELOW_CACHE, metadata.below_cache.then_some(true.into()));
    set(OWN_NUMBERS, metadata.own_numbers.then_some(true.into()));
    let old_classes = classes_of(&old).ok().flatten();
    // Relations that mean the same classes may say more about them, and others are not ours.
    if relations.is_some() && old_classes.as_ref() != classes || relations.is_none() && old_classes.is_some() {
        set(RELATIONS, relations);
    }
    Ok((new != old).then_some(Sidecar { path, fields: new }))
}

impl WordEncoder {
    fn flush(&mut self) -> Result<(), TraceError> {
        let written = self.sink.write_all(&self.words);
        self.words.clear();
        written.map_err(|error| TraceError::io(self.sink.file().label(), "write", error))
    }
}

impl Encode for WordEncoder {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        for (page, write) in batch.iter() {
            if page >> 31 != 0 {
                return Err(TraceError::PageTooLarge { file: self.sink.file().label().to_owned(), page });
            }
            let word = (page as u32) << 1 | u32::from(write);
            self.words.extend_from_slice(&word.to_le_bytes());
            if self.words.len() == BUFFER {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TraceError> {
        self.flush()?;
        let bytes = self.sink.finish()?;
        if let Some(Sidecar { path, fields }) = self.sidecar {
            let mut file = OutputFile::create(&path)?;
            let text = format!("{:#}\n", Value::Object(fields));
            file.write_all(text.as_bytes()).map_err(|error| TraceError::io(file.label(), "write", error))?;
            file.finish()?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_names() {
        for trace in ["a/X.u32", "a/X.u32.zst", "a/X.u32.gz"] {
            assert_eq!(sidecar(Path::new(trace)), Some("a/X.json".into()));
        }
        assert_eq!(sidecar(Path::new("X.v2.u32")), Some("X.v2.json".into()));
        assert_eq!(sidecar(Path::new("X")), Some("X.json".into()));
        assert_eq!(sidecar(Path::new("X.json")), None);
    }
}
