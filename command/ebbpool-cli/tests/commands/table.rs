//! Runs the tables in `table/`: commands, and what is true of their ends, outputs, files and JSON.
//!
//! ```text
//! # A comment. Names that begin with `$` stand for texts: those of `let` and `for`, `$DIR` (the directory of the
//! # case), `$ROOT` (the repository) and `$SAMPLES` (its recorded traces).
//! let TRACE = zipf:pages=300,refs=6000
//!
//! ## a case has a title, and a directory of its own
//! for POLICY WORD in lru first; fifo "second one"
//! no stored results
//! file t.txt
//!     R 1
//!     W 2
//! bytes odd.u32 = 01 02 03
//! one: run t.txt --policy $POLICY --frames 2 | reads = 1 | writes = 1
//! compare t.txt --frames 2 --policies lru,fifo
//!     len = 2
//!     [policy=lru].reads = @one.reads
//! compare t.txt --format csv > out.csv
//!     file out.csv lines = 15
//! run none.txt --policy lru --frames 2 | error 1: none.txt + cannot
//! ```
//!
//! Lines before the first case belong to all cases. A line of a case that has no other meaning is a command, without `ebbpool`. Its words may be quoted; `> FILE` stores its
//! standard output, `< FILE` is its standard input, and `NAME:` before it names its result. Its expectations stand behind ` | `
//! or below it, indented, one a line. `for` runs the rest of its case for each group of words.
//!
//! | expectation | what is true |
//! | --- | --- |
//! | `succeeds` | it ends with 0, as each command must whose expectations do not say otherwise |
//! | `exit = CODE` | it ends with this code |
//! | `error CODE: TEXT + TEXT` | also, it prints one line with `error`, no panic, and all of these texts |
//! | `stdout`, `stderr`, `file NAME` + `has`, `lacks`, `is`, `starts`, `ends TEXT` | TEXT in quotes may have `\n` |
//! | … `is empty`, `lines < N`, `width <= N` | the lines, and the characters of the longest of them |
//! | … `line is TEXT`, `words TEXT` | a line, or a part of the text, up to the number of blanks |
//! | `file NAME exists`, `is absent`, `is unchanged` | the last: it has what the case wrote |
//! | `PATH = VALUE`, `!=`, `<`, `<=`, `>`, `>=` | a field of the JSON; VALUE is JSON, a text, or `@NAME.PATH` |
//! | `PATH ~ VALUE`, `… within 0.02`, `… within 3 %` | equal up to a share of 1e-9, up to a number, up to a share |
//! | `PATH is number`, `text`, `list`, `absent` | its type |
//! | `PATH has`, `lacks`, `starts`, `ends TEXT` | of a text, or `has` and `lacks` of an item of a list |
//! | `PATH are [VALUE, VALUE]` | all values that a path with `*` finds, in order |
//! | `stdout same as COMMAND`, `PATH, PATH same as COMMAND` | both commands have it alike |
//! | `all same as COMMAND`, `all but NAME, NAME same as COMMAND` | the whole JSON, without these fields of its results |
//!
//! A PATH is names and numbers with dots between; `*` is all items (at least one), `len` the number of items, and
//! `[policy=lru & frames=20]` the first item with these fields. A command with a PATH runs with `--format json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Ebbpool, ROOT, SAMPLES, errors};

