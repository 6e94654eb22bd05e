//! Which columns of a CSV hold a reference.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{did_you_mean, one_line};

use crate::error::TraceError;
use crate::formats::TimeUnit;

/// The columns that a user named, as in `page=blk,write=op:W`.
///
/// - `page=COLUMN`: the page number, with `:hex` in hexadecimal digits, and with `:text` any text, whose page is numbered when it
///   first appears
/// - `offset=COLUMN[:BYTES]` (or `:hex`, bytes in hexadecimal digits) and `size=COLUMN[:BYTES]`: where a request begins and
///   how long it is, in units of BYTES bytes; 1 byte by default
/// - `volume=COLUMN`, any number of times: the device, file or relation of the page; equal page numbers of two volumes are two
///   pages
/// - `write=COLUMN`: a word that says whether the page is written
/// - `write=COLUMN:VALUE[|VALUE…]`: written where the column holds exactly one of these values; `read=`, `trim=` and `skip=` say the
///   same of values of this column that read, that end pages, and of lines that do none of these. `*` stands for all other values
/// - `class=COLUMN`: the class of the page, a number or a name
/// - `time=COLUMN[:UNIT]`: when the request was made, a number of UNIT, which is `s`, `ms`, `us`, `ns` or
///   `filetime` (100 ns, since 1601); seconds by default. With `:date` a date and a time of day (ISO 8601)
/// - `repeat=COLUMN`: how often the request was made
/// - `only=COLUMN:VALUE[|VALUE…]`: lines with another value in this column are left out
///
/// And of the file, where it does not show: `separator=` a character, or `comma`, `semicolon`, `tab`, `bar`, `space` (any number
/// of blanks and tabs); `comment=` the character with which lines begin that say nothing; `names=no` if the first line is a
/// request, `names=yes` if it names the columns; `quotes=no` if quotation marks are letters as others, `quotes=yes` if what they
/// enclose may have several lines.
///
/// Column names are those of the first line; `#3` is the third column, whatever its name. A backslash stands before a comma, a
/// colon, a bar or a backslash that belongs to a name or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub(crate) pages: PageColumns,
    pub(crate) volumes: Vec<String>,
    pub(crate) write: Option<WriteColumn>,
    pub(crate) class: Option<String>,
    pub(crate) time: Option<TimeColumn>,
    pub(crate) repeat: Option<String>,
    /// The column and the values of the lines that are read.
    pub(crate) only: Option<(String, Vec<String>)>,
    pub(crate) layout: Layout,
}

/// What the user says of the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// [`BLANKS`] for any number of blanks and tabs.
    pub(crate) separator: Option<u8>,
    pub(crate) comment: Option<u8>,
    /// True if the first line names the columns.
    pub(crate) names: Option<bool>,
    /// True if quotation marks enclose fields.
    pub(crate) quotes: Option<bool>,
}

/// As a separator: any number of blanks and tabs.
pub(crate) const BLANKS: u8 = b' ';

/// Separators that have names, because a mapping or a shell takes them for something else.
const SEPARATORS: [(&str, u8); 5] = [("comma", b','), ("semicolon", b';'), ("tab", b'\t'), ("bar", b'|'), ("space", BLANKS)];

/// What stands in a column of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    Number,
    Hexadecimal,
    Text,
}

const PAGE_KINDS: [(&str, PageKind); 2] = [(":hex", PageKind::Hexadecimal), (":text", PageKind::Text)];

/// How a table that others publish or export is read.
#[derive(Debug, Clone, Copy)]
pub struct TableShape {
    /// Whose tables look like this.
    pub whose: &'static str,
    /// The first lines.
    pub lines: &'static str,
    /// `--columns`.
    pub columns: &'static str,
    /// The references of these lines, in pages of 4 KiB where the columns count bytes.
    pub references: &'static str,
}

const fn shape(whose: &'static str, lines: &'static str, columns: &'static str, references: &'static str) -> TableShape {
    TableShape { whose, lines, columns, references }
}

