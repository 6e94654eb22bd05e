//! Asymmetries that change while a trace runs: RM1 and RM2 of the FD-Buffer papers, or a file.
//!
//! In epoch i, counted from 0, of the FD-Buffer papers (CIKM, section 5.1; TC, section 5.1), R is
//!
//! - `rm1`: R0 (1 + 0.1 i), a device that fragments
//! - `rm2`: R0 in even epochs, in odd ones 0.95 R0 as the papers print it (`reading=literal`) or
//!   0.95 (`reading=absolute`), because the papers' text speaks of a device that is
//!   cleaned periodically and is then much faster
//!
//! RM1 grows without end: after 16.8 million references in epochs of 5,000 it is 337 R0. The
//! papers do not say whether they stop it; `epochs=N` keeps the R of the N-th epoch from then on.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::str::FromStr;

use serde::Serialize;

use ebbpool_cost::spec::{self, Parameter, Whole};
use ebbpool_cost::{Asymmetry, one_line};

/// References of an epoch in the papers.
const PAPERS_EPOCH: u64 = 5000;

/// Which R the odd epochs of RM2 have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rm2Reading {
    /// 0.95 R0, as the formula is printed.
    Literal,
    /// 0.95, as the text suggests.
    Absolute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Rm1,
    Rm2(Rm2Reading),
}

#[derive(Clone, Debug, PartialEq)]
enum Spec {
    Constant(Asymmetry),
    Model { model: Model, base: Option<Asymmetry>, epoch: u64, epochs: Option<u64> },
    File(String),
}

/// An asymmetry as the command line spells it: `32`, `rm1:base=25,epoch=5000,epochs=100`,
/// `rm2:base=25,epoch=5000,reading=literal|absolute`, or `file:changes.csv`; all parameters may be
/// left out. Parsing reads no file, [`AsymmetrySpec::load`] does.
#[derive(Clone, Debug, PartialEq)]
pub struct AsymmetrySpec(Spec);

/// The error of a text that does not spell an asymmetry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an asymmetry: {problem}")]
pub struct AsymmetrySpecError {
    text: String,
    problem: String,
}

/// The error of a file of changes that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct ChangesError {
    /// The file, and the line where a line is wrong.
    location: String,
    problem: String,
}

/// An R for every reference of a trace. The trace's first reference is 0, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangingAsymmetry(Schedule);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Schedule {
    Rm1(AsymmetryPeriods),
    Rm2(AsymmetryPeriods, Rm2Reading),
    /// The first reference of each epoch, and its R; never empty, and the first is 0.
    Table(Vec<(u64, f64)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct AsymmetryPeriods {
    base: f64,
    /// References in each epoch, at least 1.
    length: u64,
    /// Number of the last epoch, which does not end.
    last: u64,
}

/// Consecutive references with the same R.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AsymmetryPeriod {
    /// Its number, the first is 0.
    pub index: u64,
    /// Its first reference.
    pub start: u64,
    /// The first reference after it; `None` if it does not end.
    pub end: Option<u64>,
    /// The cost of a page write in page reads.
    pub ratio: f64,
}

impl AsymmetryPeriod {
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
    pub fn epoch_at(&self, reference: u64) -> AsymmetryPeriod {
        match &self.0 {
            Schedule::Rm1(epochs) => epochs.at(reference, |index| {
                // (10 + i) / 10 and not 1 + 0.1 i, which rounds twice.
                (epochs.base * ((10.0 + index as f64) / 10.0)).min(f64::MAX)
            }),
            Schedule::Rm2(epochs, reading) => epochs.at(reference, |index| match reading {
                _ if index.is_multiple_of(2) => epochs.base,
                Rm2Reading::Literal => 0.95 * epochs.base,
                Rm2Reading::Absolute => 0.95,
            }),
            Schedule::Table(rows) => {
                let after = rows.partition_point(|&(start, _)| start <= reference);
                let index = after.saturating_sub(1);
                let (start, ratio) = rows.get(index).copied().unwrap_or((0, 1.0));
                AsymmetryPeriod { index: index as u64, start, end: rows.get(after).map(|&(start, _)| start), ratio }
            }
        }
    }