/// Runs a table, and fails with all expectations that are not met.
pub fn holds(name: &str) {
    let path = format!("{ROOT}/command/ebbpool-cli/tests/commands/table/{name}.txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let failures = failures(&format!("{name}.txt"), &text);
    assert!(failures.is_empty(), "{} failures in {path}\n{}", failures.len(), failures.join("\n"));
}

/// The test of the table of a module.
macro_rules! table {
    ($name:literal) => {
        #[test]
        fn the_table_holds() {
            crate::table::holds($name);
        }
    };
}
pub(crate) use table;

/// A line, with the indented lines below it.
#[derive(Clone)]
struct Line {
    number: usize,
    text: String,
    below: Vec<(usize, String)>,
}

/// What the names with `$` stand for.
type Names = BTreeMap<String, String>;

/// What a command has printed, and the JSON in it.
#[derive(Clone, Default)]
struct Printed {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn failures(name: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<Line> = Vec::new();
    let mut failures = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        match (text.strip_prefix("    "), lines.last_mut()) {
            (Some(text), Some(line)) => line.below.push((number, text.to_owned())),
            _ if text.trim().is_empty() || (text.starts_with('#') && !text.starts_with("## ")) => {}
            _ => lines.push(Line { number, text: text.to_owned(), below: Vec::new() }),
        }
    }
    let mut cases = lines.split(|line| line.text.starts_with("## "));
    let titles = lines.iter().filter(|line| line.text.starts_with("## "));
    let mut names = Names::from([("ROOT".to_owned(), ROOT.to_owned()), ("SAMPLES".to_owned(), format!("{ROOT}/{SAMPLES}"))]);
    let (lets, shared): (Vec<Line>, Vec<Line>) =
        cases.next().unwrap_or_default().iter().cloned().partition(|line| line.text.starts_with("let "));
    for line in lets {
        if let Err(error) = define(&line, &mut names) {
            failures.push(format!("{name}:{}: {error}", line.number));
        }
    }
    for (title, steps) in titles.zip(cases) {
        let mut case = Case { name, names: names.clone(), failures: &mut failures, expectations: 0 };
        case.all(&[&shared, steps].concat());
        if case.expectations == 0 {
            failures.push(format!("{name}:{}: `{}` has no expectation", title.number, title.text));
        }
    }
    failures
}

/// Takes `let NAME = TEXT`.
fn define(line: &Line, names: &mut Names) -> Result<(), String> {
    let text = line.text.strip_prefix("let ").and_then(|rest| rest.split_once(" = "));
    let (name, text) = text.ok_or_else(|| format!("`{}` is not `let NAME = TEXT`", line.text))?;
    let text = replaced(text, names)?;
    names.insert(name.to_owned(), text);
    Ok(())
}

/// The text with what its names stand for.
fn replaced(text: &str, names: &Names) -> Result<String, String> {
    let mut parts = text.split('$');
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        let end = part.find(|letter| !is_of_name(letter)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        match names.get(name) {
            _ if name.is_empty() => replaced.push('$'),
            Some(text) => replaced += text,
            None => return Err(format!("nothing is named ${name}")),
        }
        replaced += rest;
    }
    Ok(replaced)
}

/// Words as a shell splits them.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(format!("`{text}`: a quote has no end")) } else { Ok(words) }
}

/// A case, in one of the runs that its `for` makes.
struct Case<'t> {
    name: &'t str,
    names: Names,
    failures: &'t mut Vec<String>,
    expectations: usize,
}