/// Tables that others publish or export. The second volume's pages are written `2:0`.
pub static TABLE_SHAPES: &[TableShape] = &[
    shape(
        "Alibaba, block traces (device, operation, offset, length, µs)",
        "419,W,8192,8192,1577808000000046\n725,R,0,4096,1577808000000103",
        "volume=#1,write=#2,offset=#3,size=#4,time=#5:us",
        "W 2, W 3, R 2:0",
    ),
    shape(
        "Tencent, block traces (second, offset and size in sectors, 1 for a write, volume)",
        "1538323200,8,16,1,1063\n1538323201,8,8,0,1064",
        "time=#1,offset=#2:512,size=#3:512,write=#4:1,volume=#5",
        "W 1, W 2, R 2:1",
    ),
    shape(
        "SYSTOR '17, virtual desktops",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455502838.1,0.1,W,3,8192,4096",
        "time=Timestamp,write=IOType,volume=LUN,offset=Offset,size=Size",
        "W 2",
    ),
    shape(
        "FIU (ns, process, name, sector, sectors, W or R, device)",
        "329131208190249 4892 syslogd 904265560 8 W 6 0 531e779d0a4f\n329131208201000 4892 syslogd 8 16 R 6 1 a2",
        "time=#1:ns,offset=#4:512,size=#5:512,write=#6,volume=#7,volume=#8,separator=space",
        "W 113033195, R 2:1, R 2:2",
    ),
    shape(
        "DiskSim, FEMU (ms, device, block, blocks, 0 for a write)",
        "0.0 0 8 16 0\n1.5 0 8 8 1",
        "time=#1:ms,volume=#2,offset=#3:512,size=#4:512,write=#5:0,separator=space",
        "W 1, W 2, R 1",
    ),
    shape(
        "MQSim (ns, device, sector, sectors, 0 for a write)",
        "4851300 1 524288 16 0",
        "time=#1:ns,volume=#2,offset=#3:512,size=#4:512,write=#5:0,separator=space",
        "W 65536, W 65537",
    ),
    shape(
        "biosnoop of BCC",
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n0.000004001 supervise      1950   xvda1   W 13092560   4096      0.74",
        "time=TIME(s),volume=DISK,write=T,offset=SECTOR:512,size=BYTES,separator=space",
        "W 1636570",
    ),
    shape(
        "fio, latency logs with offsets (ms, latency, direction, size, offset)",
        "15, 223001, 1, 4096, 8192, 0\n16, 1000, 0, 4096, 0, 0\n17, 99, 2, 4096, 0, 0",
        "time=#1:ms,write=#3:1,skip=#3:2,size=#4,offset=#5",
        "W 2, R 0",
    ),
    shape(
        "Twitter, cache traces (second, key, sizes, client, operation, lifetime)",
        "0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n1,yDqF:3q:1AJrr,20,27,5,set,86400\n1,q:q:1:8WTfjZU14ee,17,213,4,delete,0",
        "time=#1,page=#2:text,write=#6:set|add|cas|replace|append|prepend|incr|decr,read=#6:get|gets,skip=#6:delete",
        "R 0, W 1",
    ),
    shape(
        "CacheLib, key-value traces",
        "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n0,4509112,22,GET,2,60,1,0\n1,4509113,22,SET,1,60,0,0",
        "time=op_time,page=key:text,write=op:SET,read=op:GET,skip=op:DELETE,repeat=op_count",
        "R 0, R 0, W 1",
    ),
    shape(
        "IBM, object stores (ms, request, object, size)",
        "1219008 REST.PUT.OBJECT 8d4fcda3d675bac9 1056\n1221974 REST.HEAD.OBJECT 39d177fb735ac5df 528",
        "time=#1:ms,write=#2:REST.PUT.OBJECT,read=#2:*,skip=#2:REST.DELETE.OBJECT,page=#3:text,separator=space",
        "W 0, R 1",
    ),
    shape("webcachesim (second, object, size)", "1 1001 128\n2 1002 64", "time=#1,page=#2,separator=space", "R 1001, R 1002"),
    shape(
        "PostgreSQL, relation and block",
        "relfilenode,forknum,block,isdirty\n16384,0,7,t\n16384,1,7,f",
        "volume=relfilenode,volume=forknum,page=block,write=isdirty",
        "W 7, R 2:7",
    ),
    shape(
        "InnoDB, tablespace and page", "space,page_no,op\n4,7,write\n5,7,read", "volume=space,page=page_no,write=op",
        "W 7, R 2:7",
    ),
    shape(
        "perf, PEBS, lackey: addresses", "W 7f1008\nR 04222100", "write=#1,offset=#2:hex,separator=space,names=no",
        "W 2033, R 16930",
    ),
    shape(
        "Windows, 100 ns since 1601", "when;op;offset;bytes\n128166372003061629;Write;8192;4096",
        "time=when:filetime,write=op,offset=offset,size=bytes", "W 2",
    ),
    shape(
        "A log with dates and words of its own",
        "at\tevent\tblk\n2024-02-29T23:59:59.5Z\tpage_in\t7\n2024-03-01T00:00:00Z\tpage_out\t7\n2024-03-01T00:00:01Z\tsync\t",
        "time=at:date,write=event:page_out,read=event:page_in,page=blk",
        "R 7, W 7",
    ),
    shape(
        "Excel with semicolons, comments before", "! exported\npage;write\n7;1\n8;0", "page=page,write=write,comment=!",
        "W 7, R 8",
    ),
    shape("counts instead of references", "page,hits\n7,2\n8,1", "page=page,repeat=hits", "R 7, R 7, R 8"),
    shape(
        "tables of DuckDB, pandas or polars, in Parquet too",
        "dev,lba,nblk,op\nsda,8,8,WRITE\nsda,8,8,UNMAP\nsdb,8,8,READ",
        "volume=dev,offset=lba:512,size=nblk:512,write=op",
        "W 1, R 2:1",
    ),
];

