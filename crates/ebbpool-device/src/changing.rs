//! Asymmetries that change while a trace runs: RM1 and RM2 of the FD-Buffer papers, or a file.
//!
//! In epoch i, counted from 0, of the FD-Buffer papers (CIKM, section 5.1; TC, section 5.1), R is
//!
//! - `rm1`: R0 (1 + 0.1 i), a device that fragments
//! - `rm2`: R0 in even epochs, in odd ones 0.95 R0 as the papers print it (`reading=literal`) or
//!   0.95 (`reading=absolute`), for the papers' text speaks of a device that is cleaned
//!   periodically and is then much faster
//!
//! RM1 grows without end: after 16.8 million references in epochs of 5,000 it is 337 R0. The
//! papers do not say whether they stop it; `epochs=N` keeps the R of the N-th epoch from then on.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::str::FromStr;

use serde::Serialize;

use ebbpool_cost::Asymmetry;

/// References of an epoch in the papers.
const PAPERS_EPOCH: u64 = 5000;

/// How the odd epochs of RM2 are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// 0.95 R0, as the formula is printed.
    Literal,
    /// 0.95, as the text suggests.
    Absolute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Rm1,
    Rm2(Reading),
}

#[derive(Clone, Debug, PartialEq)]
enum Spec {
    Constant(Asymmetry),
    Model {
        model: Model,
        base: Option<Asymmetry>,
        epoch: u64,
        epochs: Option<u64>,
    },
    File(String),
}

/// An asymmetry as the command line spells it: `32`, `rm1:base=25,epoch=5000,epochs=100`,
/// `rm2:base=25,epoch=5000,reading=literal|absolute`, or `file:changes.csv`; all parameters may be
/// left out. Parsing reads no file, [`AsymmetrySpec::load`] does.
#[derive(Clone, Debug, PartialEq)]
pub struct AsymmetrySpec(Spec);

/// Not the spelling of an asymmetry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an asymmetry: {problem}")]
pub struct NotAnAsymmetrySpec {
    text: String,
    problem: String,
}

/// A file of changes that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ChangesError {
    /// The file, and the line where one is at fault.
    place: String,
    problem: String,
}

/// An R for every reference of a trace. The trace's first reference is 0, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangingAsymmetry(Schedule);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Schedule {
    Rm1(Epochs),
    Rm2(Epochs, Reading),
    /// The first reference of each epoch, and its R; never empty, and the first is 0.
    Table(Vec<(u64, f64)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Epochs {
    base: f64,
    /// References of each, at least 1.
    length: u64,
    /// Number of the last, which does not end.
    last: u64,
}

/// References in a row with the same R.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Epoch {
    /// Its number, the first is 0.
    pub index: u64,
    /// Its first reference.
    pub start: u64,
    /// The first reference after it; nothing if it does not end.
    pub end: Option<u64>,
    /// The cost of a page write in page reads.
    pub ratio: f64,
}

impl Epoch {
    /// True if the reference is in it.
    pub fn contains(&self, reference: u64) -> bool {
        reference >= self.start && self.end.is_none_or(|end| reference < end)
    }
}

impl From<Asymmetry> for ChangingAsymmetry {
    fn from(asymmetry: Asymmetry) -> Self {
        ChangingAsymmetry(Schedule::Table(vec![(0, asymmetry.ratio())]))
    }
}

impl ChangingAsymmetry {
    /// R at a reference.
    pub fn ratio_at(&self, reference: u64) -> f64 {
        self.epoch_at(reference).ratio
    }

    /// The epoch that a reference is in.
    pub fn epoch_at(&self, reference: u64) -> Epoch {
        match &self.0 {
            Schedule::Rm1(epochs) => epochs.at(reference, |index| {
                // (10 + i) / 10 and not 1 + 0.1 i, which rounds twice.
                (epochs.base * ((10.0 + index as f64) / 10.0)).min(f64::MAX)
            }),
            Schedule::Rm2(epochs, reading) => epochs.at(reference, |index| match reading {
                _ if index.is_multiple_of(2) => epochs.base,
                Reading::Literal => 0.95 * epochs.base,
                Reading::Absolute => 0.95,
            }),
            Schedule::Table(rows) => {
                let after = rows.partition_point(|&(start, _)| start <= reference);
                let index = after.saturating_sub(1);
                let (start, ratio) = rows.get(index).copied().unwrap_or((0, 1.0));
                Epoch {
                    index: index as u64,
                    start,
                    end: rows.get(after).map(|&(start, _)| start),
                    ratio,
                }
            }
        }
    }