impl Case<'_> {
    fn fails(&mut self, number: usize, what: impl std::fmt::Display) {
        self.failures.push(format!("{}:{number}: {what}", self.name));
    }

    /// Runs the steps in a new directory, or in one for each group of words of a `for`.
    fn all(&mut self, steps: &[Line]) {
        let Some(at) = steps.iter().position(|line| line.text.starts_with("for ")) else {
            return self.once(steps);
        };
        for line in steps[..at].iter().filter(|line| line.text.starts_with("let ")) {
            if let Err(error) = define(line, &mut self.names) {
                return self.fails(line.number, error);
            }
        }
        let line = &steps[at];
        let Some((variables, groups)) = line.text[4..].split_once(" in ") else {
            return self.fails(line.number, "a loop is `for NAME NAME in WORD WORD; WORD WORD`");
        };
        let variables: Vec<&str> = variables.split(' ').collect();
        let rest = [&steps[..at], &steps[at + 1..]].concat();
        let before = self.names.clone();
        for group in groups.split("; ") {
            let group = replaced(group, &before).and_then(|group| words(&group));
            match group {
                Ok(group) if group.len() == variables.len() => {
                    let named = variables.iter().map(|name| name.to_string()).zip(group);
                    self.names = before.clone();
                    self.names.extend(named);
                    self.all(&rest);
                }
                Ok(group) => self.fails(line.number, format!("{} words for {variables:?}: {group:?}", group.len())),
                Err(error) => self.fails(line.number, error),
            }
        }
    }

    fn once(&mut self, steps: &[Line]) {
        let ebbpool = match steps.iter().any(|line| line.text == "no stored results") {
            true => Ebbpool::with_no_results(),
            false => Ebbpool::in_scratch(),
        };
        self.names.insert("DIR".to_owned(), ebbpool.named("").trim_end_matches('/').to_owned());
        let mut written = BTreeMap::new();
        let mut results = BTreeMap::new();
        for line in steps.iter().filter(|line| line.text != "no stored results") {
            if let Err(error) = self.step(line, &ebbpool, &mut written, &mut results) {
                self.fails(line.number, error);
            }
        }
    }

    fn step(
        &mut self,
        line: &Line,
        ebbpool: &Ebbpool,
        written: &mut BTreeMap<String, Vec<u8>>,
        results: &mut BTreeMap<String, Printed>,
    ) -> Result<(), String> {
        if line.text.starts_with("let ") {
            return define(line, &mut self.names);
        }
        let text = replaced(&line.text, &self.names)?;
        let mut write = |name: &str, content: Vec<u8>| {
            ebbpool.file(name, &content);
            written.insert(name.to_owned(), content);
        };
        if let Some(name) = text.strip_prefix("file ") {
            let mut content = String::new();
            for (_, line) in &line.below {
                content += &replaced(line, &self.names)?;
                content.push('\n');
            }
            write(name, content.into_bytes());
            return Ok(());
        }
        if let Some((name, bytes)) = text.strip_prefix("bytes ").and_then(|rest| rest.split_once(" = ")) {
            let bytes: Result<Vec<u8>, _> = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16)).collect();
            write(name, bytes.map_err(|error| format!("`{text}`: {error}"))?);
            return Ok(());
        }
        let mut parts = text.split(" | ");
        let command = parts.next().unwrap_or_default();
        let mut checks: Vec<(usize, String)> = parts.map(|check| (line.number, check.to_owned())).collect();
        for (number, check) in line.below.iter().filter(|(_, check)| !check.starts_with('#')) {
            checks.push((*number, replaced(check, &self.names)?));
        }
        let mut parsed = Vec::new();
        for (number, check) in &checks {
            parsed.push((*number, Check::parsed(check).map_err(|error| format!("`{check}`: {error}"))?));
        }
        self.expectations += parsed.len();
        let (name, command) = match command.split_once(": ") {
            Some((name, command)) if !name.contains(' ') => (Some(name), command),
            _ => (None, command),
        };
        let is_json = parsed.iter().any(|(_, check)| check.is_of_json());
        let is_of_text = |(_, check): &(usize, Check)| matches!(check, Check::Text(Text::Stdout, _) | Check::SameText(_));
        if is_json && !command.contains(" --format ") && parsed.iter().any(is_of_text) {
            return Err(format!("`{command}`: with expectations on fields standard output is JSON: give it a line of its own"));
        }
        let printed = ran(ebbpool, command, is_json)?;
        let says_how_it_ends = |(_, check): &(usize, Check)| matches!(check, Check::Exit(..));
        if printed.code != Some(0) && !parsed.iter().any(says_how_it_ends) {
            self.fails(line.number, format!("`{command}` ends with {:?}: {}", printed.code, printed.stderr.trim_end()));
        }
        if let Some(name) = name {
            results.insert(name.to_owned(), printed.clone());
        }
        let context = Context { ebbpool, written, results, printed: &printed };
        for (number, check) in &parsed {
            if let Err(found) = check.holds(&context) {
                let expected = checks.iter().zip(&parsed).find(|(_, (_, it))| std::ptr::eq(it, check));
                let expected = expected.map_or("", |((_, text), _)| text);
                self.failures.push(format!("{}:{number}: `{command}`: expected `{expected}`, found {found}", self.name));
            }
        }
        Ok(())
    }
}

/// Runs a command.
fn ran(ebbpool: &Ebbpool, command: &str, as_json: bool) -> Result<Printed, String> {
    let mut words = words(command)?;
    let mut ends_with = |mark: &str| match &words[..] {
        [.., before, file] if before == mark => {
            let file = file.clone();
            words.truncate(words.len() - 2);
            Some(file)
        }
        _ => None,
    };
    let to = ends_with(">");
    let from = ends_with("<");
    if as_json && !words.iter().any(|word| word == "--format") {
        words.extend(["--format", "json"].map(String::from));
    }
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = match from {
        Some(name) => ebbpool.fed(&args, &fs::read(ebbpool.path(&name)).map_err(|error| format!("{name}: {error}"))?),
        None => ebbpool.run(&args),
    };
    if let Some(name) = to {
        ebbpool.file(&name, &output.stdout);
    }
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Printed { code: output.status.code(), stdout, stderr: errors(&output) })
}