/// The columns that hold the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageColumns {
    Page(String, PageKind),
    Bytes { offset: ByteColumn, size: Option<ByteColumn> },
}

/// A column and the number of bytes in one of its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteColumn {
    pub(crate) column: String,
    pub(crate) unit: u64,
    /// True if it has hexadecimal digits.
    pub(crate) is_hexadecimal: bool,
}

/// A column that says which references write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteColumn {
    pub(crate) column: String,
    /// The values that mean a write. If there are none, the column holds words such as
    /// `write`.
    pub(crate) values: Vec<String>,
    /// The values that mean a read, those that end pages, and those of lines that do none of these.
    pub(crate) reads: Vec<String>,
    pub(crate) trims: Vec<String>,
    pub(crate) skipped: Vec<String>,
}

impl WriteColumn {
    /// All other values.
    pub(crate) const OTHERS: &str = "*";
}

/// A column of times, and their unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeColumn {
    pub(crate) column: String,
    pub(crate) unit: TimeUnit,
    /// False if the unit is the default.
    pub(crate) has_unit: bool,
}

const ROLES: [&str; 16] = [
    "page", "offset", "size", "write", "read", "trim", "skip", "class", "time", VOLUME, "repeat", "only", "separator",
    "comment", "names", "quotes",
];
const VOLUME: &str = "volume";

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Columns, TraceError> {
        let hidden = escaped(text);
        Columns::parse(&hidden)
            .map_err(|problem| TraceError::Mapping { problem: one_line(&plain(&problem)) })
            .map(Columns::plain)
    }
}

/// Signs with a meaning here, and what stands for them while a text is parsed in which a backslash is before them.
const ESCAPES: [(char, char); 4] = [('\\', '\u{F0000}'), (',', '\u{F0001}'), (':', '\u{F0002}'), ('|', '\u{F0003}')];

fn escaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut hidden = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        let next = letters.clone().next().filter(|_| letter == '\\');
        match ESCAPES.iter().find(|(sign, _)| Some(*sign) == next) {
            Some((_, instead)) => {
                letters.next();
                hidden.push(*instead);
            }
            None => hidden.push(letter),
        }
    }
    hidden
}

