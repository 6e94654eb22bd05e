//! Tables of references: which columns have which role, and what their values mean, whatever holds the table.

mod words;

use std::time::Instant;

use csv::ByteRecord;
use ebbpool_cost::{did_you_mean, one_line};

use super::lines::decimal;
use super::requests::{Action, Extent, ForeignRequest, LONGEST_REQUEST, MOST_VOLUMES, Names, PendingRequest, SECTOR};
use super::times::TimeUnit;
use super::{Decode, Decoding, OpenedTrace};
use crate::bad_lines::{BadLines, WordsForWrites};
use crate::classes::ClassNumbers;
use crate::columns::{ByteColumn, Columns, Layout, PageColumns, PageKind, TimeColumn, WriteColumn, spelled};
use crate::error::{TraceError, quoted};
use crate::reference::{Batch, Metadata, OptionalColumns, PageClasses};
use crate::supplied::{LONGEST_FILL, PlainColumns, SuppliedDecoder, TableRows, TableSupplier};
use words::{Operation, WriteField};

/// Names that mean a page number, a byte offset, a length in bytes, or whether a
/// page is written; each in order of preference.
const PAGE_NAMES: &[&str] = &[
    "relblocknumber", "page", "page_id", "pageid", "page_no", "page_number", "blk", "blkno", "block", "block_id", "block_no",
    "block_number", "blocknum",
];
const OFFSET_NAMES: &[&str] = &["offset", "byte_offset", "offset_bytes"];
const SIZE_NAMES: &[&str] = &["size", "length", "len", "bytes", "size_bytes"];
const WRITE_NAMES: &[&str] = &["write", "is_write", "iswrite", "dirty", "op", "operation", "rw", "type", "access", "mode"];

/// Parts of names of columns that would change the figures if they were used. An ending such as `id` may follow.
const LIKE_OFFSETS: &[&str] = &["offset"];
/// Parts of names of columns that count sectors, whatever is called an offset beside them.
const LIKE_SECTORS: &[&str] = &["lba", "slba", "sector", "lbn", "blkaddr"];
const LIKE_SIZES: &[&str] = &[
    "pages", "npages", "size", "length", "len", "bytes", "nbytes", "count", "sectors", "nsectors", "blocks", "nblocks",
    "blkcount", "bcount", "npg", "iosize", "reqsize", "nblk", "blks", "nbyte", "nrsector",
];
const LIKE_COUNTS: &[&str] =
    &["count", "hits", "hit", "freq", "frequency", "repeat", "refs", "references", "accesses", "occurrences", "nrequests"];
const LIKE_BYTES: &[&str] = &["byte", "bytes", "nbyte", "nbytes"];
const LIKE_WRITES: &[&str] = &[
    "write", "dirty", "isdirty", "modified", "ismodified", "op", "opcode", "optype", "operation", "rw", "rwbs", "type",
    "iotype", "access", "mode", "direction", "ddir", "action", "event", "cmd", "command",
];
const LIKE_VOLUMES: &[&str] = &[
    "volume", "vol", "device", "dev", "disk", "host", "hostname", "asu", "lun", "file", "datafile", "path", "inode", "ino",
    "fd", "relation", "rel", "relfilenode", "relnode", "relnumber", "table", "tablespace", "segment", "namespace", "ns",
    "nsid", "major", "minor", "partition", "tenant", "shard", "space", "database", "db", "dboid", "schema", "fork", "bucket",
    "object", "obj", "instance", "pool", "server", "node", "drive", "array", "uuid", "index", "channel", "chip", "vm", "image",
    "container", "oid", "name", "fname", "fh", "handle", "inum", "fid", "fsid", "chunk", "blob", "anonblob", "extent",
    "stripe", "zone", "region", "url", "vdisk", "vdev", "vmdk", "osd", "zpool", "datastore", "controller", "die", "plane",
    "relfork", "filehandle", "dbnode", "spcnode", "spcoid", "objset", "afn", "fno", "dbarfil", "maj", "ldev", "bdev", "target",
    "wwn", "ost", "mount", "dir", "directory", "tbl", "keyspace", "collection", "heap", "indexrel", "reldatabase",
    "reltablespace",
];
/// Beside a page number, columns with a larger unit that pages belong to.
const LIKE_PLACES: &[&str] = &["block", "blk", "erase", "superblock"];
/// Who makes a request, which says nothing of its pages, whatever else the name has.
const LIKE_ACTORS: &[&str] =
    &["process", "proc", "pid", "tid", "thread", "user", "usr", "uid", "comm", "command", "event", "task", "app", "program"];
const LIKE_TIMES: &[&str] =
    &["time", "timestamp", "ts", "date", "latency", "lat", "duration", "elapsed", "wait", "delay", "age"];
const ENDINGS: &[&str] = &["id", "no", "num", "number", "name", "oid", "idx", "s"];

const CLASS_NAME: &str = "class";
/// The name of a column of times in native traces, which says their unit.
const TIME_NAME: &str = "time_us";

/// More columns than these are not printed in an answer.
const MOST_VOLUME_COLUMNS: usize = 8;

/// The columns to which `header` gives common names; the error asks a question, if another reading of the names is as good.
pub(super) fn guess(header: &[String]) -> Result<Option<Columns>, String> {
    guess_columns(header).map_err(|question| {
        let is_size =
            |name: &&String| is_like(name, LIKE_SIZES) && ![LIKE_TIMES, LIKE_COUNTS].iter().any(|words| is_like(name, words));
        let sizes: Vec<String> = header.iter().filter(is_size).cloned().collect();
        // Of several sizes no answer has one.
        match sizes.len() < 2 || question.contains("size=") {
            true => question,
            false => format!("{question}; the size of requests may be in {}: with size= and the one that is", listed(&sizes)),
        }
    })
}