/// What an expectation may look at.
struct Context<'t> {
    ebbpool: &'t Ebbpool,
    written: &'t BTreeMap<String, Vec<u8>>,
    results: &'t BTreeMap<String, Printed>,
    printed: &'t Printed,
}

enum Check {
    Exit(i32, Option<Vec<String>>),
    Succeeds,
    Text(Text, TextCheck),
    Field(Vec<Segment>, FieldCheck),
    SameText(String),
    SameFields(Vec<Vec<Segment>>, String),
    SameJson(Vec<String>, String),
}

enum Text {
    Stdout,
    Stderr,
    File(String),
}

enum TextCheck {
    Has(String),
    Lacks(String),
    Is(String),
    Starts(String),
    Ends(String),
    LineIs(String),
    Words(String),
    Lines(Comparison, f64),
    Width(Comparison, f64),
    Exists(bool),
    Unchanged,
}

enum FieldCheck {
    Compared(Comparison, Operand),
    Near(Operand, f64, bool),
    Are(Vec<Value>),
    HasType(String),
    Part(String, String),
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

enum Operand {
    Literal(Value),
    Named(String, Vec<Segment>),
}

#[derive(Clone)]
enum Segment {
    Name(String),
    All,
    Count,
    With(Vec<(String, Value)>),
}

impl Check {
    fn parsed(text: &str) -> Result<Check, String> {
        if text == "succeeds" {
            return Ok(Check::Succeeds);
        }
        let code = |code: &str| code.parse().map_err(|_| format!("{code} is no exit code"));
        if let Some(exit) = text.strip_prefix("exit = ") {
            return Ok(Check::Exit(code(exit)?, None));
        }
        if let Some(error) = text.strip_prefix("error ") {
            let (number, parts) = error.split_once(": ").unwrap_or((error, ""));
            let parts = parts.split(" + ").filter(|part| !part.is_empty());
            return Ok(Check::Exit(code(number)?, Some(parts.map(unquoted).collect::<Result<_, _>>()?)));
        }
        if let Some((subjects, command)) = text.split_once(" same as ") {
            let command = command.to_owned();
            let list = |names: &str| names.split(", ").map(String::from).collect::<Vec<String>>();
            return match (subjects, subjects.strip_prefix("all but ")) {
                ("stdout", _) => Ok(Check::SameText(command)),
                ("all", _) => Ok(Check::SameJson(Vec::new(), command)),
                (_, Some(names)) => Ok(Check::SameJson(list(names), command)),
                _ => Ok(Check::SameFields(list(subjects).iter().map(|it| path(it)).collect::<Result<_, _>>()?, command)),
            };
        }
        let subject = match text.split_once(' ') {
            Some(("stdout", rest)) => Some((Text::Stdout, rest)),
            Some(("stderr", rest)) => Some((Text::Stderr, rest)),
            Some(("file", rest)) => rest.split_once(' ').map(|(name, rest)| (Text::File(name.to_owned()), rest)),
            _ => None,
        };
        if let Some((subject, check)) = subject {
            return Ok(Check::Text(subject, TextCheck::parsed(check)?));
        }
        let mut depth = 0;
        let end = text.find(|letter| {
            depth += i32::from(letter == '[') - i32::from(letter == ']');
            letter == ' ' && depth == 0
        });
        let (field, check) = text.split_at(end.ok_or("it is no expectation")?);
        Ok(Check::Field(path(field)?, FieldCheck::parsed(check.trim_start())?))
    }

    fn is_of_json(&self) -> bool {
        matches!(self, Check::Field(..) | Check::SameFields(..) | Check::SameJson(..))
    }