/// The text with its signs.
fn plain(text: &str) -> String {
    let sign = |letter: char| ESCAPES.iter().find(|(_, instead)| *instead == letter).map_or(letter, |(sign, _)| *sign);
    text.chars().map(sign).collect()
}

/// The text with a backslash before each sign that would have a meaning.
pub(crate) fn spelled(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for letter in text.chars() {
        if ESCAPES.iter().any(|(sign, _)| *sign == letter) {
            spelled.push('\\');
        }
        spelled.push(letter);
    }
    spelled
}

impl Columns {
    /// Parses a mapping; the error says what is wrong.
    fn parse(text: &str) -> Result<Columns, String> {
        let given = columns_by_role(text)?;
        let of = |role: &str| given.iter().find(|(it, _)| *it == role).map(|(_, column)| *column);
        let pages = match (of("page"), of("offset"), of("size")) {
            (Some(page), None, None) => PageColumns::page(page),
            (None, Some(offset), size) => {
                PageColumns::Bytes { offset: ByteColumn::parse(offset)?, size: size.map(ByteColumn::parse).transpose()? }
            }
            (Some(_), _, _) => {
                return Err("page excludes offset and size".to_owned());
            }
            (None, None, _) => {
                return Err("neither page nor offset is given".to_owned());
            }
        };
        let mut write = of("write").map(WriteColumn::parse);
        for (role, text) in ["read", "trim", "skip"].into_iter().filter_map(|role| Some((role, of(role)?))) {
            let WriteColumn { column, values, .. } = WriteColumn::parse(text);
            let Some(write) = &mut write else {
                return Err(format!("{role}= goes with write=COLUMN:VALUE"));
            };
            if column != write.column || values.is_empty() {
                return Err(format!("{role}= names values of the column of write=, as in write=op:W,{role}=op:VALUE"));
            }
            match role {
                "read" => write.reads = values,
                "trim" => write.trims = values,
                _ => write.skipped = values,
            }
        }
        if let Some(write) = &write {
            let all = [&write.values, &write.reads, &write.trims, &write.skipped];
            let others = all.iter().filter(|values| values.iter().any(|value| value == WriteColumn::OTHERS)).count();
            let named = || all[1..].iter().copied().flatten();
            let twice = named().find(|value| all.iter().filter(|values| values.contains(value)).count() > 1);
            if let Some(value) = twice.filter(|_| others < 2) {
                return Err(format!("'{value}' has two meanings"));
            }
            if others > 1 {
                return Err("'*' has two meanings".to_owned());
            }
        }
        Ok(Columns {
            pages,
            volumes: given.iter().filter(|(role, _)| *role == VOLUME).map(|(_, column)| (*column).to_owned()).collect(),
            write,
            class: of("class").map(str::to_owned),
            time: of("time").map(TimeColumn::parse).transpose()?,
            repeat: of("repeat").map(str::to_owned),
            only: match of("only").map(WriteColumn::parse) {
                Some(WriteColumn { values, .. }) if values.is_empty() => {
                    return Err("only= names no values, as in only=action:Q".to_owned());
                }
                only => only.map(|only| (only.column, only.values)),
            },
            layout: Layout::parse(of("separator"), of("comment"), [("names", of("names")), ("quotes", of("quotes"))])?,
        })
    }
}

impl Columns {
    /// With the signs that were hidden.
    fn plain(mut self) -> Columns {
        let write = self.write.iter_mut().flat_map(|write| {
            let values = write.values.iter_mut().chain(&mut write.reads).chain(&mut write.trims).chain(&mut write.skipped);
            std::iter::once(&mut write.column).chain(values)
        });
        let (page, size) = match &mut self.pages {
            PageColumns::Page(page, _) => (page, None),
            PageColumns::Bytes { offset, size } => (&mut offset.column, size.as_mut().map(|size| &mut size.column)),
        };
        let time = self.time.as_mut().map(|time| &mut time.column);
        let others = [Some(page), size, self.class.as_mut(), time, self.repeat.as_mut()];
        let only = self.only.iter_mut().flat_map(|(column, values)| std::iter::once(column).chain(values));
        for text in write.chain(others.into_iter().flatten()).chain(&mut self.volumes).chain(only) {
            *text = plain(text);
        }
        self
    }