fn guess_columns(header: &[String]) -> Result<Option<Columns>, String> {
    let all = |name: &'static str| header.iter().filter(move |column| column.eq_ignore_ascii_case(name));
    let find = |names: &[&'static str]| names.iter().find_map(|name| all(name).next()).cloned();
    let measure = |column: String| ByteColumn { unit: unit_in(&column).unwrap_or(1), ..ByteColumn::bytes(&column) };
    let like = |words: &[&str]| header.iter().find(|name| is_like(name, words) && !is_like(name, LIKE_TIMES)).cloned();
    let page = find(PAGE_NAMES);
    let offset = find(OFFSET_NAMES).or_else(|| like(LIKE_OFFSETS));
    let bytes = offset.map(|offset| PageColumns::Bytes { offset: measure(offset), size: find(SIZE_NAMES).map(measure) });
    let numbered = page.clone().map(|page| PageColumns::Page(page, PageKind::Number));
    let Some(pages) = numbered.or_else(|| bytes.clone()) else {
        return Ok(None);
    };
    let mut writes: Vec<&String> = WRITE_NAMES.iter().flat_map(|name| all(name)).collect();
    for name in header.iter().filter(|name| is_like(name, LIKE_WRITES) && !is_like(name, LIKE_TIMES)) {
        if !writes.contains(&name) {
            writes.push(name);
        }
    }
    let mut guessed = Columns {
        pages,
        volumes: Vec::new(),
        write: writes.first().map(|column| WriteColumn::of_words(column)),
        class: find(&[CLASS_NAME]),
        time: find(&[TIME_NAME]).map(|column| TimeColumn { column, unit: TimeUnit::Microseconds, has_unit: true }),
        repeat: None,
        only: None,
        layout: Layout::default(),
    };
    for (at, name) in header.iter().enumerate().filter(|(_, name)| guessed.names().any(|used| used.eq_ignore_ascii_case(name)))
    {
        if let Some(other) = header[..at].iter().position(|other| other.eq_ignore_ascii_case(name)) {
            return Err(format!(
                "two columns are called '{name}', #{} and #{}; say with --columns which to read, by its number",
                other + 1,
                at + 1
            ));
        }
    }
    // The only column that may be a size is one in every answer, but of the question whether it is one. A count is none beside one.
    let with_size = |columns: &Columns| {
        let sizes: Vec<&String> = unread_sizes(header, columns).collect();
        let no_counts: Vec<&String> = sizes.iter().copied().filter(|name| !is_like(name, LIKE_COUNTS)).collect();
        match (&columns.pages, if no_counts.is_empty() { &*sizes } else { &*no_counts }) {
            (PageColumns::Bytes { offset, size: None }, [size]) => {
                let unit = unit_in(size).unwrap_or(offset.unit);
                let size = Some(ByteColumn { unit, ..measure((*size).clone()) });
                Columns { pages: PageColumns::Bytes { offset: offset.clone(), size }, ..columns.clone() }
            }
            _ => columns.clone(),
        }
    };
    let alone = guessed.clone();
    guessed.volumes = unread_volumes(header, &guessed).cloned().collect();
    if guessed.volumes.len() > MOST_VOLUME_COLUMNS {
        return Err(format!(
            "{} columns may say that equal page numbers are of several devices or files, such as '{}' and '{}': {} with volume= for each that does",
            guessed.volumes.len(),
            guessed.volumes[0],
            guessed.volumes[1],
            alone.option()
        ));
    }
    // Every answer keeps devices apart.
    let or_one = match guessed.volumes.is_empty() {
        true => "",
        false => "; volume= is for columns whose values have pages of their own, and can be left out",
    };
    if let (Some(page), Some(bytes)) = (&page, bytes) {
        let mut other = with_size(&Columns { pages: bytes, ..guessed.clone() });
        other.volumes.insert(0, page.clone());
        return Err(format!(
            "both '{page}' and an offset could say which page a request is to: {}, or {}{or_one}",
            guessed.option(),
            other.option()
        ));
    }
    if let PageColumns::Bytes { offset, .. } = &guessed.pages
        && let Some(sector) = unread(header, &guessed)
            .find(|name| is_like(name, LIKE_SECTORS) && !is_like(name, &["size", "length", "len", "count"]))
    {
        // Of several sizes that of the same part of the name, as in io.lba and io.len.
        let first = |name: &str| name.split(['.', '_']).next().map(str::to_owned);
        let sizes = || unread_sizes(header, &alone).filter(|name| *name != sector);
        let size = sizes().find(|name| first(name) == first(sector)).or_else(|| sizes().next());
        let unit = |name: &String| ByteColumn { unit: unit_in(name).unwrap_or(SECTOR), ..measure(name.clone()) };
        let pages = PageColumns::Bytes { offset: unit(sector), size: size.map(unit) };
        let other = Columns { pages, ..guessed.clone() };
        return Err(format!(
            "both '{}' and '{sector}' could say where a request begins: {}, or in sectors of 512 bytes {}{or_one}",
            offset.column,
            with_size(&guessed).option(),
            other.option()
        ));
    }
    if let [first, second, ..] = writes[..] {
        let guessed = with_size(&guessed);
        let other = Columns { write: Some(WriteColumn::of_words(second)), ..guessed.clone() };
        return Err(format!(
            "both '{first}' and '{second}' could say which requests write: {}, or {}{or_one}",
            guessed.option(),
            other.option()
        ));
    }
    if let Some(size) = unread_sizes(header, &guessed).next() {
        let size_unit = |unit| unit_in(size).unwrap_or(unit);
        let of = |offset: &String, unit| PageColumns::Bytes {
            offset: ByteColumn { unit: unit_in(offset).unwrap_or(unit), ..ByteColumn::bytes(offset) },
            size: Some(ByteColumn { unit: size_unit(unit), ..ByteColumn::bytes(size) }),
        };
        let (pages, units) = match &guessed.pages {
            PageColumns::Page(page, _) if size_unit(512) == 1 => {
                (of(page, 512), ", if the position counts sectors of 512 bytes")
            }
            PageColumns::Page(page, _) => (of(page, 512), ", if both count sectors of 512 bytes"),
            PageColumns::Bytes { offset, .. } if offset.unit == 1 && size_unit(1) == 1 => {
                (of(&offset.column, 1), ", if both count bytes")
            }
            PageColumns::Bytes { offset, .. } => (of(&offset.column, 1), ", if both count the units that they are named after"),
        };
        let measured = Columns { pages, ..guessed.clone() };
        let repeated = match is_like(size, LIKE_COUNTS) {
            true => format!(", {} if it says how often", Columns { repeat: Some(size.clone()), ..guessed.clone() }.option()),
            false => String::new(),
        };
        return Err(format!(
            "column '{size}' may be the size of requests: {}{units} (else with the bytes of a unit behind each, as in size=COLUMN:1024){repeated}, or without it {}{or_one}{}",
            measured.option(),
            guessed.option(),
            match guessed.write {
                Some(_) => "",
                None => "; with write= and the column that says which requests write, if there is one",
            }
        ));
    }
    if guessed.write.is_none()
        && let Some(other) = header.iter().find(|name| !guessed.names().any(|used| used == *name))
    {
        if is_like(other, LIKE_COUNTS) {
            return Err(format!(
                "column '{other}' may say how often a page was requested, and no column which requests write: {}, or without it {}{or_one}",
                Columns { repeat: Some(other.clone()), ..guessed.clone() }.option(),
                guessed.option()
            ));
        }
        let write = WriteColumn { values: vec!["W".to_owned()], ..WriteColumn::of_words(other) };
        return Err(format!(
            "no column has a name that says which requests write: {} if column '{other}' has W for them, or {} if all read{or_one}",
            Columns { write: Some(write), ..guessed.clone() }.option(),
            guessed.option()
        ));
    }
    if let Some(volume) = guessed.volumes.first() {
        let some = if guessed.volumes.len() > 1 { " (or some of these volume=)" } else { "" };
        return Err(format!(
            "column '{volume}' may say that equal page numbers are of several devices or files: {}{some}, or for one of them {}",
            guessed.option(),
            alone.option()
        ));
    }
    Ok(Some(guessed))
}

/// The bytes of the unit in the name of a column, if there is one: those of `Offset (KiB)` are 1024.
fn unit_in(name: &str) -> Option<u64> {
    const UNITS: [(&[&str], u64); 3] =
        [(&["kib", "kb", "kbytes"], 1 << 10), (&["mib", "mb", "mbytes"], 1 << 20), (&["sector", "sectors"], SECTOR)];
    let name_lower = name.to_ascii_lowercase();
    let parts = || name_lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let found = UNITS.iter().find(|(words, _)| parts().any(|part| words.contains(&part)));
    found.map(|(_, unit)| *unit).or_else(|| is_like(name, LIKE_BYTES).then_some(1))
}

/// True if a part of a name is one of some words: `DiskNumber` and `disk_id` have `disk`.
pub(super) fn is_like(name: &str, words: &[&str]) -> bool {
    // The index of a table of pandas is of the program that wrote it.
    if name.starts_with("__index_level_") {
        return false;
    }
    let mut spread = String::with_capacity(2 * name.len());
    let mut was_lower = false;
    for letter in name.chars() {
        if was_lower && letter.is_ascii_uppercase() {
            spread.push(' ');
        }
        was_lower = letter.is_ascii_lowercase();
        spread.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    }
    let whole: String = spread.split(' ').collect();
    let is_one = |part: &str| {
        let endings = || ENDINGS.iter().filter_map(|ending| part.strip_suffix(ending));
        words.contains(&part) || endings().any(|stem| words.contains(&stem))
    };
    spread.split(' ').chain([&*whole]).any(is_one)
}

/// Columns that may be sizes, and are not read.
fn unread_sizes<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    unread(header, columns).filter(|name| is_like(name, LIKE_SIZES) && !is_like(name, LIKE_TIMES))
}