    /// Whether it is true, or what was found instead.
    fn holds(&self, context: &Context) -> Result<(), String> {
        let printed = context.printed;
        match self {
            Check::Succeeds => Ok(()),
            Check::Exit(code, parts) => {
                let is_one_error = parts.is_none()
                    || printed.stderr.lines().filter(|line| line.contains("error")).count() == 1
                        && !printed.stderr.contains("panicked");
                let has_all = parts.iter().flatten().all(|part| printed.stderr.contains(part.as_str()));
                let is_so = printed.code == Some(*code) && is_one_error && has_all;
                is_so.then_some(()).ok_or_else(|| format!("exit code {:?} and {:?}", printed.code, printed.stderr))
            }
            Check::Text(subject, check) => check.holds(subject, context),
            Check::Field(path, check) => check.holds(path, context),
            Check::SameText(command) => {
                let other = ran(context.ebbpool, command, false)?;
                let is_same = other.code == Some(0) && other.stdout == printed.stdout;
                is_same.then_some(()).ok_or_else(|| format!("{:?} and {:?}", printed.stdout, other.stdout))
            }
            Check::SameFields(paths, command) => {
                let (one, other) = (json(printed)?, json(&ran(context.ebbpool, command, true)?)?);
                let mut differ = String::new();
                for path in paths {
                    let [one, other] = [&one, &other].map(|it| found(it, path));
                    if one.is_empty() || one.len() != other.len() || !one.iter().zip(&other).all(|(a, b)| equal(a, b)) {
                        let _ = write!(differ, "{one:?} and {other:?}; ");
                    }
                }
                differ.is_empty().then_some(()).ok_or(differ)
            }
            Check::SameJson(names, command) => {
                let without = |printed: &Printed| {
                    let mut value = json(printed)?;
                    let results = match &mut value {
                        Value::Array(results) => results.iter_mut().collect(),
                        one => vec![one],
                    };
                    for object in results.into_iter().filter_map(Value::as_object_mut) {
                        object.retain(|name, _| !names.contains(name));
                    }
                    Ok::<Value, String>(value)
                };
                let (one, other) = (without(printed)?, without(&ran(context.ebbpool, command, true)?)?);
                (one == other).then_some(()).ok_or_else(|| format!("{one} and {other}"))
            }
        }
    }
}

/// A text, which may stand in the quotes of JSON.
fn unquoted(text: &str) -> Result<String, String> {
    match text.starts_with('"') {
        true => serde_json::from_str(text).map_err(|error| format!("{text}: {error}")),
        false => Ok(text.to_owned()),
    }
}

fn json(printed: &Printed) -> Result<Value, String> {
    serde_json::from_str(&printed.stdout).map_err(|error| format!("no JSON, {error}: {}{}", printed.stdout, printed.stderr))
}

/// The text with one blank for any number of blanks.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl TextCheck {
    fn parsed(text: &str) -> Result<TextCheck, String> {
        let simple = match text {
            "is empty" => Some(TextCheck::Is(String::new())),
            "exists" => Some(TextCheck::Exists(true)),
            "is absent" => Some(TextCheck::Exists(false)),
            "is unchanged" => Some(TextCheck::Unchanged),
            _ => None,
        };
        if let Some(simple) = simple {
            return Ok(simple);
        }
        let (word, rest) = text.split_once(' ').ok_or("it is no expectation of a text")?;
        let counted = || {
            let (comparison, number) = Comparison::parsed(rest).ok_or("no comparison")?;
            Ok::<_, String>((comparison, number.parse().map_err(|_| format!("{number} is no number"))?))
        };
        match word {
            "has" => Ok(TextCheck::Has(unquoted(rest)?)),
            "lacks" => Ok(TextCheck::Lacks(unquoted(rest)?)),
            "is" => Ok(TextCheck::Is(unquoted(rest)?)),
            "starts" => Ok(TextCheck::Starts(unquoted(rest)?)),
            "ends" => Ok(TextCheck::Ends(unquoted(rest)?)),
            "words" => Ok(TextCheck::Words(squeezed(&unquoted(rest)?))),
            "line" => Ok(TextCheck::LineIs(squeezed(&unquoted(rest.strip_prefix("is ").ok_or("`line is TEXT`")?)?))),
            "lines" => counted().map(|(comparison, number)| TextCheck::Lines(comparison, number)),
            "width" => counted().map(|(comparison, number)| TextCheck::Width(comparison, number)),
            _ => Err(format!("nothing is named `{word}`")),
        }
    }