    /// `--columns` with these, as a shell takes it.
    pub(crate) fn option(&self) -> String {
        // Names from a file may have what a terminal obeys.
        let shown = |letter: char| match ebbpool_cost::is_invisible(letter) {
            true => letter.escape_unicode().to_string(),
            false => letter.to_string(),
        };
        let text: String = self.to_string().chars().map(shown).collect();
        // A colon at the end would be taken for one of the sentence.
        let is_plain = |letter: char| letter.is_alphanumeric() || "=,:#_-./+@%".contains(letter);
        match text.chars().all(is_plain) && !text.ends_with(':') {
            true => format!("--columns {text}"),
            false => format!("--columns '{}'", text.replace('\'', "'\\''")),
        }
    }

    /// The names of all columns that are read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let (page, size) = match &self.pages {
            PageColumns::Page(page, _) => (page, None),
            PageColumns::Bytes { offset, size } => (&offset.column, size.as_ref().map(|size| &size.column)),
        };
        let write = self.write.as_ref().map(|write| &write.column);
        let time = self.time.as_ref().map(|time| &time.column);
        let only = self.only.as_ref().map(|(column, _)| column);
        let all = [Some(page), size, write, self.class.as_ref(), time, self.repeat.as_ref(), only];
        all.into_iter().flatten().chain(&self.volumes)
    }

    /// The names of columns in which numbers stand.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = &String> {
        let (page, size) = match &self.pages {
            PageColumns::Page(page, PageKind::Number) => (Some(page), None),
            PageColumns::Page(..) => (None, None),
            PageColumns::Bytes { offset, size } => (Some(&offset.column), size.as_ref().map(|size| &size.column)),
        };
        let time = self.time.as_ref().filter(|time| time.unit != TimeUnit::Date).map(|time| &time.column);
        [page, size, time, self.repeat.as_ref()].into_iter().flatten()
    }
}

/// What is given for each of the [`ROLES`], of which volumes may be given several times.
fn columns_by_role(text: &str) -> Result<Vec<(&'static str, &str)>, String> {
    let mut given: Vec<(&'static str, &str)> = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((role, column)) = item.split_once('=') else {
            return Err(format!("'{item}' is not of the form page=COLUMN"));
        };
        let (role, column) = (role.trim(), column.trim());
        let Some(&role) = ROLES.iter().find(|&&other| other == role) else {
            return Err(format!("'{role}' is nothing that a column can be{}", did_you_mean(role, ROLES)));
        };
        if column.is_empty() {
            return Err(format!("{role}= names no column"));
        }
        if role != VOLUME && given.iter().any(|(other, _)| *other == role) {
            return Err(format!("'{role}' is given twice"));
        }
        given.push((role, column));
    }
    Ok(given)
}

impl Layout {
    fn parse(separator: Option<&str>, comment: Option<&str>, flags: [(&str, Option<&str>); 2]) -> Result<Layout, String> {
        let sign = |text: &str| match plain(text).as_bytes() {
            [sign] if sign.is_ascii_punctuation() && *sign != b'"' => Ok(*sign),
            _ => Err(format!("'{text}' is no sign such as ; or #")),
        };
        let separator = separator.map(|text| {
            let named = SEPARATORS.iter().find(|(name, _)| *name == text).map(|(_, sign)| *sign);
            named.map_or_else(|| sign(text).map_err(|error| format!("{error}, nor comma, semicolon, tab, bar or space")), Ok)
        });
        let [names, quotes] = flags.map(|(role, text)| match text {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(text) => Err(format!("{role}={text} is neither {role}=yes nor {role}=no")),
        });
        Ok(Layout {
            separator: separator.transpose()?,
            comment: comment.map(sign).transpose()?,
            names: names?,
            quotes: quotes?,
        })
    }
}

