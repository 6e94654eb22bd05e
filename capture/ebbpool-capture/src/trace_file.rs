//! Captured traces as files: the trace, and the facts beside it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebbpool_trace::output::{OutputFile, caller, refuse_overwriting};
use ebbpool_trace::{Batch, Format, Metadata, PageClasses, RequestDetail, Writer, WrittenTrace};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::CaptureError;
use crate::recorder::CaptureBuffer;

/// References written at once.
const BATCH: usize = 1 << 16;

/// An object with the names that a reader knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    /// Its name.
    pub name: String,
    /// What it belongs to, such as a database; may be empty.
    pub group: String,
    /// What it is, such as a table.
    pub kind: Option<String>,
    /// Which part of it, such as a fork; empty if it has one part.
    pub part: String,
    /// Its pages, referenced or not.
    pub pages: u64,
}

impl NamedObject {
    /// The name of the class of its pages.
    pub fn class(&self) -> String {
        let name = match self.group.as_str() {
            "" => self.name.clone(),
            group => format!("{group}.{}", self.name),
        };
        match self.part.as_str() {
            "" | "main" => name,
            part => format!("{name} ({part})"),
        }
    }
}

/// A capture, with its pages not yet numbered.
#[derive(Debug)]
pub struct CapturedTrace {
    /// A name for display.
    pub name: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// True if only what missed a cache was seen.
    pub below_cache: bool,
    /// The objects of the recorder, in the same order.
    pub objects: Vec<NamedObject>,
    /// The references.
    pub recorder: CaptureBuffer,
}

/// An object's row in the file of facts.
#[derive(Debug, Serialize)]
struct ObjectRow<'a> {
    class: usize,
    name: &'a str,
    group: &'a str,
    kind: Option<&'a str>,
    part: &'a str,
    first_page: u64,
    pages: u64,
    references: u64,
    writes: u64,
}

/// The file of facts. There may be a million objects, which are written as they are.
#[derive(Debug, Serialize)]
struct FactsFile<'a> {
    #[serde(flatten)]
    facts: &'a Map<String, Value>,
    objects: &'a [ObjectRow<'a>],
}

/// The files that a capture has written.
#[derive(Debug)]
pub struct WrittenCapture {
    /// The trace.
    pub trace: WrittenTrace,
    /// The file of facts; `None` beside a trace that is no regular file.
    pub facts: Option<PathBuf>,
}

/// The files of a capture, open before it begins, so that a path that cannot be written wastes no capture.
#[derive(Debug)]
pub struct CaptureOutputs {
    path: PathBuf,
    trace: OutputFile,
    facts: Option<(PathBuf, OutputFile)>,
}

impl CaptureOutputs {
    /// Opens the trace, and the file of facts beside it if the trace is a regular file. New files are their owner's alone, since
    /// they show what only root could see; under sudo they belong to the user who called it.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Trace`], and [`CaptureError::Request`] if both would be one file.
    pub fn open(path: &Path) -> Result<CaptureOutputs, CaptureError> {
        let facts = facts_path(path);
        if facts == path {
            return Err(CaptureError::Request(format!(
                "{} is the file of names and settings, which stands beside the trace; give the trace another name, such as {}",
                path.display(),
                path.with_extension("parquet").display()
            )));
        }
        refuse_overwriting(&[], &[path.to_owned(), facts.clone()])?;
        let mut trace = OutputFile::create_private(path)?;
        give_to_caller(&mut trace);
        let facts = match trace.is_regular() {
            true => {
                let mut file = OutputFile::create_private(&facts)?;
                give_to_caller(&mut file);
                Some((facts, file))
            }
            false => None,
        };
        Ok(CaptureOutputs { path: path.to_owned(), trace, facts })
    }

    /// The path of the file of facts.
    pub fn facts_path(&self) -> Option<&Path> {
        self.facts.as_ref().map(|(path, _)| path.as_path())
    }
}

/// The file of facts beside a trace.
pub fn facts_path(trace: &Path) -> PathBuf {
    trace.with_extension("json")
}

