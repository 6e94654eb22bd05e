//! The report: a plain page with the tables.

use std::io::Write;
use std::path::Path;

use ebbpool_trace::output::OutputFile;

use crate::Failure;
use crate::compare::Comparison;
use crate::table::{least, sentence};

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem;text-align:right}\
th:first-child{text-align:left}thead th{border-bottom:1px solid}tr:hover{background:color-mix(in srgb,currentColor 8%,transparent)}\
.best{font-weight:700}caption{text-align:left;font-weight:700}";

/// Writes the page, replacing a file of that name at once.
pub(crate) fn write(path: &Path, comparisons: &[Comparison]) -> Result<(), Failure> {
    let mut out = OutputFile::create(path)?;
    let label = out.label().to_string();
    page(&mut out, comparisons).map_err(|error| {
        let reason = std::io::Error::new(error.kind(), format!("{label}: {error}"));
        Failure::Sim(ebbpool_sim::SimError::Output {
            what: "the report",
            source: reason,
        })
    })?;
    out.finish()?;
    Ok(())
}

fn page(out: &mut impl Write, comparisons: &[Comparison]) -> std::io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Ebbpool</title><style>{STYLE}</style>\n<h1>Ebbpool</h1>\n"
    )?;
    for comparison in comparisons {
        let sizes = comparison.sizes.len();
        writeln!(out, "<h2>{}</h2>", escape(&comparison.title))?;
        writeln!(out, "<p>{}.</p>", escape(&sentence(comparison)))?;
        for block in comparison.blocks() {
            let least = least(block, sizes);
            writeln!(
                out,
                "<table><caption>R = {}: bill per reference, in page reads</caption><thead><tr><th scope=\"col\">policy",
                block[0].asymmetry.0
            )?;
            for (size, record) in comparison.sizes.iter().zip(block) {
                writeln!(
                    out,
                    "<th scope=\"col\">{} ({} frames)",
                    escape(size),
                    record.frames
                )?;
            }
            writeln!(out, "</thead><tbody>")?;
            for row in block.chunks(sizes) {
                write!(out, "<tr><th scope=\"row\">{}", escape(&row[0].policy))?;
                for (record, least) in row.iter().zip(&least) {
                    let best = if record.cost <= *least {
                        " class=\"best\""
                    } else {
                        ""
                    };
                    write!(
                        out,
                        "<td{best} title=\"{} reads, {} writes\">{:.4}",
                        record.reads, record.writes, record.cost
                    )?;
                }
                writeln!(out)?;
            }
            writeln!(out, "</tbody></table>")?;
        }
    }
    writeln!(out, "</html>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