impl PageColumns {
    fn page(text: &str) -> PageColumns {
        let kind = PAGE_KINDS.iter().find_map(|(suffix, kind)| Some((text.strip_suffix(suffix)?, *kind)));
        let (column, kind) = kind.filter(|(column, _)| !column.is_empty()).unwrap_or((text, PageKind::Number));
        PageColumns::Page(column.trim_end().to_owned(), kind)
    }
}

impl ByteColumn {
    /// A column that counts bytes.
    pub(crate) fn bytes(column: &str) -> ByteColumn {
        ByteColumn { column: column.to_owned(), unit: 1, is_hexadecimal: false }
    }

    fn parse(text: &str) -> Result<ByteColumn, String> {
        let Some((column, unit)) = text.rsplit_once(':') else {
            return Ok(ByteColumn::bytes(text));
        };
        if unit == "hex" && !column.is_empty() {
            return Ok(ByteColumn { is_hexadecimal: true, ..ByteColumn::bytes(column.trim_end()) });
        }
        match unit.parse() {
            Ok(unit @ 1..) if !column.is_empty() => Ok(ByteColumn { unit, ..ByteColumn::bytes(column.trim_end()) }),
            _ => Err(format!("'{unit}' is no number of bytes; behind the colon stands a column's unit, as in sector:512")),
        }
    }
}

impl TimeColumn {
    fn parse(text: &str) -> Result<TimeColumn, String> {
        let Some((column, unit)) = text.rsplit_once(':') else {
            return Ok(TimeColumn { column: text.to_owned(), unit: TimeUnit::Seconds, has_unit: false });
        };
        match TimeUnit::of_name(unit.trim()) {
            Some(unit) if !column.is_empty() => Ok(TimeColumn { column: column.trim_end().to_owned(), unit, has_unit: true }),
            _ => Err(format!(
                "'{unit}' is no unit of time; behind the colon stands s, ms, us, ns, filetime or date, as in time=ts:ms"
            )),
        }
    }
}

impl WriteColumn {
    /// A column of words such as `write`.
    pub(crate) fn of_words(column: &str) -> WriteColumn {
        WriteColumn { column: column.to_owned(), values: Vec::new(), reads: Vec::new(), trims: Vec::new(), skipped: Vec::new() }
    }

    fn parse(text: &str) -> WriteColumn {
        match text.rsplit_once(':') {
            Some((column, values)) if !column.is_empty() => WriteColumn {
                column: column.trim_end().to_owned(),
                values: values.split('|').map(|value| value.trim().to_owned()).collect(),
                reads: Vec::new(),
                trims: Vec::new(),
                skipped: Vec::new(),
            },
            _ => WriteColumn::of_words(text),
        }
    }
}