/// Columns that may say which device or file a page is of, and keep no pages apart. A class does not.
fn unread_volumes<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    let is_class = |name: &&String| columns.class.as_ref() == Some(*name) && !columns.volumes.contains(name);
    let classes = header.iter().filter(is_class);
    let others = [LIKE_TIMES, LIKE_SIZES, LIKE_OFFSETS, LIKE_ACTORS, &["read", "write"]];
    let has_pages = matches!(columns.pages, PageColumns::Page(..));
    let is_volume = move |name: &str| is_like(name, LIKE_VOLUMES) || (has_pages && is_like(name, LIKE_PLACES));
    unread(header, columns)
        .chain(classes)
        .filter(move |name| is_volume(name) && !others.iter().any(|words| is_like(name, words)))
}

/// Columns that may say how many pages a row stands for, and are not read.
fn unread_counts<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    let has_size = matches!(columns.pages, PageColumns::Bytes { size: Some(_), .. });
    let is_size = move |name: &str| is_like(name, LIKE_SIZES) && !has_size;
    let is_count = move |name: &str| is_like(name, LIKE_COUNTS) && columns.repeat.is_none() && !has_size;
    unread(header, columns).filter(move |name| (is_size(name) || is_count(name)) && !is_like(name, LIKE_TIMES))
}

/// Notes on the columns without a role: what follows if they had one.
fn notes_of_unread(label: &str, header: &[String], columns: &Columns) -> Vec<String> {
    let volumes: Vec<&String> = unread_volumes(header, columns).collect();
    let counts: Vec<&String> = unread_counts(header, columns).filter(|name| !volumes.contains(name)).collect();
    let others =
        unread(header, columns).filter(|name| !volumes.contains(name) && !counts.contains(name) && !is_like(name, LIKE_TIMES));
    let others: Vec<String> = others.cloned().collect();
    let role = |name: &str| match columns.pages {
        PageColumns::Page(..) if !is_like(name, LIKE_COUNTS) => "with offset= in place of page=, size=",
        PageColumns::Page(..) => "repeat=",
        PageColumns::Bytes { .. } => "size=",
    };
    let of_volumes = volumes.iter().map(|name| {
        let with = spelled(name);
        format!("{label}: equal page numbers are one page, whatever column '{name}' has; volume={with} in --columns keeps them apart")
    });
    let of_counts = counts.iter().map(|name| {
        let with = spelled(name);
        format!("{label}: each row is one page, whatever column '{name}' has; {}{with} in --columns has it read", role(name))
    });
    let of_others = (!others.is_empty()).then(|| format!("{label}: columns that are not read: {}", listed(&others)));
    of_volumes.chain(of_counts).chain(of_others).collect()
}

/// Notes on columns that keep no pages apart or are no sizes, in a table whose columns `page` and `write` are read.
pub(super) fn unread_notes(label: &str, header: &[String]) -> Vec<String> {
    let columns = Columns {
        pages: PageColumns::Page("page".to_owned(), PageKind::Number),
        volumes: Vec::new(),
        write: Some(WriteColumn::of_words("write")),
        class: None,
        time: None,
        repeat: None,
        only: None,
        layout: Layout::default(),
    };
    notes_of_unread(label, header, &columns)
}

/// Columns without a role.
fn unread<'a>(header: &'a [String], columns: &'a Columns) -> impl Iterator<Item = &'a String> {
    let used: Vec<Option<usize>> = columns.names().map(|name| place(header, name)).collect();
    header.iter().enumerate().filter(move |(at, _)| !used.contains(&Some(*at))).map(|(_, name)| name)
}