    /// All epochs in order; the iterator is endless where no epoch is the last.
    pub fn epochs(&self) -> impl Iterator<Item = AsymmetryPeriod> + '_ {
        std::iter::successors(Some(self.epoch_at(0)), |epoch| epoch.end.map(|end| self.epoch_at(end)))
    }

    /// The number of epochs that the first `references` references belong to.
    pub fn epochs_within(&self, references: u64) -> u64 {
        match references.checked_sub(1) {
            Some(last) => self.epoch_at(last).index + 1,
            None => 0,
        }
    }
}

impl AsymmetryPeriods {
    fn at(&self, reference: u64, ratio: impl Fn(u64) -> f64) -> AsymmetryPeriod {
        let index = (reference / self.length).min(self.last);
        let next = (index < self.last).then(|| index + 1);
        AsymmetryPeriod {
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
    /// The asymmetry, if it is constant.
    pub fn constant(&self) -> Option<Asymmetry> {
        match self.0 {
            Spec::Constant(asymmetry) => Some(asymmetry),
            _ => None,
        }
    }

    /// R for every reference. `device` is the R0 of models that state none; it is [`PAPERS_BASE`]
    /// where there is no device.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or understood; the error names the file and the line.
    pub fn load(&self, device: Asymmetry) -> Result<ChangingAsymmetry, ChangesError> {
        match &self.0 {
            Spec::Constant(asymmetry) => Ok((*asymmetry).into()),
            Spec::Model { model, base, epoch, epochs } => {
                let epochs = AsymmetryPeriods {
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

const SPELLINGS: &str =
    "give a number from 0 to 1e15, such as 32; rm1 or rm2, such as rm1:base=25,epoch=5000; or file:changes.csv";

impl FromStr for AsymmetrySpec {
    type Err = AsymmetrySpecError;

    fn from_str(text: &str) -> Result<Self, AsymmetrySpecError> {
        let text = text.trim();
        Spec::parse(text).map(AsymmetrySpec).map_err(|problem| AsymmetrySpecError { text: one_line(text), problem })
    }
}

impl Spec {
    /// Parses a trimmed text; the error says what is wrong.
    fn parse(text: &str) -> Result<Self, String> {
        let (name, given) = text.split_once(':').unwrap_or((text, ""));
        let model = match name {
            "rm1" => Model::Rm1,
            "rm2" => Model::Rm2(Rm2Reading::Literal),
            "file" if given.is_empty() => {
                return Err("the path is missing, as in file:changes.csv".into());
            }
            "file" => return Ok(Spec::File(given.into())),
            _ => {
                let asymmetry = text.parse().map_err(|_| SPELLINGS.to_string())?;
                return Ok(Spec::Constant(asymmetry));
            }
        };
        let parameters = model.parameters();
        let given = spec::assignments(given, parameters);
        let given = given.map_err(|error| format!("{name}: {error}"))?;
        let (mut model, mut base, mut epoch, mut epochs) = (model, None, PAPERS_EPOCH, None);
        for (at, value) in given {
            let parameter = &parameters[at];
            let read = match (parameter.name, parameter.kind) {
                ("base", _) => value.parse().map(|read| base = Some(read)).ok(),
                ("epoch", ModelKind::Whole(whole)) => whole.number(value).map(|read| epoch = read),
                ("epochs", ModelKind::Whole(whole)) => whole.number(value).map(|read| epochs = Some(read)),
                ("reading", _) => Rm2Reading::of_word(value).map(|read| model = Model::Rm2(read)),
                _ => None,
            };
            read.ok_or_else(|| format!("{name}: {}", parameter.refuse(value)))?;
        }
        Ok(Spec::Model { model, base, epoch, epochs })
    }
}

/// The values that a parameter of a model takes.
#[derive(Clone, Copy, Debug)]
enum ModelKind {
    Asymmetry,
    Whole(Whole),
    Word(&'static [&'static str]),
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelKind::Asymmetry => f.write_str("a number from 0 to 1e15"),
            ModelKind::Whole(whole) => whole.fmt(f),
            ModelKind::Word(words) => f.write_str(&spec::alternatives(words)),
        }
    }
}

/// The parameters of RM2, and before the last one those of RM1.
static PARAMETERS: [Parameter<ModelKind>; 4] = [
    Parameter { name: "base", kind: ModelKind::Asymmetry, default: "the device's, or 32", about: "R in epoch 0" },
    Parameter {
        name: "epoch",
        kind: ModelKind::Whole(Whole::new(1, u64::MAX)),
        default: "5000",
        about: "references of an epoch",
    },
    Parameter {
        name: "epochs",
        kind: ModelKind::Whole(Whole::new(1, u64::MAX)),
        default: "no end",
        about: "the number of epochs, the last of which does not end",
    },
    Parameter {
        name: "reading",
        kind: ModelKind::Word(&["literal", "absolute"]),
        default: "literal",
        about: "whether R in odd epochs is 0.95 of that in even ones, or 0.95",
    },
];

impl Model {
    fn parameters(self) -> &'static [Parameter<ModelKind>] {
        match self {
            Model::Rm1 => &PARAMETERS[..3],
            Model::Rm2(_) => &PARAMETERS,
        }
    }
}

impl Rm2Reading {
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "literal" => Some(Rm2Reading::Literal),
            "absolute" => Some(Rm2Reading::Absolute),
            _ => None,
        }
    }
}

/// The canonical spelling: the parameters that differ from their defaults.
impl fmt::Display for AsymmetrySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Spec::Constant(asymmetry) => asymmetry.fmt(f),
            Spec::File(file) => write!(f, "file:{file}"),
            Spec::Model { model, base, epoch, epochs } => {
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
                if *model == Model::Rm2(Rm2Reading::Absolute) {
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
    let content = read_limited(file).map_err(|problem| ChangesError { location: file.into(), problem })?;
    let rows = parse_changes(&content).map_err(|(line, problem)| ChangesError {
        location: match line {
            Some(line) => format!("{file}, line {line}"),
            None => file.into(),
        },
        problem,
    })?;
    Ok(ChangingAsymmetry(Schedule::Table(rows)))
}

fn read_limited(file: &str) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_end(&mut content))
        .map_err(|error| format!("cannot read: {error}"))?;
    match content.len() as u64 > LONGEST_FILE {
        true => Err(format!("is longer than {LONGEST_FILE} bytes, and so no list of changes")),
        false => Ok(content),
    }
}