impl CapturedTrace {
    /// The objects in the order of their pages: by group, name and part.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by_key(|&at| {
            let object = &self.objects[at];
            (&object.group, &object.name, self.recorder.objects[at].key)
        });
        order
    }

    /// Writes the trace, with a column `class` of objects, and beside it a file of facts: `facts`, and the objects.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Trace`] and [`CaptureError::Write`].
    pub fn write(&self, path: &Path, facts: Map<String, Value>) -> Result<WrittenCapture, CaptureError> {
        self.write_to(CaptureOutputs::open(path)?, facts)
    }

    /// Writes the trace, with a column `class` of objects, and the file of facts to files that are open already.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Trace`] and [`CaptureError::Write`].
    pub fn write_to(&self, outputs: CaptureOutputs, mut facts: Map<String, Value>) -> Result<WrittenCapture, CaptureError> {
        let order = self.order();
        let (mut first_pages, mut classes) = (vec![0; order.len()], vec![0; order.len()]);
        let (mut first_page, mut rows) = (0u64, Vec::new());
        for (index, &at) in order.iter().enumerate() {
            let (object, counted) = (&self.objects[at], &self.recorder.objects[at]);
            first_pages[at] = first_page;
            classes[at] = index as u32 + 1;
            rows.push(ObjectRow {
                class: index + 1,
                name: &object.name,
                group: &object.group,
                kind: object.kind.as_deref(),
                part: &object.part,
                first_page,
                pages: object.pages,
                references: counted.references,
                writes: counted.writes,
            });
            first_page = first_page.checked_add(object.pages).ok_or_else(|| {
                let name = object.class();
                CaptureError::Nothing(format!(
                    "{name} and others have more pages together than a trace can number; leave it out"
                ))
            })?;
        }
        let metadata = Metadata {
            name: Some(self.name.clone()),
            page_size: Some(self.page_size),
            database_pages: Some(first_page),
            below_cache: self.below_cache,
            own_numbers: false,
        };
        let names = order.iter().map(|&at| self.objects[at].class()).collect();
        let named = PageClasses::named(names);
        let CaptureOutputs { path, trace, facts: facts_file } = outputs;
        let format = Format::of_name(&path).unwrap_or(Format::Native);
        let mut writer = Writer::in_file(trace, &path, format, &metadata, Some(&named))?;
        self.write_references(&mut writer, &first_pages, &classes)?;
        let trace = writer.finish()?;
        facts.insert("page_size".into(), json!(self.page_size));
        facts.insert("pages".into(), json!(first_page));
        let facts_path = facts_file.as_ref().map(|(path, _)| path.clone());
        if let Some((path, file)) = facts_file {
            let facts = FactsFile { facts: &facts, objects: &rows };
            write_facts(&path, file, &facts)?;
        }
        Ok(WrittenCapture { trace, facts: facts_path })
    }

    fn write_references(&self, writer: &mut Writer, first_pages: &[u64], classes: &[u32]) -> Result<(), CaptureError> {
        let CaptureBuffer { resident, references, .. } = &self.recorder;
        for references in resident.chunks(BATCH).chain(references.chunks(BATCH)) {
            let mut batch = Batch::with_capacity(references.len());
            for reference in references {
                let object = reference.object as usize;
                let page = first_pages[object].saturating_add(reference.page());
                batch.push(page, reference.is_write());
                batch.classes.push(classes[object]);
                batch.requests.push(RequestDetail { time_us: u64::from(reference.time_ms) * 1000, bypass: reference.bypass });
            }
            writer.write(&batch)?;
        }
        Ok(())
    }
}

fn write_facts(path: &Path, mut file: OutputFile, facts: &FactsFile) -> Result<(), CaptureError> {
    let written = serde_json::to_writer_pretty(&mut file, facts).map_err(io::Error::from);
    let written = written.and_then(|()| file.write_all(b"\n"));
    written.map_err(|source| CaptureError::Write { file: path.display().to_string(), source })?;
    file.finish()?;
    Ok(())
}

/// Under sudo a new file belongs to the user who called it.
fn give_to_caller(file: &mut OutputFile) {
    if let Some((user, group)) = caller() {
        file.give_to(user, group);
    }
}