/// The index that `#3` names.
fn column_number(name: &str) -> Option<usize> {
    name.strip_prefix('#')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The index of a column: of its name, or of `#3`.
fn place(header: &[String], name: &str) -> Option<usize> {
    match column_number(name) {
        Some(at) => Some(at).filter(|at| *at < header.len()),
        None => header.iter().position(|column| column == name),
    }
}

/// A column and its index in a record.
#[derive(Debug)]
struct Field {
    at: usize,
    name: String,
}

/// A field of bytes, the bytes of its unit, and whether it has hexadecimal digits.
type MeasureField = (Field, u64, bool);

/// The fields that say which pages a record touches.
#[derive(Debug)]
enum PageFields {
    Number(Field),
    Hexadecimal(Field),
    /// And whether blanks around it are none of it.
    Text(Field, bool),
    Bytes {
        offset: MeasureField,
        size: Option<MeasureField>,
        page_size: u64,
        /// Of a guess, what to ask if offsets are no multiples of 512.
        question: Option<String>,
    },
}

/// The column names of a table.
pub(super) struct Header<'a> {
    pub(super) label: &'a str,
    pub(super) names: Vec<String>,
    /// True if the names stand in a line of their own, which may be one of data.
    pub(super) is_line: bool,
}

impl<'a> Header<'a> {
    /// True if the first line is one of data: columns have numbers for names, and a number stands where one is expected.
    pub(super) fn is_without_names(&self, columns: &Columns) -> Result<bool, TraceError> {
        if !self.is_line {
            return Ok(false);
        }
        if let Some(names) = columns.layout.names {
            return Ok(!names);
        }
        // A name that no column has is refused elsewhere.
        let is_name = |name: &String| column_number(name).is_none() || self.place(name).is_none();
        if columns.names().any(is_name) {
            return Ok(false);
        }
        let mut values = columns.numbers().filter_map(|name| self.place(name)).map(|at| self.names[at].as_bytes());
        if values.any(|text| integer(text, false).is_some()) {
            return Ok(true);
        }
        let with = |names| Columns { layout: Layout { names: Some(names), ..columns.layout.clone() }, ..columns.clone() };
        Err(self.refuse(format!(
            "the first line has {}; say {} if it is a request, {} if it names columns",
            listed(&self.names),
            with(false).option(),
            with(true).option()
        )))
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        place(&self.names, name)
    }

    /// What has the names, in a sentence.
    fn holder(&self) -> &'static str {
        if self.is_line { "the first line names" } else { "this table has" }
    }

    pub(super) fn refuse(&self, problem: String) -> TraceError {
        TraceError::Columns { file: self.label.to_owned(), problem }
    }

    /// The columns that the user named, or a guess; adds notes for the user.
    pub(super) fn columns(&self, decoding: &Decoding, notes: &mut Vec<String>) -> Result<Columns, TraceError> {
        let label = self.label;
        let columns = match &decoding.options.columns {
            Some(columns) => {
                // The first line of a file without names has values.
                let has_names = !self.is_without_names(columns)?;
                if has_names {
                    notes.extend(notes_of_unread(label, &self.names, columns));
                }
                columns.clone()
            }
            None => {
                let guessed = guess(&self.names).map_err(|question| self.refuse(question))?;
                let guessed = guessed.ok_or_else(|| self.refuse(self.without_names()))?;
                // These names can mean nothing else.
                let certain = ["page=page,write=write", "page=page,write=write,class=class"];
                let is_all = unread(&self.names, &guessed).next().is_none();
                if !is_all || !certain.contains(&guessed.to_string().as_str()) {
                    let units = match &guessed.pages {
                        PageColumns::Page(..) => "",
                        PageColumns::Bytes { size: Some(_), .. } => ", offset and size in bytes",
                        PageColumns::Bytes { size: None, .. } => ", offset in bytes; without a size, each request is one page",
                    };
                    let unread: Vec<String> = unread(&self.names, &guessed).cloned().collect();
                    let unread = match unread.is_empty() {
                        true => String::new(),
                        false => format!("; not read: {}", listed(&unread)),
                    };
                    notes.push(format!("{label}: guessed --columns {guessed}{units}{unread}"));
                }
                guessed
            }
        };
        if !self.is_line && columns.layout != Layout::default() {
            return Err(
                self.refuse("has no lines, as separator=, comment=, names= and quotes= in --columns are about".to_owned())
            );
        }
        // Who names a line of data as names loses its request.
        let is_number = |name: &&String| decimal(name.as_bytes()).is_some() && self.names.contains(name);
        let may_be_data = self.is_line && columns.layout.names != Some(true);
        if let Some(name) = columns.names().find(is_number).filter(|_| may_be_data) {
            let at = self.place(name).unwrap_or_default() + 1;
            return Err(self.refuse(format!(
                "the first line has the number {name}; if it names no columns, this one is #{at}, and if it does, add names=yes to --columns"
            )));
        }
        let is_twice = |name: &&String| self.names.iter().filter(|other| other == name).count() > 1;
        if let Some(name) = columns.names().find(is_twice) {
            let places: Vec<String> =
                (1..).zip(&self.names).filter(|(_, it)| *it == name).map(|(at, _)| format!("#{at}")).collect();
            return Err(self.refuse(format!("columns {} are called '{name}'; name one by its number", places.join(" and "))));
        }
        if columns.write.is_none() {
            notes.push(format!(
                "{label}: no column says which references write (write=COLUMN in --columns), so that all references are reads"
            ));
        }
        Ok(columns)
    }

    /// What to do about a first line of which no column is known.
    fn without_names(&self) -> String {
        let (names, holder) = (listed(&self.names), self.holder());
        let msr = if self.names.len() == 7 { "; --trace-format msr if they are as Microsoft Research's" } else { "" };
        match self.names.iter().any(|name| decimal(name.as_bytes()).is_some()) {
            true => format!(
                "the first line has the values {names}, and names no columns; say which are which with --columns, by their numbers, as in --columns page=#3,write=#2:W, or volume=#1,offset=#3,size=#4,write=#2:W (ebbpool trace shapes has the published ones; add names=yes if these are names{msr})"
            ),
            false => {
                let comment = match self.names.first().is_some_and(|name| name.starts_with('#')) {
                    true => "; if lines that begin with # are comments, with comment=#",
                    false => "",
                };
                format!(
                    "no column has a name that means a page; {holder} {names}; say which with --columns, as in --columns page=blk,write=op:W{comment} (ebbpool trace shapes has more)"
                )
            }
        }
    }

    fn field(&self, name: &str) -> Result<Field, TraceError> {
        self.place(name).map(|at| Field { at, name: name.to_owned() }).ok_or_else(|| {
            let separator = match name.starts_with('#') && self.is_line {
                true => " (another separator is named with separator=space, tab, … in --columns)",
                false => "",
            };
            self.refuse(format!(
                "no column '{}'{}; {} {}{separator}",
                one_line(name),
                did_you_mean(name, self.names.iter().map(String::as_str)),
                self.holder(),
                listed(&self.names)
            ))
        })
    }

    /// The fields of the page; sets the page size of `metadata` where they count bytes.
    fn page_fields(&self, columns: &Columns, decoding: &Decoding, metadata: &mut Metadata) -> Result<PageFields, TraceError> {
        let (offset, size) = match &columns.pages {
            PageColumns::Page(column, kind) => {
                let field = self.field(column)?;
                return Ok(match kind {
                    PageKind::Number => PageFields::Number(field),
                    PageKind::Hexadecimal => PageFields::Hexadecimal(field),
                    PageKind::Text => PageFields::Text(field, self.is_line),
                });
            }
            PageColumns::Bytes { offset, size } => (offset, size),
        };
        let page_size = decoding.options.page_size.ok_or_else(|| TraceError::NoPageSize {
            file: self.label.to_owned(),
            what: format!("column '{}' counts bytes", offset.column),
        })?;
        metadata.page_size = Some(page_size.get());
        let question = decoding.options.columns.is_none().then(|| {
            let unit = |unit| {
                let of = |bytes: &ByteColumn| {
                    let is_bytes = is_like(&bytes.column, LIKE_BYTES);
                    ByteColumn { unit: if is_bytes { 1 } else { unit }, ..bytes.clone() }
                };
                let pages = PageColumns::Bytes { offset: of(offset), size: size.as_ref().map(of) };
                Columns { pages, ..columns.clone() }.option()
            };
            format!(
                "multiples of 512 in column '{}' and of sizes: say {} if they count bytes, {} if sectors",
                offset.column,
                unit(1),
                unit(512)
            )
        });
        let measured = |bytes: &ByteColumn| Ok((self.field(&bytes.column)?, bytes.unit, bytes.is_hexadecimal));
        Ok(PageFields::Bytes {
            offset: measured(offset)?,
            size: size.as_ref().map(measured).transpose()?,
            page_size: page_size.get(),
            question,
        })
    }

    /// The columns, if these have only numbers of pages, whether each is written, and classes.
    fn plain(&self, columns: &Columns) -> Result<Option<PlainColumns>, TraceError> {
        let Columns { pages: PageColumns::Page(page, PageKind::Number), write, class, .. } = columns else {
            return Ok(None);
        };
        let at = |name: &String| Ok(self.field(name)?.at);
        let plain = PlainColumns {
            page: at(page)?,
            write: write.as_ref().map(|write| at(&write.column)).transpose()?,
            class: class.as_ref().map(at).transpose()?,
        };
        let is_write = |write: &WriteColumn| plain.write.is_some_and(|at| words::is_plain(write, &self.names[at]));
        let others =
            !columns.volumes.is_empty() || columns.time.is_some() || columns.repeat.is_some() || columns.only.is_some();
        Ok(Some(plain).filter(|_| !others && write.as_ref().is_none_or(is_write)))
    }

    fn write_field(&self, columns: &Columns) -> Result<WriteField, TraceError> {
        let Some(column) = columns.write.clone() else {
            return Ok(WriteField::Never);
        };
        let field = self.field(&column.column)?;
        // A number has the name of its column, if that has one.
        let name = self.names.get(field.at).cloned().unwrap_or_default();
        Ok(WriteField::new(field, column, columns.clone(), &name))
    }
}

