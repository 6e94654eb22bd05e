//! The report: one HTML page with the results and the script that draws them, and nothing to load.

mod curves;
mod data;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ebbpool_trace::output::OutputFile;
use sha2::{Digest, Sha256};

use crate::compare::Comparison;
use crate::error::LabError;

pub(crate) use curves::{CellErrors, Curve, Limit};

/// The page, with a name in double braces for each thing to be put in.
const PAGE: &str = include_str!("page.html");

const STYLE: &str = include_str!("report.css");

/// One function around all parts keeps their names to themselves. To add a section, write its file,
/// name it here, and in `SECTIONS` of main.js.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("script/elements.js"),
    include_str!("script/numbers.js"),
    include_str!("script/axes.js"),
    include_str!("script/results.js"),
    include_str!("script/view.js"),
    include_str!("script/marks.js"),
    include_str!("script/legend.js"),
    include_str!("script/chart.js"),
    include_str!("script/facts.js"),
    include_str!("script/best.js"),
    include_str!("script/ranking.js"),
    include_str!("script/bill.js"),
    include_str!("script/curves.js"),
    include_str!("script/trade_off.js"),
    include_str!("script/wear.js"),
    include_str!("script/time.js"),
    include_str!("script/nature.js"),
    include_str!("script/table.js"),
    include_str!("script/main.js"),
    "})();\n",
);

/// Writes the page and puts it in its place.
///
/// # Errors
///
/// [`LabError::Output`] if the file cannot be written.
pub fn write(mut out: OutputFile, comparisons: &[Comparison]) -> Result<(), LabError> {
    let label = out.label().to_string();
    let written = page(comparisons).and_then(|page| out.write_all(page.as_bytes()));
    written.map_err(|source| LabError::Output {
        what: format!("the report: {label}"),
        source,
    })?;
    out.finish()?;
    Ok(())
}

/// The page.
///
/// # Errors
///
/// If the results cannot be made JSON.
pub fn page(comparisons: &[Comparison]) -> Result<String, std::io::Error> {
    let results = embedded(&data::Report::of(comparisons))?;
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE),
    );
    let mut page = String::with_capacity(PAGE.len() + results.len() + (1 << 17));
    let mut rest = PAGE;
    // What is put in is not searched again, so nothing in it is taken for a place.
    while let Some((before, place, after)) = next_place(rest) {
        page.push_str(before);
        page.push_str(match place {
            "content-security-policy" => &policy,
            "style" => STYLE,
            "script" => SCRIPT,
            "results" => &results,
            _ => "",
        });
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// Splits a text at its first `{{place}}`: what is before, the place's name, what is after.
fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (place, after) = rest.split_once("}}")?;
    Some((before, place, after))
}

/// JSON that no name of a trace or policy can end: in JSON `<` stands in strings only, and may be
/// written as an escape there.
fn embedded(report: &data::Report) -> Result<String, std::io::Error> {
    Ok(serde_json::to_string(report)?.replace('<', "\\u003c"))
}

/// What a Content-Security-Policy calls an inline script or style with exactly this text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_page_is_filled_once() {
        let mut places = Vec::new();
        let mut rest = PAGE;
        while let Some((_, place, after)) = next_place(rest) {
            places.push(place);
            rest = after;
        }
        places.sort_unstable();
        assert_eq!(
            places,
            ["content-security-policy", "results", "script", "style"]
        );
        let page = page(&[]).expect("a page");
        assert!(page.contains(SCRIPT) && page.contains(STYLE));
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        // The example of Content Security Policy Level 3, section 6.7.3.
        assert_eq!(
            hash("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
        );
    }

    #[test]
    fn no_part_of_the_page_ends_its_element() {
        assert!(!SCRIPT.to_lowercase().contains("</script"));
        assert!(!SCRIPT.contains("<!--"));
        assert!(!STYLE.to_lowercase().contains("</style"));
    }

    #[test]
    fn names_cannot_leave_the_results() {
        let report = data::tests::report_named("</script><script>alert(1)</script><!--");
        let json = embedded(&report).expect("JSON");
        assert!(!json.contains('<'));
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            read["traces"][0]["name"],
            "</script><script>alert(1)</script><!--"
        );
    }
}