    fn holds(&self, subject: &Text, context: &Context) -> Result<(), String> {
        let file = |name: &String| fs::read(context.ebbpool.path(name));
        let text = match (subject, self) {
            (Text::File(name), TextCheck::Exists(exists)) => {
                let is_there = Path::new(&context.ebbpool.path(name)).exists();
                return (is_there == *exists).then_some(()).ok_or_else(|| format!("{:?}", context.ebbpool.names()));
            }
            (Text::File(name), TextCheck::Unchanged) => {
                let is_same = file(name).is_ok_and(|bytes| context.written.get(name) == Some(&bytes));
                return is_same.then_some(()).ok_or_else(|| "another content".to_owned());
            }
            (Text::File(name), _) => String::from_utf8_lossy(&file(name).map_err(|error| error.to_string())?).into_owned(),
            (Text::Stdout, _) => context.printed.stdout.clone(),
            (Text::Stderr, _) => context.printed.stderr.clone(),
        };
        let named;
        let is_so = match self {
            TextCheck::Has(part) => text.contains(part.as_str()),
            TextCheck::Lacks(part) => !text.contains(part.as_str()),
            TextCheck::Is(all) => {
                named = all.strip_prefix('@').and_then(|name| context.results.get(name));
                text == named.map_or(all, |printed| &printed.stdout).as_str()
            }
            TextCheck::Starts(part) => text.starts_with(part.as_str()),
            TextCheck::Ends(part) => text.trim_end_matches('\n').ends_with(part.trim_end_matches('\n')),
            TextCheck::LineIs(line) => text.lines().any(|other| squeezed(other) == *line),
            TextCheck::Words(part) => squeezed(&text).contains(part.as_str()),
            TextCheck::Lines(comparison, number) => comparison.holds(text.lines().count() as f64, *number),
            TextCheck::Width(comparison, number) => {
                let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                comparison.holds(width as f64, *number)
            }
            TextCheck::Exists(_) | TextCheck::Unchanged => return Err("only a file can be so".to_owned()),
        };
        is_so.then_some(()).ok_or_else(|| format!("\n{text}"))
    }
}

impl Comparison {
    /// The comparison that a text begins with, and the rest.
    fn parsed(text: &str) -> Option<(Comparison, &str)> {
        let (sign, rest) = text.split_once(' ')?;
        let comparison = match sign {
            "=" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::More,
            ">=" => Comparison::AtLeast,
            _ => return None,
        };
        Some((comparison, rest))
    }

    fn holds(self, one: f64, other: f64) -> bool {
        match self {
            Comparison::Equal => one == other,
            Comparison::Unequal => one != other,
            Comparison::Less => one < other,
            Comparison::AtMost => one <= other,
            Comparison::More => one > other,
            Comparison::AtLeast => one >= other,
        }
    }
}

impl Operand {
    fn parsed(text: &str) -> Result<Operand, String> {
        match text.strip_prefix('@') {
            None => Ok(Operand::Literal(literal(text))),
            Some(text) => {
                let end = text.find(['.', '[']).unwrap_or(text.len());
                let rest = text[end..].trim_start_matches('.');
                Ok(Operand::Named(text[..end].to_owned(), if rest.is_empty() { Vec::new() } else { path(rest)? }))
            }
        }
    }

    fn values(&self, context: &Context) -> Result<Vec<Value>, String> {
        match self {
            Operand::Literal(value) => Ok(vec![value.clone()]),
            Operand::Named(name, path) => {
                let printed = context.results.get(name).ok_or_else(|| format!("no result is named {name}"))?;
                Ok(found(&json(printed)?, path))
            }
        }
    }
}

/// JSON, or else a text.
fn literal(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn path(text: &str) -> Result<Vec<Segment>, String> {
    let mut path = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (conditions, after) = inner.split_once(']').ok_or_else(|| format!("{text}: no `]`"))?;
            let fields = conditions.split(" & ").map(|it| it.split_once('=').map(|(name, it)| (name.to_owned(), literal(it))));
            path.push(Segment::With(fields.collect::<Option<_>>().ok_or_else(|| format!("{text}: `[NAME=VALUE]`"))?));
            rest = after.trim_start_matches('.');
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        path.push(match &rest[..end] {
            "" => return Err(format!("{text} is no path")),
            "*" => Segment::All,
            "len" => Segment::Count,
            name => Segment::Name(name.to_owned()),
        });
        rest = rest[end..].trim_start_matches('.');
    }
    Ok(path)
}