/// Opens a table that a caller supplies.
pub(crate) fn open_supplied(label: &str, table: &dyn TableSupplier, decoding: &Decoding) -> Result<OpenedTrace, TraceError> {
    let mut rows = table.open()?;
    let header = Header { label, names: rows.names(), is_line: false };
    let mut notes = Vec::new();
    let columns = header.columns(decoding, &mut notes)?;
    let stream = header.plain(&columns)?.and_then(|plain| rows.references(plain, decoding.columns.classes));
    if let Some(stream) = stream {
        let (metadata, references) = (table.metadata(), rows.count());
        return Ok(OpenedTrace { decoder: Box::new(SuppliedDecoder(stream)), metadata, references, notes });
    }
    let used: Vec<usize> = columns.names().filter_map(|name| header.place(name)).collect();
    rows.choose(&used)?;
    let rows = SuppliedRows { rows, label: label.to_owned(), row: 0 };
    Ok(open(rows, (&header, columns, None), decoding, notes)?.with_stated(table.metadata()))
}

/// Rows that a caller supplies.
struct SuppliedRows {
    rows: Box<dyn TableRows>,
    label: String,
    /// Rows read.
    row: u64,
}

impl Rows for SuppliedRows {
    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, TraceError> {
        row.clear();
        let is_one = self.rows.next(row)?;
        self.row += u64::from(is_one);
        Ok(is_one)
    }

    fn wrong(&self, _row: &ByteRecord, expected: String, found: String) -> TraceError {
        wrong_row(&self.label, self.row, &expected, &found)
    }

    fn progress(&self) -> f64 {
        self.row as f64 / self.rows.count().unwrap_or(u64::MAX).max(1) as f64
    }

    fn may_be_slow(&self) -> bool {
        true
    }
}

/// The error of the last of some rows that were read.
pub(super) fn wrong_row(label: &str, read: u64, expected: &str, found: &str) -> TraceError {
    let problem = format!("expected {expected}, found {found}");
    TraceError::Row { file: label.to_owned(), row: read.saturating_sub(1), problem }
}

/// Column names for a message.
fn listed(header: &[String]) -> String {
    const MOST: usize = 20;
    let mut names: Vec<&str> = header.iter().take(MOST).map(String::as_str).collect();
    if header.len() > MOST {
        names.push("…");
    }
    one_line(&names.join(", "))
}

/// What was expected of a field, and its content.
type BadField<'a> = (String, &'a [u8]);

/// Digits without the zeros behind a point that programs write which count in floating point, as pandas beside a missing number.
/// Three zeros may be those of thousands.
fn whole_number(text: &[u8]) -> &[u8] {
    let point = text.iter().position(|&byte| byte == b'.').filter(|&point| point > 0);
    match point.map(|point| text.split_at(point)) {
        Some((digits, zeros))
            if digits.iter().all(u8::is_ascii_digit) && zeros[1..].iter().all(|&byte| byte == b'0') && zeros.len() != 4 =>
        {
            digits
        }
        _ => text,
    }
}

/// A whole number, in hexadecimal digits behind `0x`, or without if it is known to have them.
fn integer(text: &[u8], is_hexadecimal: bool) -> Option<u64> {
    let marked = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"));
    match marked.or(is_hexadecimal.then_some(text)) {
        Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
            u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        }
        Some(_) => None,
        None => decimal(whole_number(text)),
    }
}

/// What is expected of a page.
const A_PAGE: &str = "a page number from 0 to 2^64-1";