    /// The epochs from the first one on, without end where there is no last one.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch> + '_ {
        std::iter::successors(Some(self.epoch_at(0)), |epoch| {
            epoch.end.map(|end| self.epoch_at(end))
        })
    }

    /// How many epochs the first `references` references touch.
    pub fn epochs_within(&self, references: u64) -> u64 {
        match references.checked_sub(1) {
            Some(last) => self.epoch_at(last).index + 1,
            None => 0,
        }
    }
}

impl Epochs {
    fn at(&self, reference: u64, ratio: impl Fn(u64) -> f64) -> Epoch {
        let index = (reference / self.length).min(self.last);
        let next = (index < self.last).then(|| index + 1);
        Epoch {
            index,
            start: index * self.length,
            end: next.and_then(|next| next.checked_mul(self.length)),
            ratio: ratio(index),
        }
    }
}

impl From<Asymmetry> for AsymmetrySpec {
    fn from(asymmetry: Asymmetry) -> Self {
        AsymmetrySpec(Spec::Constant(asymmetry))
    }
}

impl AsymmetrySpec {
    /// The one asymmetry, where it does not change.
    pub fn constant(&self) -> Option<Asymmetry> {
        match self.0 {
            Spec::Constant(asymmetry) => Some(asymmetry),
            _ => None,
        }
    }

    /// R for every reference. `device` is the R0 of models that state none, [`PAPERS_BASE`] where
    /// there is no device.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or understood; names file and line.
    pub fn load(&self, device: Asymmetry) -> Result<ChangingAsymmetry, ChangesError> {
        match &self.0 {
            Spec::Constant(asymmetry) => Ok((*asymmetry).into()),
            Spec::Model {
                model,
                base,
                epoch,
                epochs,
            } => {
                let epochs = Epochs {
                    base: base.unwrap_or(device).ratio(),
                    length: *epoch,
                    last: epochs.map_or(u64::MAX, |epochs| epochs.saturating_sub(1)),
                };
                Ok(ChangingAsymmetry(match *model {
                    Model::Rm1 => Schedule::Rm1(epochs),
                    Model::Rm2(reading) => Schedule::Rm2(epochs, reading),
                }))
            }
            Spec::File(file) => read_changes(file),
        }
    }
}

const SPELLINGS: &str = "give a number from 0 up, such as 32; rm1 or rm2, such as rm1:base=25,epoch=5000; or file:changes.csv";

impl FromStr for AsymmetrySpec {
    type Err = NotAnAsymmetrySpec;

    fn from_str(text: &str) -> Result<Self, NotAnAsymmetrySpec> {
        let text = text.trim();
        let wrong = |problem: String| NotAnAsymmetrySpec {
            text: text.into(),
            problem,
        };
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut model = match name {
            "rm1" => Model::Rm1,
            "rm2" => Model::Rm2(Reading::Literal),
            "file" if parameters.is_empty() => {
                return Err(wrong("the path is missing, as in file:changes.csv".into()));
            }
            "file" => return Ok(AsymmetrySpec(Spec::File(parameters.into()))),
            _ => {
                let asymmetry = text.parse().map_err(|_| wrong(SPELLINGS.into()))?;
                return Ok(AsymmetrySpec(Spec::Constant(asymmetry)));
            }
        };
        let (mut base, mut epoch, mut epochs, mut reading) = (None, None, None, None);
        let whole = |key: &str, value: &str| match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(wrong(format!(
                "{key} is '{value}', and must be a whole number from 1 up"
            ))),
        };
        for item in parameters.split(',').filter(|_| text.contains(':')) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let (key, value) = (key.trim(), value.trim());
            let again = match (key, &model) {
                ("base", _) => {
                    let number = value.parse::<Asymmetry>();
                    let number = number.map_err(|error| wrong(format!("base: {error}")))?;
                    base.replace(number).is_some()
                }
                ("epoch", _) => epoch.replace(whole(key, value)?).is_some(),
                ("epochs", _) => epochs.replace(whole(key, value)?).is_some(),
                ("reading", Model::Rm2(_)) => {
                    let read = match value {
                        "literal" => Reading::Literal,
                        "absolute" => Reading::Absolute,
                        _ => {
                            return Err(wrong(format!(
                                "reading is '{value}', and must be literal or absolute"
                            )));
                        }
                    };
                    reading.replace(read).is_some()
                }
                _ => {
                    let known = match model {
                        Model::Rm1 => "base, epoch and epochs",
                        Model::Rm2(_) => "base, epoch, epochs and reading",
                    };
                    return Err(wrong(format!(
                        "{name} has no parameter '{key}'; it has {known}"
                    )));
                }
            };
            if again {
                return Err(wrong(format!("{key} is given twice")));
            }
        }
        if let Some(reading) = reading {
            model = Model::Rm2(reading);
        }
        Ok(AsymmetrySpec(Spec::Model {
            model,
            base,
            epoch: epoch.unwrap_or(PAPERS_EPOCH),
            epochs,
        }))
    }
}

