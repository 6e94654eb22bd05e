//! Which columns of a CSV hold a reference.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{did_you_mean, one_line};

use crate::error::TraceError;
use crate::formats::TimeUnit;

/// The columns that a user named, as in `page=blk,write=op:W`.
///
/// - `page=COLUMN`: the page number
/// - `offset=COLUMN[:BYTES]` and `size=COLUMN[:BYTES]`: where a request begins and
///   how long it is, in units of BYTES bytes; 1 byte by default
/// - `volume=COLUMN`, any number of times: the device, file or relation of the page; equal page numbers of two volumes are two
///   pages
/// - `write=COLUMN`: a word that says whether the page is written
/// - `write=COLUMN:VALUE[|VALUE…]`: written where the column holds exactly one of these values; `read=` and `skip=` say the same of
///   values of this column that read, and of lines that are neither. `*` stands for all other values
/// - `class=COLUMN`: the class of the page, a number or a name
/// - `time=COLUMN[:UNIT]`: when the request was made, a number of UNIT, which is `s`, `ms`, `us` or `ns`; seconds by default
///
/// Column names are those of the first line and hold no comma; `#3` is the third column, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub(crate) pages: PageColumns,
    pub(crate) volumes: Vec<String>,
    pub(crate) write: Option<WriteColumn>,
    pub(crate) class: Option<String>,
    pub(crate) time: Option<TimeColumn>,
}

/// The columns that hold the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageColumns {
    Page(String),
    Bytes { offset: ByteColumn, size: Option<ByteColumn> },
}

/// A column and the number of bytes in one of its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteColumn {
    pub(crate) column: String,
    pub(crate) unit: u64,
}

/// A column that says which references write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteColumn {
    pub(crate) column: String,
    /// The values that mean a write. If there are none, the column holds words such as
    /// `write`.
    pub(crate) values: Vec<String>,
    /// The values that mean a read, and those of lines that are neither.
    pub(crate) reads: Vec<String>,
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
}

const ROLES: [&str; 9] = ["page", "offset", "size", "write", "read", "skip", "class", "time", "volume"];
const VOLUME: usize = 8;

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Columns, TraceError> {
        Columns::parse(text).map_err(|problem| TraceError::Mapping { problem: one_line(&problem) })
    }
}

impl Columns {
    /// Parses a mapping; the error says what is wrong.
    fn parse(text: &str) -> Result<Columns, String> {
        let ([page, offset, size, write, read, skip, class, time, _], volumes) = columns_by_role(text)?;
        let pages = match (page, offset, size) {
            (Some(page), None, None) => PageColumns::Page(page.to_owned()),
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
        let mut write = write.map(WriteColumn::parse);
        for (role, text) in [("read", read), ("skip", skip)].into_iter().filter_map(|(role, text)| Some((role, text?))) {
            let WriteColumn { column, values, .. } = WriteColumn::parse(text);
            let Some(write) = &mut write else {
                return Err(format!("{role}= goes with write=COLUMN:VALUE"));
            };
            if column != write.column || values.is_empty() {
                return Err(format!("{role}= names values of the column of write=, as in write=op:W,{role}=op:VALUE"));
            }
            match role {
                "read" => write.reads = values,
                _ => write.skipped = values,
            }
        }
        if let Some(write) = &write {
            let all = [&write.values, &write.reads, &write.skipped];
            let others = all.iter().filter(|values| values.iter().any(|value| value == WriteColumn::OTHERS)).count();
            let twice = write
                .reads
                .iter()
                .chain(&write.skipped)
                .find(|value| all.iter().filter(|values| values.contains(value)).count() > 1);
            if write.values.is_empty() && !(write.reads.is_empty() && write.skipped.is_empty()) {
                return Err("write=COLUMN names no values beside read= or skip=".to_owned());
            }
            if let Some(value) = twice.filter(|_| others < 2) {
                return Err(format!("'{value}' has two meanings"));
            }
            if others > 1 {
                return Err("'*' has two meanings".to_owned());
            }
        }
        Ok(Columns {
            pages,
            volumes: volumes.into_iter().map(str::to_owned).collect(),
            write,
            class: class.map(str::to_owned),
            time: time.map(TimeColumn::parse).transpose()?,
        })
    }
}

impl Columns {
    /// The names of all columns that are read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let (page, size) = match &self.pages {
            PageColumns::Page(page) => (page, None),
            PageColumns::Bytes { offset, size } => (&offset.column, size.as_ref().map(|size| &size.column)),
        };
        let write = self.write.as_ref().map(|write| &write.column);
        let time = self.time.as_ref().map(|time| &time.column);
        [Some(page), size, write, self.class.as_ref(), time].into_iter().flatten().chain(&self.volumes)
    }
}

