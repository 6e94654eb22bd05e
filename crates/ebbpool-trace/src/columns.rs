//! Which columns of a CSV hold a reference.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{did_you_mean, one_line};

use crate::error::TraceError;

/// The columns that a user named, as in `page=blk,write=op:W`.
///
/// - `page=COLUMN`: the page number
/// - `offset=COLUMN[:BYTES]` and `size=COLUMN[:BYTES]`: where a request begins and
///   how long it is, in units of so many bytes (1)
/// - `write=COLUMN`: a word that says whether the page is written
/// - `write=COLUMN:VALUE[|VALUE…]`: written where the column holds one of these,
///   to the letter
///
/// Column names are those of the first line and hold no comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub(crate) place: Place,
    pub(crate) write: Option<Written>,
}

/// Where the page stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Page(String),
    Bytes {
        offset: Measure,
        size: Option<Measure>,
    },
}

/// A column and the bytes that one of its units has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) column: String,
    pub(crate) unit: u64,
}

/// A column that tells writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) column: String,
    /// The values that mean a write; without any the column holds words that say
    /// so.
    pub(crate) values: Vec<String>,
}

const ROLES: [&str; 4] = ["page", "offset", "size", "write"];

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Columns, TraceError> {
        let refuse = |problem: String| TraceError::Mapping {
            problem: one_line(&problem),
        };
        let mut found: [Option<&str>; 4] = [None; 4];
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let Some((role, column)) = item.split_once('=') else {
                return Err(refuse(format!("'{item}' is not of the form page=COLUMN")));
            };
            let (role, column) = (role.trim(), column.trim());
            let Some(at) = ROLES.iter().position(|&known| known == role) else {
                return Err(refuse(format!(
                    "'{role}' is nothing that a column can be{}",
                    did_you_mean(role, ROLES)
                )));
            };
            if column.is_empty() {
                return Err(refuse(format!("{role}= names no column")));
            }
            if found[at].replace(column).is_some() {
                return Err(refuse(format!("'{role}' is given twice")));
            }
        }
        let [page, offset, size, write] = found;
        let measure = |text: &str| {
            let whole = Measure {
                column: text.to_owned(),
                unit: 1,
            };
            let Some((column, unit)) = text.rsplit_once(':') else {
                return Ok(whole);
            };
            match unit.parse() {
                Ok(unit @ 1..) if !column.is_empty() => Ok(Measure {
                    column: column.trim_end().to_owned(),
                    unit,
                }),
                _ => Err(refuse(format!(
                    "'{unit}' is no number of bytes; behind the colon stands a column's unit, as in sector:512"
                ))),
            }
        };
        let place = match (page, offset, size) {
            (Some(page), None, None) => Place::Page(page.to_owned()),
            (None, Some(offset), size) => Place::Bytes {
                offset: measure(offset)?,
                size: size.map(measure).transpose()?,
            },
            (Some(_), _, _) => {
                return Err(refuse("page excludes offset and size".to_owned()));
            }
            (None, None, _) => {
                return Err(refuse("neither page nor offset is given".to_owned()));
            }
        };
        let write = write.map(|text| match text.rsplit_once(':') {
            Some((column, values)) if !column.is_empty() => Written {
                column: column.trim_end().to_owned(),
                values: values
                    .split('|')
                    .map(|value| value.trim().to_owned())
                    .collect(),
            },
            _ => Written {
                column: text.to_owned(),
                values: Vec::new(),
            },
        });
        Ok(Columns { place, write })
    }
}

impl fmt::Display for Columns {
    /// The spelling that [`FromStr`] reads.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = |measure: &Measure| match measure.unit {
            // A colon in the name would be taken for the unit's.
            1 if !measure.column.contains(':') => measure.column.clone(),
            unit => format!("{}:{unit}", measure.column),
        };
        match &self.place {
            Place::Page(column) => write!(formatter, "page={column}")?,
            Place::Bytes { offset, size } => {
                write!(formatter, "offset={}", measure(offset))?;
                if let Some(size) = size {
                    write!(formatter, ",size={}", measure(size))?;
                }
            }
        }
        if let Some(Written { column, values }) = &self.write {
            write!(formatter, ",write={column}")?;
            if !values.is_empty() {
                write!(formatter, ":{}", values.join("|"))?;
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
            "offset=o,size=n,write=w",
            "offset=sector:512,size=sectors:512,write=rwbs:W|WS",
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
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