fn number<'a>(record: &'a ByteRecord, field: &Field, what: &str) -> Result<u64, BadField<'a>> {
    number_of(record, field, false, what)
}

fn number_of<'a>(record: &'a ByteRecord, field: &Field, is_hexadecimal: bool, what: &str) -> Result<u64, BadField<'a>> {
    let text = record.get(field.at).unwrap_or_default().trim_ascii();
    integer(text, is_hexadecimal).ok_or_else(|| {
        let is_only = |others: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || others.contains(byte));
        let hint = match () {
            () if is_only(b".,'_") && !is_only(b"") => ", in digits with nothing between them",
            () if !text.is_empty() && is_only(b".eE+") => {
                ", in all of its digits, since one with an exponent may be rounded (awk: printf \"%.0f\", R: options(scipen = 99))"
            }
            () if !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit) && !is_only(b"") => {
                " (for hexadecimal digits COLUMN:hex in --columns)"
            }
            () if what == A_PAGE && !text.is_empty() => " (for any text COLUMN:text in --columns)",
            () => "",
        };
        (format!("{what} in column '{}'{hint}", field.name), text)
    })
}

/// The time in a field, in µs; `None` if the field is empty.
fn time<'a>(record: &'a ByteRecord, field: &Field, unit: TimeUnit) -> Result<Option<u64>, BadField<'a>> {
    let text = record.get(field.at).unwrap_or_default().trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    // No trace is as long, nor is the time since 1970: the unit is another one.
    const IN_2200: u64 = 7_258_118_400_000_000;
    let time = unit.microseconds(text).filter(|time| *time < IN_2200).map(Some);
    time.ok_or_else(|| {
        let name = &field.name;
        let other = match TimeUnit::Date.microseconds(text) {
            Some(_) => format!("--columns …,time={name}:date for this one"),
            None => format!("for another unit --columns …,time={name}:s, ms, us, ns, filetime or date"),
        };
        let expected = format!("{} in column '{name}' ({other})", unit.words());
        (expected, text)
    })
}

impl PageFields {
    /// True if requests have sizes, so that they may be parts of pages.
    fn have_sizes(&self) -> bool {
        matches!(self, PageFields::Bytes { size: Some(_), .. })
    }

    /// True if any text is a page.
    fn are_texts(&self) -> bool {
        matches!(self, PageFields::Text(..))
    }

    /// True if the pages follow from bytes, so that requests may have parts of pages.
    fn are_bytes(&self) -> bool {
        matches!(self, PageFields::Bytes { .. })
    }

    /// The pages that a record touches; `None` for a request of 0 bytes.
    fn of<'a>(&self, record: &'a ByteRecord, action: Action, keys: &mut Names) -> Result<Option<Extent>, BadField<'a>> {
        match self {
            PageFields::Number(field) => {
                let page = number(record, field, A_PAGE)?;
                Ok(Some(Extent::of_page(page)))
            }
            PageFields::Hexadecimal(field) => {
                let text = record.get(field.at).unwrap_or_default().trim_ascii();
                let page = integer(text, true);
                let page = page.ok_or_else(|| (format!("hexadecimal digits in column '{}'", field.name), text))?;
                Ok(Some(Extent::of_page(page)))
            }
            PageFields::Text(field, is_trimmed) => {
                let text = record.get(field.at).unwrap_or_default();
                let text = if *is_trimmed { text.trim_ascii() } else { text };
                if text.is_empty() {
                    return Err((format!("the name of a page in column '{}'", field.name), text));
                }
                Ok(keys.number_for(text, action).map(Extent::of_page))
            }
            PageFields::Bytes { offset: (field, unit, is_hexadecimal), size, page_size, question } => {
                let what = "an offset from 0 to 2^64-1";
                let offset = u128::from(number_of(record, field, *is_hexadecimal, what)?) * u128::from(*unit);
                let is_sector = |bytes: u128, field: &Field| match question {
                    Some(question) if !bytes.is_multiple_of(u128::from(SECTOR)) => {
                        Err((question.clone(), record.get(field.at).unwrap_or_default()))
                    }
                    _ => Ok(()),
                };
                is_sector(offset, field)?;
                let bytes = match size {
                    // Of a request without a size one page is known, and nothing else.
                    None => 1,
                    Some((field, unit, is_hexadecimal)) => {
                        let what = if action == Action::Trim { "a size below 2^64 bytes" } else { "a size up to 2^40 bytes" };
                        let bytes = u128::from(number_of(record, field, *is_hexadecimal, what)?) * u128::from(*unit);
                        is_sector(bytes, field)?;
                        let most = if action == Action::Trim { u64::MAX } else { LONGEST_REQUEST };
                        if bytes > u128::from(most) {
                            let text = record.get(field.at).unwrap_or_default();
                            return Err((format!("{what} in column '{}'", field.name), text));
                        }
                        bytes as u64
                    }
                };
                if bytes == 0 {
                    return Ok(None);
                }
                Extent::of_bytes(offset, bytes, *page_size).map(Some).ok_or_else(|| {
                    (format!("an offset below 2^64 pages in column '{}'", field.name), record.get(field.at).unwrap_or_default())
                })
            }
        }
    }
}

/// The field of the class, and the classes that have appeared.
#[derive(Debug)]
pub(super) struct ClassField {
    field: Field,
    kind: ClassKind,
}

/// How a column gives classes, by its first value that is not empty.
#[derive(Debug)]
enum ClassKind {
    Unknown,
    Numbers,
    Names(ClassNumbers<Vec<u8>>),
}

impl ClassField {
    fn new(field: Field) -> ClassField {
        ClassField { field, kind: ClassKind::Unknown }
    }

    /// The class in a record, 0 if the field is empty.
    fn of<'a>(&mut self, record: &'a ByteRecord) -> Result<u32, BadField<'a>> {
        let text = record.get(self.field.at).unwrap_or_default().trim_ascii();
        if text.is_empty() {
            return Ok(0);
        }
        let number = decimal(text).and_then(|number| u32::try_from(number).ok());
        if let ClassKind::Unknown = self.kind {
            self.kind = match number {
                Some(_) => ClassKind::Numbers,
                None => ClassKind::Names(ClassNumbers::default()),
            };
        }
        let bad = |expected: &str| {
            let expected = format!("{expected} in column '{}'", self.field.name);
            (expected, text)
        };
        match &mut self.kind {
            ClassKind::Names(names) => names
                .number(&text.to_vec(), || String::from_utf8_lossy(text).into_owned())
                .ok_or_else(|| bad("one of at most 2^20 classes")),
            _ => number.ok_or_else(|| bad("a class number from 0 to 2^32-1")),
        }
    }

    fn classes(&self) -> PageClasses {
        match &self.kind {
            ClassKind::Names(names) => names.classes(),
            _ => PageClasses::default(),
        }
    }
}