/// What is at a path.
fn found(value: &Value, path: &[Segment]) -> Vec<Value> {
    let Some((segment, rest)) = path.split_first() else {
        return vec![value.clone()];
    };
    let items = value.as_array();
    match segment {
        Segment::Name(name) => {
            let item = name.parse::<usize>().ok().and_then(|at| value.get(at));
            item.or_else(|| value.get(name.as_str())).map_or(Vec::new(), |value| found(value, rest))
        }
        Segment::All => {
            let values = items.map(|items| items.iter().collect::<Vec<_>>());
            let values = values.or_else(|| value.as_object().map(|fields| fields.values().collect()));
            values.into_iter().flatten().flat_map(|value| found(value, rest)).collect()
        }
        Segment::Count => items.map_or(Vec::new(), |items| vec![items.len().into()]),
        Segment::With(fields) => {
            let has = |item: &&Value| fields.iter().all(|(name, value)| equal(&item[name], value));
            items.into_iter().flatten().find(has).map_or(Vec::new(), |value| found(value, rest))
        }
    }
}

/// 32 equals 32.0.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        _ => match (one.as_u64(), other.as_u64(), one.as_f64(), other.as_f64()) {
            (Some(one), Some(other), ..) => one == other,
            (.., Some(one), Some(other)) => one == other,
            _ => one == other,
        },
    }
}

impl FieldCheck {
    fn parsed(text: &str) -> Result<FieldCheck, String> {
        if let Some((comparison, value)) = Comparison::parsed(text) {
            return Ok(FieldCheck::Compared(comparison, Operand::parsed(value)?));
        }
        let (word, rest) = text.split_once(' ').ok_or("it is no expectation of a field")?;
        match word {
            "~" => {
                let (value, within) = rest.split_once(" within ").unwrap_or((rest, "0.0000001 %"));
                let (within, unit) = within.strip_suffix(" %").map_or((within, 1.0), |share| (share, 0.01));
                let tolerance: f64 = within.parse().map_err(|_| format!("{within} is no number"))?;
                Ok(FieldCheck::Near(Operand::parsed(value)?, tolerance * unit, unit < 1.0))
            }
            "are" => serde_json::from_str(rest).map(FieldCheck::Are).map_err(|error| format!("{rest}: {error}")),
            "is" if ["number", "text", "list", "absent"].contains(&rest) => Ok(FieldCheck::HasType(rest.to_owned())),
            "has" | "lacks" | "starts" | "ends" => Ok(FieldCheck::Part(word.to_owned(), unquoted(rest)?)),
            _ => Err(format!("nothing is named `{word} {rest}`")),
        }
    }

    fn holds(&self, path: &[Segment], context: &Context) -> Result<(), String> {
        let values = found(&json(context.printed)?, path);
        // Enough to see which fields there are.
        let shown = || format!("{values:?} in {}", context.printed.stdout.chars().take(2000).collect::<String>().trim_end());
        let is_absent = matches!(self, FieldCheck::HasType(kind) if kind == "absent");
        if values.is_empty() || is_absent {
            return (values.is_empty() && is_absent).then_some(()).ok_or_else(shown);
        }
        let paired = |operand: &Operand| {
            let others = operand.values(context)?;
            match others.len() {
                1 => Ok(vec![others[0].clone(); values.len()]),
                count if count == values.len() => Ok(others),
                count => Err(format!("{count} values to compare with")),
            }
        };
        let is_so = match self {
            FieldCheck::Compared(comparison, operand) => {
                let is_so = |(one, other): (&Value, &Value)| match (comparison, one.as_f64(), other.as_f64()) {
                    (Comparison::Equal, ..) => equal(one, other),
                    (Comparison::Unequal, ..) => !equal(one, other),
                    (_, Some(one), Some(other)) => comparison.holds(one, other),
                    _ => false,
                };
                values.iter().zip(&paired(operand)?).all(is_so)
            }
            FieldCheck::Near(operand, tolerance, is_share) => {
                let is_near = |(one, other): (&Value, &Value)| match (one.as_f64(), other.as_f64()) {
                    (Some(one), Some(other)) => (one - other).abs() <= tolerance * if *is_share { other.abs() } else { 1.0 },
                    _ => false,
                };
                values.iter().zip(&paired(operand)?).all(is_near)
            }
            FieldCheck::Are(expected) => {
                values.len() == expected.len() && values.iter().zip(expected).all(|(one, other)| equal(one, other))
            }
            FieldCheck::HasType(kind) => values.iter().all(|value| match kind.as_str() {
                "number" => value.is_number(),
                "text" => value.is_string(),
                _ => value.is_array(),
            }),
            FieldCheck::Part(word, part) => values.iter().all(|value| match (value, word.as_str()) {
                (Value::String(text), "has") => text.contains(part),
                (Value::String(text), "lacks") => !text.contains(part),
                (Value::String(text), "starts") => text.starts_with(part),
                (Value::String(text), "ends") => text.ends_with(part),
                (Value::Array(items), "has") => items.iter().any(|item| equal(item, &literal(part))),
                (Value::Array(items), "lacks") => !items.iter().any(|item| equal(item, &literal(part))),
                _ => false,
            }),
        };
        is_so.then_some(()).ok_or_else(shown)
    }
}