/// The line that is wrong, if it is a line, and what is wrong.
type ChangesProblem = (Option<u64>, String);

/// The first reference of each epoch, and its R.
fn parse_changes(content: &[u8]) -> Result<Vec<(u64, f64)>, ChangesProblem> {
    let mut lines = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(content);
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
                return Err((Some(line), format!("no CSV: {error}")));
            }
        }
        let line = record.position().map_or(before, csv::Position::line);
        let fields: Vec<String> = record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        let header = std::mem::take(&mut first) && fields.iter().all(|field| field.starts_with(|c: char| c.is_alphabetic()));
        if header
            && !fields[0].eq_ignore_ascii_case("reference")
            && fields[1..].iter().any(|it| it.eq_ignore_ascii_case("reference"))
        {
            let problem = format!("the columns are {}; put the reference first, as in reference,R", fields.join(","));
            return Err((Some(line), problem));
        }
        if !header {
            let last = rows.last().map(|&(reference, _)| reference);
            rows.push(parse_change(&fields, last).map_err(|problem| (Some(line), problem))?);
        }
    }
    match rows.is_empty() {
        true => Err((None, "has no line with a reference and an asymmetry, as in 0,32".into())),
        false => Ok(rows),
    }
}

/// The change of a line; `last` is the reference of the line before.
fn parse_change(fields: &[String], last: Option<u64>) -> Result<(u64, f64), String> {
    let [reference, ratio] = fields else {
        return Err(format!(
            "expected two fields, the first reference and the asymmetry from there on, as in 5000,32; found {}",
            fields.len()
        ));
    };
    let Ok(reference) = reference.parse::<u64>() else {
        return Err(format!("'{reference}' is no reference; give its number, the first is 0"));
    };
    let ratio: Asymmetry = ratio.parse().map_err(|error| format!("{error}"))?;
    match last {
        None if reference != 0 => {
            Err(format!("the first change is at reference {reference}; put a line before it that begins with 0"))
        }
        Some(last) if reference <= last => {
            Err(format!("reference {reference} does not come after {last} of the line before; sort the lines"))
        }
        _ => Ok((reference, ratio.ratio())),
    }
}

#[cfg(test)]
mod tests;