/// The rows of a table.
pub(super) trait Rows: Send {
    /// Reads the next row; false at the end.
    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, TraceError>;

    /// The error of the row that was read last.
    fn wrong(&self, row: &ByteRecord, expected: String, found: String) -> TraceError;

    /// Share of the rows that were read, 0 to 1.
    fn progress(&self) -> f64;

    /// True if a few rows may take long: work stops only between batches.
    fn may_be_slow(&self) -> bool {
        false
    }
}

/// The references of a table.
struct TableDecoder<R> {
    rows: R,
    roles: Roles,
    row: ByteRecord,
    /// A row that was read already.
    first: Option<ByteRecord>,
    /// The name of the volume of the current row.
    volume: Vec<u8>,
    /// The columns of the batches.
    columns: OptionalColumns,
    pending: PendingRequest,
    bad_lines: BadLines,
}

/// What the values of a row mean.
struct Roles {
    width: usize,
    /// True if blanks around a text are none of it: not in a file that has lengths.
    is_trimmed: bool,
    pages: PageFields,
    volumes: Vec<Field>,
    /// Of volumes.
    names: Names,
    /// The texts that name pages.
    keys: Names,
    /// The names of the columns, where a line of them may stand once more: between two files that were put together.
    header: Vec<String>,
    writes: WriteField,
    classes: Option<ClassField>,
    times: Option<(Field, TimeUnit)>,
    repeat: Option<Field>,
    /// The field and the values of the rows that are read, whether a row has them, and how many others there were.
    only: Option<(Field, Vec<(String, bool)>)>,
    others: u64,
    /// Requests of 0 bytes, and rows that were to be repeated 0 times.
    empty: u64,
}

/// Starts reading a table; `first` is a row that was read already.
pub(super) fn open(
    rows: impl Rows + 'static,
    (header, columns, first): (&Header, Columns, Option<ByteRecord>),
    decoding: &Decoding,
    mut notes: Vec<String>,
) -> Result<OpenedTrace, TraceError> {
    let label = header.label;
    let find = |column: &String| header.field(column);
    let mut metadata = Metadata::default();
    let pages = header.page_fields(&columns, decoding, &mut metadata)?;
    metadata.below_cache = matches!(pages, PageFields::Bytes { .. });
    if metadata.below_cache && decoding.options.below_cache.is_none() {
        notes.push(format!(
            "{label}: taken for requests that a cache did not answer, since they have offsets (else --above-cache)"
        ));
    }
    let times = columns.time.as_ref().map(|time| Ok((header.field(&time.column)?, time.unit)));
    let classes = columns.class.as_ref().map(find).transpose()?.map(ClassField::new);
    let roles = Roles {
        width: header.names.len(),
        is_trimmed: header.is_line,
        volumes: columns.volumes.iter().map(find).collect::<Result<_, _>>()?,
        names: if columns.volumes.is_empty() { Names::default() } else { Names::of_reading(&decoding.volumes) },
        keys: if pages.are_texts() { Names::of_reading(&decoding.keys) } else { Names::default() },
        header: if header.is_line && first.is_none() { header.names.clone() } else { Vec::new() },
        pages,
        writes: header.write_field(&columns)?,
        classes: classes.filter(|_| decoding.columns.classes),
        times: times.transpose()?,
        repeat: columns.repeat.as_ref().map(find).transpose()?,
        only: columns
            .only
            .as_ref()
            .map(|(column, values)| Ok((find(column)?, values.iter().map(|it| (it.clone(), false)).collect())))
            .transpose()?,
        others: 0,
        empty: 0,
    };
    let columns = OptionalColumns {
        classes: roles.classes.is_some(),
        requests: decoding.columns.requests && roles.times.is_some(),
        operations: decoding.columns.operations && (roles.pages.are_bytes() || matches!(roles.writes, WriteField::Words(..))),
    };
    let decoder = Box::new(TableDecoder {
        rows,
        roles,
        row: ByteRecord::new(),
        first,
        volume: Vec::new(),
        columns,
        pending: PendingRequest::new(columns).merged(decoding.volumes.are_mixed()),
        bad_lines: decoding.bad_lines.clone(),
    });
    Ok(OpenedTrace { metadata, references: None, notes, decoder })
}

impl Roles {
    fn trimmed<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        if self.is_trimmed { text.trim_ascii() } else { text }
    }

    /// Values of `only=` that no row has, quoted.
    fn values_without_row(&self) -> Option<String> {
        let (_, values) = self.only.as_ref()?;
        let unmet = values.iter().filter(|(_, is_met)| !is_met).map(|(value, _)| format!("'{}'", one_line(value)));
        Some(unmet.collect::<Vec<_>>().join(", ")).filter(|unmet| !unmet.is_empty())
    }

    /// The request of a row, without its volume.
    fn request<'a>(&mut self, row: &'a ByteRecord) -> Result<Option<ForeignRequest>, BadField<'a>> {
        if let Some((field, values)) = &mut self.only {
            let text = whole_number(row.get(field.at).unwrap_or_default().trim_ascii());
            let Some((_, is_met)) = values.iter_mut().find(|(value, _)| whole_number(value.as_bytes()) == text) else {
                self.others += 1;
                return Ok(None);
            };
            *is_met = true;
        }
        if row.len() != self.width {
            // The text need not be one of the row.
            return Err((format!("{} columns as in the first line, not {}", self.width, row.len()), row.as_slice()));
        }
        if self.pages.are_texts() && row.iter().eq(self.header.iter().map(String::as_bytes)) {
            return Err(("a request, and not the names of the columns once more".to_owned(), row.as_slice()));
        }
        let action = match self.writes.of(row)? {
            // A flush may have no page.
            Operation::Skip => return Ok(None),
            Operation::Of(action) => action,
        };
        let extent = self.pages.of(row, action, &mut self.keys);
        let mut extent = extent.map_err(|(expected, text)| {
            match self.writes.answer_skipping(row).filter(|_| text.is_empty() && action == Action::Trim) {
                Some(answer) => (format!("{expected}, or {answer} if such lines have no page"), text),
                None => (expected, text),
            }
        })?;
        // Without sizes each request is one page.
        if let (Action::Trim, false, Some(extent)) = (action, self.pages.have_sizes(), &mut extent) {
            extent.whole = Some(extent.pages.clone());
        }
        let class = match &mut self.classes {
            Some(field) => field.of(row)?,
            None => 0,
        };
        let time_us = self.times.as_ref().map(|(field, unit)| time(row, field, *unit)).transpose()?.flatten();
        let repeat = self.repeat.as_ref().map(|field| number(row, field, "how often a request was made"));
        let repeat = repeat.transpose()?.unwrap_or(1);
        let extent = extent.filter(|_| repeat > 0);
        self.empty += u64::from(extent.is_none() && action != Action::Trim);
        Ok(extent.map(|extent| ForeignRequest { extent, action, class, time_us, repeat }))
    }
}