impl fmt::Display for Columns {
    /// The spelling that [`FromStr`] reads.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = |measure: &ByteColumn| match measure.unit {
            _ if measure.is_hexadecimal => format!("{}:hex", spelled(&measure.column)),
            1 => spelled(&measure.column),
            unit => format!("{}:{unit}", spelled(&measure.column)),
        };
        let values = |values: &[String]| values.iter().map(|value| spelled(value)).collect::<Vec<_>>().join("|");
        let yes = |is: bool| if is { "yes" } else { "no" };
        let mut items = match &self.pages {
            PageColumns::Page(column, kind) => {
                let suffix = PAGE_KINDS.iter().find(|(_, it)| it == kind).map_or("", |(suffix, _)| suffix);
                vec![format!("page={}{suffix}", spelled(column))]
            }
            PageColumns::Bytes { offset, size } => {
                let size = size.as_ref().map(|size| format!("size={}", measure(size)));
                [Some(format!("offset={}", measure(offset))), size].into_iter().flatten().collect()
            }
        };
        items.extend(self.volumes.iter().map(|volume| format!("volume={}", spelled(volume))));
        if let Some(WriteColumn { column, values: writes, reads, trims, skipped }) = &self.write {
            let column = spelled(column);
            items.push(match writes.is_empty() {
                true => format!("write={column}"),
                false => format!("write={column}:{}", values(writes)),
            });
            for (role, listed) in
                [("read", reads), ("trim", trims), ("skip", skipped)].into_iter().filter(|(_, listed)| !listed.is_empty())
            {
                items.push(format!("{role}={column}:{}", values(listed)));
            }
        }
        items.extend(self.class.iter().map(|class| format!("class={}", spelled(class))));
        items.extend(self.time.iter().map(|TimeColumn { column, unit, has_unit }| match has_unit {
            false => format!("time={}", spelled(column)),
            true => format!("time={}:{}", spelled(column), unit.name()),
        }));
        items.extend(self.repeat.iter().map(|repeat| format!("repeat={}", spelled(repeat))));
        items.extend(self.only.iter().map(|(column, only)| format!("only={}:{}", spelled(column), values(only))));
        let Layout { separator, comment, names, quotes } = self.layout;
        items.extend(separator.map(|separator| match SEPARATORS.iter().find(|(_, sign)| *sign == separator) {
            Some((name, _)) => format!("separator={name}"),
            None => format!("separator={}", spelled(&char::from(separator).to_string())),
        }));
        items.extend(comment.map(|comment| format!("comment={}", spelled(&char::from(comment).to_string()))));
        items.extend(names.map(|names| format!("names={}", yes(names))));
        items.extend(quotes.map(|quotes| format!("quotes={}", yes(quotes))));
        formatter.write_str(&items.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for text in [
            "page=blk,write=op:W",
            "page=blk",
            "page=blk,write=op:W,class=relation",
            "offset=o,size=n,write=w",
            "offset=o:hex,size=n:hex",
            "offset=sector:512,size=sectors:512,write=rwbs:W|WS",
            "page=blk,write=op:W,time=ts",
            "page=blk,class=c,time=ts:us",
            r"offset=a\:b,size=a\,b:512,time=a\:b",
            r"page=blk,write=op\:x:block\:rq|R\|P|a\\b",
            "page=#3,volume=#1,volume=host,write=#2:W|WS,read=#2:R,skip=#2:*",
            "page=a:hex,time=#1:filetime,repeat=n,only=act:Q|C,separator=space,comment=#,names=no",
            "page=key:text,time=when:date,separator=\\:,names=yes,quotes=no",
        ] {
            let columns: Columns = text.parse().unwrap();
            assert_eq!(columns.to_string(), text);
        }
        assert_eq!("page=a,time=a:b:s".parse::<Columns>().unwrap().time.unwrap().column, "a:b");
        let bars: Columns = r"page=p,write=op:a\|b".parse().unwrap();
        assert_eq!(bars.option(), r"--columns 'page=p,write=op:a\|b'");
        let columns: Columns = " write = op , page = block no ".parse().unwrap();
        assert_eq!(columns.to_string(), "page=block no,write=op");
    }

    #[test]
    fn refusals() {
        for (text, part) in [
            ("", "neither page nor offset"),
            ("write=op", "neither page nor offset"),
            ("size=n", "neither page nor offset"),
            ("page", "not of the form"),
            ("page=", "names no column"),
            ("page=a,page=b", "given twice"),
            ("page=a,offset=b", "excludes"),
            ("pgae=a", "did you mean 'page'?"),
            ("offset=a:0", "no number of bytes"),
            ("offset=a:x", "no number of bytes"),
            ("page=a,time=t:h", "'h' is no unit of time"),
            ("page=a,time=:s", "no unit of time"),
            ("page=a,separator=xy", "no sign such as ; or #, nor comma"),
            ("page=a,comment=x", "no sign"),
            ("page=a,names=1", "neither names=yes nor"),
            ("page=a,read=op:R", "goes with write="),
            ("page=a,only=op", "names no values"),
            ("page=a,write=op:W,read=other:R", "the column of write="),
            ("page=a,write=op:W,read=op:W", "'W' has two meanings"),
            ("page=a,write=op:W,read=op:*,skip=op:*", "'*' has two meanings"),
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