/// The text given for each of the [`ROLES`], and all of the volumes.
fn columns_by_role(text: &str) -> Result<([Option<&str>; 9], Vec<&str>), String> {
    let mut columns: [Option<&str>; 9] = [None; 9];
    let mut volumes = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((role, column)) = item.split_once('=') else {
            return Err(format!("'{item}' is not of the form page=COLUMN"));
        };
        let (role, column) = (role.trim(), column.trim());
        let Some(at) = ROLES.iter().position(|&other| other == role) else {
            return Err(format!("'{role}' is nothing that a column can be{}", did_you_mean(role, ROLES)));
        };
        if column.is_empty() {
            return Err(format!("{role}= names no column"));
        }
        if at == VOLUME {
            volumes.push(column);
        } else if columns[at].replace(column).is_some() {
            return Err(format!("'{role}' is given twice"));
        }
    }
    Ok((columns, volumes))
}

impl ByteColumn {
    fn parse(text: &str) -> Result<ByteColumn, String> {
        let Some((column, unit)) = text.rsplit_once(':') else {
            return Ok(ByteColumn { column: text.to_owned(), unit: 1 });
        };
        match unit.parse() {
            Ok(unit @ 1..) if !column.is_empty() => Ok(ByteColumn { column: column.trim_end().to_owned(), unit }),
            _ => Err(format!("'{unit}' is no number of bytes; behind the colon stands a column's unit, as in sector:512")),
        }
    }
}

impl TimeColumn {
    fn parse(text: &str) -> Result<TimeColumn, String> {
        let Some((column, unit)) = text.rsplit_once(':') else {
            return Ok(TimeColumn { column: text.to_owned(), unit: TimeUnit::Seconds });
        };
        match TimeUnit::of_name(unit.trim()) {
            Some(unit) if !column.is_empty() => Ok(TimeColumn { column: column.trim_end().to_owned(), unit }),
            _ => Err(format!("'{unit}' is no unit of time; behind the colon stands s, ms, us or ns, as in time=ts:ms")),
        }
    }
}

impl WriteColumn {
    /// A column of words such as `write`.
    pub(crate) fn of_words(column: &str) -> WriteColumn {
        WriteColumn { column: column.to_owned(), values: Vec::new(), reads: Vec::new(), skipped: Vec::new() }
    }

    fn parse(text: &str) -> WriteColumn {
        match text.rsplit_once(':') {
            Some((column, values)) if !column.is_empty() => WriteColumn {
                column: column.trim_end().to_owned(),
                values: values.split('|').map(|value| value.trim().to_owned()).collect(),
                reads: Vec::new(),
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
            // A colon in the name would be mistaken for the one before a unit.
            1 if !measure.column.contains(':') => measure.column.clone(),
            unit => format!("{}:{unit}", measure.column),
        };
        match &self.pages {
            PageColumns::Page(column) => write!(formatter, "page={column}")?,
            PageColumns::Bytes { offset, size } => {
                write!(formatter, "offset={}", measure(offset))?;
                if let Some(size) = size {
                    write!(formatter, ",size={}", measure(size))?;
                }
            }
        }
        for volume in &self.volumes {
            write!(formatter, ",volume={volume}")?;
        }
        if let Some(WriteColumn { column, values, reads, skipped }) = &self.write {
            write!(formatter, ",write={column}")?;
            if !values.is_empty() {
                write!(formatter, ":{}", values.join("|"))?;
            }
            for (role, values) in [("read", reads), ("skip", skipped)].into_iter().filter(|(_, values)| !values.is_empty()) {
                write!(formatter, ",{role}={column}:{}", values.join("|"))?;
            }
        }
        if let Some(class) = &self.class {
            write!(formatter, ",class={class}")?;
        }
        if let Some(TimeColumn { column, unit }) = &self.time {
            write!(formatter, ",time={column}")?;
            if *unit != TimeUnit::Seconds || column.contains(':') {
                write!(formatter, ":{}", unit.name())?;
            }
        }
        Ok(())
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
            "offset=sector:512,size=sectors:512,write=rwbs:W|WS",
            "page=blk,write=op:W,time=ts",
            "page=blk,class=c,time=ts:us",
            "page=blk,time=a:b:s",
            "page=#3,volume=#1,volume=host,write=#2:W|WS,read=#2:R,skip=#2:*",
        ] {
            let columns: Columns = text.parse().unwrap();
            assert_eq!(columns.to_string(), text);
        }
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
            ("page=a,read=op:R", "goes with write="),
            ("page=a,write=op:W,read=other:R", "the column of write="),
            ("page=a,write=op,read=op:R", "names no values beside read="),
            ("page=a,write=op:W,read=op:W", "'W' has two meanings"),
            ("page=a,write=op:W,read=op:*,skip=op:*", "'*' has two meanings"),
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
