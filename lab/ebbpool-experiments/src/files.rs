//! Writes the files of a report.

use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;

use ebbpool_lab::report::chart::svg;
use ebbpool_trace::output::OutputFile;

use crate::done::{DrawnFigure, ExperimentResult, ranking_file};
use crate::error::ExperimentError;
use crate::parts::{IndexPart, IndexParts};
use crate::{chart, data, page};

pub(crate) fn make_directory(out: &Path) -> Result<(), ExperimentError> {
    fs::create_dir_all(out).map_err(|source| ExperimentError::File { path: out.display().to_string(), source })
}

/// Writes the page with all results in the directory, and a Markdown file with the verdicts.
pub(crate) fn write_index(out: &Path) -> Result<(), ExperimentError> {
    let all = IndexParts::read(out)?;
    write(out, "index.html", page::index(&all).as_bytes())?;
    write(out, "verdicts.md", page::markdown(&all.parts).as_bytes())
}

/// Writes the part of the index about an experiment. It replaces the part of an earlier run.
pub(crate) fn write_part(done: &ExperimentResult, out: &Path) -> Result<(), ExperimentError> {
    let part = IndexPart::new(done);
    let path = || out.join(part.name()).display().to_string();
    let content = serde_json::to_vec(&part).map_err(|error| ExperimentError::File { path: path(), source: error.into() })?;
    write(out, &part.name(), &content)
}

/// Writes the figures and the data of an experiment.
pub(crate) fn write_figures(done: &mut ExperimentResult, out: &Path) -> Result<(), ExperimentError> {
    let id = done.experiment.id().to_string();
    let failed = |name: &str, error: String| ExperimentError::File {
        path: out.join(name).display().to_string(),
        source: io::Error::other(error),
    };
    let figures: Vec<_> = done.experiment.figures().cloned().collect();
    for (at, figure) in figures.iter().enumerate() {
        let name = match figures.len() {
            1 => id.clone(),
            _ => format!("{id}-{}", at + 1),
        };
        if let Some(picture) = chart::picture(&done.experiment, figure, &done.points, &name) {
            let file = format!("{name}.svg");
            write(out, &file, svg(&picture).as_bytes())?;
            let title = figure.title.as_ref().unwrap_or(&done.experiment.title);
            let csv = data::picture_csv(&picture);
            done.figures.push(DrawnFigure {
                title: title.clone(),
                csv: csv.map_err(|error| failed(&file, error.to_string()))?,
                file,
                picture,
            });
        }
    }
    let name = format!("{id}.csv");
    let csv = data::points_csv(done).map_err(|error| failed(&name, error.to_string()))?;
    write(out, &name, &csv)?;
    for (at, ranked) in done.ranked.iter().enumerate() {
        let name = ranking_file(&id, at, done.ranked.len());
        let csv = ranked.as_csv();
        let csv = csv.map_err(|error| failed(&name, error.to_string()))?;
        write(out, &name, &csv)?;
    }
    let name = format!("{id}-over-time.csv");
    let csv = data::moments_csv(done).map_err(|error| failed(&name, error.to_string()))?;
    match csv {
        Some(csv) => write(out, &name, &csv),
        None => Ok(()),
    }
}

fn write(out: &Path, name: &str, content: &[u8]) -> Result<(), ExperimentError> {
    let path = out.join(name);
    let mut file = OutputFile::create(&path)?;
    file.write_all(content).map_err(|source| ExperimentError::File { path: path.display().to_string(), source })?;
    file.finish()?;
    Ok(())
}