/// The canonical spelling: the parameters that differ from their defaults.
impl fmt::Display for AsymmetrySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Spec::Constant(asymmetry) => asymmetry.fmt(f),
            Spec::File(file) => write!(f, "file:{file}"),
            Spec::Model {
                model,
                base,
                epoch,
                epochs,
            } => {
                f.write_str(match model {
                    Model::Rm1 => "rm1",
                    Model::Rm2(_) => "rm2",
                })?;
                let mut parameters = Vec::new();
                parameters.extend(base.map(|base| format!("base={base}")));
                if *epoch != PAPERS_EPOCH {
                    parameters.push(format!("epoch={epoch}"));
                }
                parameters.extend(epochs.map(|epochs| format!("epochs={epochs}")));
                if *model == Model::Rm2(Reading::Absolute) {
                    parameters.push("reading=absolute".into());
                }
                match parameters.is_empty() {
                    true => Ok(()),
                    false => write!(f, ":{}", parameters.join(",")),
                }
            }
        }
    }
}

/// Longer files are refused; without a limit a device such as /dev/zero would fill the memory.
const LONGEST_FILE: u64 = 64 << 20;

/// Reads lines `reference,R`; the first may be a header, and lines that begin with # are comments.
fn read_changes(file: &str) -> Result<ChangingAsymmetry, ChangesError> {
    let wrong = |line: Option<u64>, problem: String| ChangesError {
        place: match line {
            Some(line) => format!("{file}, line {line}"),
            None => file.into(),
        },
        problem,
    };
    let mut content = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_end(&mut content))
        .map_err(|error| wrong(None, format!("cannot read: {error}")))?;
    if content.len() as u64 > LONGEST_FILE {
        let problem = format!("is longer than {LONGEST_FILE} bytes, and so no list of changes");
        return Err(wrong(None, problem));
    }
    let mut lines = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(content.as_slice());
    let mut rows: Vec<(u64, f64)> = Vec::new();
    let mut first = true;
    let mut record = csv::ByteRecord::new();
    loop {
        let before = lines.position().line();
        match lines.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let line = error.position().map_or(before, csv::Position::line);
                return Err(wrong(Some(line), format!("no CSV: {error}")));
            }
        }
        let line = record.position().map_or(before, csv::Position::line);
        let fields: Vec<String> = record
            .iter()
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect();
        let header = std::mem::take(&mut first)
            && fields
                .iter()
                .all(|field| field.starts_with(|c: char| c.is_alphabetic()));
        if header {
            continue;
        }
        let [reference, ratio] = fields.as_slice() else {
            let problem = format!(
                "expected two fields, the first reference and the asymmetry from there on, as in 5000,32; found {}",
                fields.len()
            );
            return Err(wrong(Some(line), problem));
        };
        let Ok(reference) = reference.parse::<u64>() else {
            let problem = format!("'{reference}' is no reference; give its number, the first is 0");
            return Err(wrong(Some(line), problem));
        };
        let ratio: Asymmetry = ratio
            .parse()
            .map_err(|error| wrong(Some(line), format!("{error}")))?;
        match rows.last() {
            None if reference != 0 => {
                let problem = format!(
                    "the first change is at reference {reference}; put a line before it that begins with 0"
                );
                return Err(wrong(Some(line), problem));
            }
            Some(&(last, _)) if reference <= last => {
                let problem = format!(
                    "reference {reference} does not come after {last} of the line before; sort the lines"
                );
                return Err(wrong(Some(line), problem));
            }
            _ => rows.push((reference, ratio.ratio())),
        }
    }
    if rows.is_empty() {
        let problem = "has no line with a reference and an asymmetry, as in 0,32".into();
        return Err(wrong(None, problem));
    }
    Ok(ChangingAsymmetry(Schedule::Table(rows)))
}

#[cfg(test)]
mod tests;
