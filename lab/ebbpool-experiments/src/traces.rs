//! The traces that experiments name.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use ebbpool_trace::{ReadOptions, Source, samples};
use tempfile::TempDir;

use super::format::Trace;
use crate::error::ExperimentError;

/// The samples that ship with Ebbpool, by their names in experiments.
static SAMPLES: [(&str, &[u8]); 3] = [
    ("traces/pg-tpcc.parquet", samples::PG_TPCC),
    ("traces/pg-tpcb.parquet", samples::PG_TPCB),
    ("traces/pg-tatp.parquet", samples::PG_TATP),
];

/// Opens traces. Samples need not be in the current directory.
#[derive(Default)]
pub(crate) struct Traces {
    directory: OnceLock<TempDir>,
}

impl Traces {
    /// The trace as a source.
    pub(crate) fn source(&self, trace: &Trace) -> Result<Source, ExperimentError> {
        let options = ReadOptions { limit: trace.limit, ..ReadOptions::default() };
        if trace.inline {
            let path = self.file("references.txt", text_of(&trace.spec)?.as_bytes())?;
            return Ok(Source::parse_with(&path.to_string_lossy(), &options)?);
        }
        let parts = trace.parts().map(|spec| self.with_sample_paths(spec));
        let parts = parts.collect::<Result<Vec<String>, _>>()?;
        match parts.as_slice() {
            [spec] => Ok(Source::parse_with(spec, &options)?),
            parts => Ok(Source::concat(parts, &options)?),
        }
    }

    /// The trace's name with the paths of the samples filled in.
    fn with_sample_paths(&self, spec: &str) -> Result<String, ExperimentError> {
        let mut spec = spec.to_string();
        for (name, bytes) in SAMPLES {
            if spec.contains(name) {
                let path = self.file(name.trim_start_matches("traces/"), bytes)?;
                spec = spec.replace(name, &path.to_string_lossy());
            }
        }
        Ok(spec)
    }

    /// A temporary file with that content, removed when `self` is dropped.
    fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf, ExperimentError> {
        let failed = |source: std::io::Error| ExperimentError::File { path: format!("a temporary copy of {name}"), source };
        if self.directory.get().is_none() {
            // If another thread has created the directory first, this thread uses it too.
            let _ = self.directory.set(tempfile::tempdir().map_err(failed)?);
        }
        let directory = self.directory.get().map_or(std::env::temp_dir(), |directory| directory.path().to_path_buf());
        let path = directory.join(name);
        let same = fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64);
        // Inline references use the same file name in each experiment, so they are always written.
        if !same || name.ends_with(".txt") {
            fs::write(&path, content).map_err(failed)?;
        }
        Ok(path)
    }
}

/// References such as `R A, W B` or `R 1, W 2` in the text format.
fn text_of(references: &str) -> Result<String, ExperimentError> {
    let wrong = |reference: &str| {
        ExperimentError::Invalid(format!(
            "'{reference}' is not a reference; write R or W and a page, which is a number or a capital letter, as in R A, W 17"
        ))
    };
    let mut lines = String::new();
    for reference in references.split(',') {
        let words: Vec<&str> = reference.split_whitespace().collect();
        let [access @ ("R" | "W"), page] = words[..] else {
            return Err(wrong(reference.trim()));
        };
        let page = match page.as_bytes() {
            [letter @ b'A'..=b'Z'] => u64::from(letter - b'A'),
            _ => page.parse().map_err(|_| wrong(reference.trim()))?,
        };
        lines.push_str(&format!("{access} {page}\n"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_letters_or_numbers() {
        assert_eq!(text_of("R A, W B,\nR 17").ok().as_deref(), Some("R 0\nW 1\nR 17\n"));
        for wrong in ["", "R", "X A", "R a", "R A B", "R -1", "R A,"] {
            assert!(text_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sample_names_are_found_anywhere_in_a_trace() {
        let traces = Traces::default();
        let source = |spec: &str| {
            let trace = Trace { limit: Some(3), ..Trace::named(spec) };
            traces.source(&trace).map(|source| source.content_key().ok())
        };
        let plain = source("traces/pg-tatp.parquet").expect("a sample");
        let dynamic = source("workload-dynamics:base=traces/pg-tatp.parquet").expect("a generator");
        assert!(plain.is_some() && dynamic.is_some());
        assert_ne!(plain, dynamic);
    }
}