impl<R: Rows> TableDecoder<R> {
    /// Reads a row; false at the end.
    fn next(&mut self) -> Result<bool, TraceError> {
        match self.first.take() {
            Some(first) => {
                self.row = first;
                Ok(true)
            }
            None => self.rows.next(&mut self.row),
        }
    }

    /// The request of the current row.
    fn request(&mut self) -> Result<Option<ForeignRequest>, TraceError> {
        let request = self.roles.request(&self.row);
        let request = request.map_err(|(expected, found)| self.rows.wrong(&self.row, expected, quoted(found)))?;
        match request {
            Some(request) if !self.roles.volumes.is_empty() => self.in_volume(request),
            request => Ok(request),
        }
    }

    /// The request with the pages of its volume; `None` for the end of pages that were never referenced.
    fn in_volume(&mut self, request: ForeignRequest) -> Result<Option<ForeignRequest>, TraceError> {
        self.volume.clear();
        for field in &self.roles.volumes {
            let text = whole_number(self.roles.trimmed(self.row.get(field.at).unwrap_or_default()));
            // With its length, so that it cannot run into the next one.
            self.volume.extend_from_slice(&text.len().to_le_bytes());
            self.volume.extend_from_slice(text);
        }
        let Some(volume) = self.roles.names.number_for(&self.volume, request.action) else {
            return Ok(None);
        };
        let last = *request.extent.pages.end();
        let extent = match request.action {
            Action::Trim => match request.extent.within_volume() {
                None => return Ok(None),
                Some(within) => within,
            },
            Action::Read | Action::Write => request.extent,
        };
        let extent = extent.in_volume(volume).ok_or_else(|| {
            let (expected, found) = match volume < MOST_VOLUMES {
                true => ("a page below 2^48, since each volume has its own (volume= in --columns)", last.to_string()),
                false => ("at most 65536 different volumes (volume= in --columns)", (volume + 1).to_string()),
            };
            self.rows.wrong(&self.row, expected.into(), format!("'{found}'"))
        })?;
        Ok(Some(ForeignRequest { extent, ..request }))
    }
}

impl<R: Rows> Decode for TableDecoder<R> {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        let mut is_read = false;
        let start = self.rows.may_be_slow().then(Instant::now);
        let is_due = |batch: &Batch| !batch.is_empty() && start.is_some_and(|start| start.elapsed() >= LONGEST_FILL);
        while batch.len() < max && !is_due(batch) {
            if self.pending.continue_into(batch, max) {
                continue;
            }
            if !self.next()? {
                is_read = true;
                break;
            }
            match self.request() {
                Ok(request) => self.pending.begin(request),
                Err(error) => self.bad_lines.leave_out(error)?,
            }
        }
        // Not only at the end, which a reading up to a limit does not reach.
        let others = (self.roles.others, is_read.then(|| self.roles.values_without_row()).flatten());
        let unordered = self.pending.unordered();
        let words = self.roles.writes.news(is_read, self.roles.empty, others);
        if let Some(words) = words.or_else(|| (unordered > 0).then(WordsForWrites::default)) {
            self.bad_lines.found_words(WordsForWrites { unordered, ..words });
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.rows.progress()
    }

    fn classes(&self) -> Option<PageClasses> {
        self.roles.classes.as_ref().map(ClassField::classes)
    }

    fn columns(&self) -> OptionalColumns {
        self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(header: &str) -> Option<String> {
        let names: Vec<String> = header.split(',').map(str::to_owned).collect();
        match guess(&names) {
            Ok(columns) => columns.map(|columns| columns.to_string()),
            Err(question) => Some(format!("? {question}")),
        }
    }

    /// Where several columns may be the size, no answer leaves it out without a word (Google's Thesios).
    #[test]
    fn answers_say_that_there_are_sizes() {
        let question = guessed("Offset (KiB),Length (Bytes),op").unwrap();
        assert!(question.contains("--columns 'offset=Offset (KiB):1024,size=Length (Bytes),write=op'"), "{question}");
        let question =
            guessed("filename,file_offset,op_type,redundancy_type,request_io_size_bytes,disk_io_size_bytes").unwrap();
        assert!(question.contains("may be in request_io_size_bytes, disk_io_size_bytes: with size="), "{question}");
    }

    #[test]
    fn guesses() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(guessed("time,page,write"), some("page=page,write=write"));
        assert_eq!(guessed("Op,BLK"), some("page=BLK,write=Op"));
        assert_eq!(guessed("ts,offset,size,op"), some("offset=offset,size=size,write=op"));
        assert_eq!(guessed("page"), some("page=page"));
        assert_eq!(guessed("page,write,class"), some("page=page,write=write,class=class"));
        assert_eq!(guessed("time_us,page,write"), some("page=page,write=write,time=time_us:us"));
        assert_eq!(guessed("a,b,c"), None);
        for (names, answers) in [
            ("block_id,offset,size,op", ["page=block_id,write=op", "offset=offset,size=size,volume=block_id,write=op"]),
            ("block,size,op", ["offset=block:512,size=size:512,write=op", "page=block,write=op"]),
            ("offset,io_size,op", ["offset=offset,size=io_size,write=op", "offset=offset,write=op"]),
            (
                "device_id,offset,length,op",
                ["offset=offset,size=length,volume=device_id,write=op", "offset=offset,size=length,write=op"],
            ),
            ("relfilenode,block", ["page=block,volume=relfilenode", "page=block"]),
            (
                "offset_kb,length_sectors,op",
                ["offset=offset_kb:1024,size=length_sectors:512,write=op", "offset=offset_kb:1024,write=op"],
            ),
            ("blkno,bcount", ["offset=blkno:512,size=bcount:512", "page=blkno"]),
        ] {
            let question = guessed(names).unwrap();
            for answer in answers {
                assert!(question.starts_with('?') && question.contains(&format!("--columns {answer}")), "{names}: {question}");
                assert_eq!(answer.parse::<Columns>().unwrap().to_string(), answer);
            }
        }
    }
}
