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
/// - `write=COLUMN`: a word that says whether the page is written
/// - `write=COLUMN:VALUE[|VALUE…]`: written where the column holds exactly one of these
///   values
/// - `class=COLUMN`: the class of the page, a number or a name
/// - `time=COLUMN[:UNIT]`: when the request was made, a number of UNIT, which is `s`, `ms`, `us` or `ns`; seconds by default
///
/// Column names are those of the first line and hold no comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub(crate) pages: PageColumns,
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
}

/// A column of times, and their unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeColumn {
    pub(crate) column: String,
    pub(crate) unit: TimeUnit,
}

const ROLES: [&str; 6] = ["page", "offset", "size", "write", "class", "time"];

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Columns, TraceError> {
        Columns::parse(text).map_err(|problem| TraceError::Mapping { problem: one_line(&problem) })
    }
}

impl Columns {
    /// Parses a mapping; the error says what is wrong.
    fn parse(text: &str) -> Result<Columns, String> {
        let [page, offset, size, write, class, time] = columns_by_role(text)?;
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
        let write = write.map(WriteColumn::parse);
        Ok(Columns { pages, write, class: class.map(str::to_owned), time: time.map(TimeColumn::parse).transpose()? })
    }
}

/// The text given for each of the [`ROLES`].
fn columns_by_role(text: &str) -> Result<[Option<&str>; 6], String> {
    let mut columns: [Option<&str>; 6] = [None; 6];
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
        if columns[at].replace(column).is_some() {
            return Err(format!("'{role}' is given twice"));
        }
    }
    Ok(columns)
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
    fn parse(text: &str) -> WriteColumn {
        match text.rsplit_once(':') {
            Some((column, values)) if !column.is_empty() => WriteColumn {
                column: column.trim_end().to_owned(),
                values: values.split('|').map(|value| value.trim().to_owned()).collect(),
            },
            _ => WriteColumn { column: text.to_owned(), values: Vec::new() },
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
        if let Some(WriteColumn { column, values }) = &self.write {
            write!(formatter, ",write={column}")?;
            if !values.is_empty() {
                write!(formatter, ":{}", values.join("|"))?;
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
            "page=blk,write=op:W", "page=blk", "page=blk,write=op:W,class=relation", "offset=o,size=n,write=w",
            "offset=sector:512,size=sectors:512,write=rwbs:W|WS", "page=blk,write=op:W,time=ts", "page=blk,class=c,time=ts:us",
            "page=blk,time=a:b:s",
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
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