#[test]
fn a_table_reports_all_that_is_not_so_with_its_line() {
    let table = "\
let RUN = run t.txt --frames 2 --policy

## right
for POLICY in lru; fifo
file t.txt
    R 1
    W 2
one: $RUN $POLICY | reads = 2 | writes ~ 1 within 3 % | policy starts $POLICY
compare t.txt --frames 1,2 --policies $POLICY --asymmetry 8
    len = 2
    *.references = 2
    *.frames are [1, 2]
    [frames=2].reads = @one.reads
    1.reads, 1.writes same as compare t.txt --frames 1,2 --policies $POLICY --asymmetry 4
    lower_bound is absent
$RUN $POLICY > out | stdout words hits 0 | stdout has hits
$RUN lur | error 2: did you mean + lru
file out lines > 3

## wrong
file t.txt
    R 1
    W 2
$RUN lru
    reads = 3
    references is text
    references > 2
    raeds = 1
$RUN lru | error 2
$RUN lur | exit = 1
$RUN lur
$RUN lru | stdout lacks hits | file t.txt is absent | stdout lines > 99
$RUN lru
    reads, trace same as run t.txt --frames 1 --policy lru --limit 1
";
    let found = failures("t.txt", table);
    let lines: Vec<&str> = found.iter().filter_map(|failure| failure.split(": ").next()).collect();
    let expected = [25, 26, 27, 28, 29, 30, 31, 32, 32, 32, 34].map(|line| format!("t.txt:{line}"));
    assert_eq!(lines, expected, "{found:#?}");
    assert!(found[0].contains("`run t.txt --frames 2 --policy lru`: expected `reads = 3`, found [Number(2)]"), "{}", found[0]);
}

#[test]
fn a_table_that_says_nothing_or_nothing_known_fails() {
    for (table, says) in [
        ("## a\nschema run\n", "t.txt:1: `## a` has no expectation"),
        ("## a\n", "t.txt:1: `## a` has no expectation"),
        ("## a\nschema run\n    stdout equals x\n", "`stdout equals x`: nothing is named `equals`"),
        ("## a\nschema run | title equals x\n", "nothing is named `equals x`"),
        ("## a\nschema | a = 1 | stdout has a\n", "give it a line of its own"),
        ("## a\nschema run | good\n", "`good`: it is no expectation"),
        ("## a\nschema $NAME | succeeds\n", "nothing is named $NAME"),
        ("let A 1\n", "t.txt:1: `let A 1` is not `let NAME = TEXT`"),
        ("## a\nfor A B in 1\nschema run | succeeds\n", "t.txt:2: 1 words for"),
        ("## a\nschema 'run | succeeds\n", "a quote has no end"),
        ("## a\nschema nothing | succeeds\n", "`schema nothing` ends with Some(2)"),
    ] {
        let found = failures("t.txt", table);
        assert!(found.iter().any(|failure| failure.contains(says)), "{table}: {found:?}");
    }
    assert_eq!(failures("t.txt", "## a\nschema run | succeeds\n"), [""; 0]);
}
