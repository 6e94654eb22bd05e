//! The report: one HTML page with the results and the script that draws them, and nothing to load.
//!
//! The charts' looks, for the report and for the pictures of experiments, are in [`chart`]; what both kinds of pages
//! share is in [`html`].

mod bills;
pub mod chart;
mod data;
pub mod html;
mod on_device;
mod origin;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ebbpool_trace::output::OutputFile;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::compare::Comparison;
use crate::error::LabError;
use crate::trace_set::TraceGroup;

pub use bills::picture;
pub use origin::ReportOptions;

pub(crate) const STYLE: &str = concat!(include_str!("report/report.css"), include_str!("report/figure/figure.css"));

/// The parts of the script. To add a section, write its file, name it here, and in `SECTIONS` of main.js.
const SCRIPTS: [&str; 23] = [
    include_str!("report/script/elements.js"),
    include_str!("report/script/numbers.js"),
    include_str!("report/script/results.js"),
    include_str!("report/script/view.js"),
    include_str!("report/figure/saving.js"),
    include_str!("report/figure/zooming.js"),
    include_str!("report/figure/part.js"),
    chart::SCRIPT,
    include_str!("report/script/memory.js"),
    include_str!("report/script/legend.js"),
    include_str!("report/script/facts.js"),
    include_str!("report/script/summary.js"),
    include_str!("report/script/best.js"),
    include_str!("report/script/ranking.js"),
    include_str!("report/script/bill.js"),
    include_str!("report/script/curves.js"),
    include_str!("report/script/trade_off.js"),
    include_str!("report/script/day.js"),
    include_str!("report/script/wear.js"),
    include_str!("report/script/time.js"),
    include_str!("report/script/statistics.js"),
    include_str!("report/script/table.js"),
    include_str!("report/script/main.js"),
];

/// The style and the script that give the pictures of any page their tools: zoom, a series alone on a click, and the
/// picture as SVG or PNG and its numbers as CSV.
///
/// They work on each `<svg class="figure">` with a `viewBox`. The numbers are those of a `<script type="text/csv">`
/// beside it. Whatever belongs to a series, its entry of a legend too, has the attribute `data-series` with the
/// series' name. A Content-Security-Policy must allow the script and the style, and `img-src blob:`, from which a
/// PNG is made. The style uses the colours that [`html::style_sheet`] has.
///
/// ```
/// let (style, script) = ebbpool_lab::report::figure_tools();
/// let page = format!("<style>{style}</style><svg class=figure viewBox='0 0 9 9'></svg><script>{script}</script>");
/// assert!(page.contains("data-series"));
/// ```
pub const fn figure_tools() -> (&'static str, &'static str) {
    const SCRIPT: &str = concat!(
        "(() => {\n\"use strict\";\n",
        include_str!("report/script/elements.js"),
        include_str!("report/figure/saving.js"),
        include_str!("report/figure/zooming.js"),
        include_str!("report/figure/static.js"),
        "})();\n",
    );
    (include_str!("report/figure/figure.css"), SCRIPT)
}

/// What the page says below the results.
const COUNTED: &str = "A reference to a page that is not in memory is one page read, but for a write of the whole page. A \
    dirty page that leaves memory is one page write. The bill is (reads + R × writes) / references; where a device was charged, what the device \
    took for its requests.";

/// What the page says where scripts are not allowed.
const NO_SCRIPT: &str = "This page draws its charts with a script. Please allow scripts for this file; it loads nothing.";

/// Writes the page and puts it in its place. `groups` are those of [`TraceSet`](crate::trace_set::TraceSet); with several
/// traces in them the page begins with their summary.
///
/// # Errors
///
/// [`LabError::Output`] if the file cannot be written.
pub fn write(
    mut out: OutputFile,
    comparisons: &[Comparison],
    groups: &[TraceGroup],
    options: &ReportOptions,
) -> Result<(), LabError> {
    let label = out.label().to_string();
    let written = page(comparisons, groups, options).and_then(|page| out.write_all(page.as_bytes()));
    written.map_err(|source| LabError::Output { what: format!("the report: {label}"), source })?;
    out.finish()?;
    Ok(())
}

/// The page.
///
/// # Errors
///
/// If the results cannot be made JSON.
pub fn page(comparisons: &[Comparison], groups: &[TraceGroup], options: &ReportOptions) -> Result<String, std::io::Error> {
    let results = embedded(&data::Report::new(comparisons, groups))?;
    let style = html::style_sheet(STYLE);
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src blob:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style),
    );
    let body = body(&results, &script, options);
    Ok(html::document("Ebbpool report", Some(&policy), &style, body))
}

/// One function around all parts keeps their names to themselves.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat())
}

/// The frame that the script fills.
fn body(results: &str, script: &str, options: &ReportOptions) -> Markup {
    html! {
        a.skip href="#results" { "Skip to the results" }
        header.top {
            h1 { "Ebbpool " span { "report" } }
            p #contents {}
            button #appearance type="button" {}
        }
        noscript { p { (NO_SCRIPT) } }
        div.page {
            aside #legend aria-label="Policies" {}
            main #results tabindex="-1" {}
        }
        footer {
            (options.markup())
            p { (COUNTED) }
        }
        div #announcer.unseen role="status" aria-live="polite" {}
        script type="application/json" id="data" { (PreEscaped(results)) }
        script { (PreEscaped(script)) }
    }
}

/// JSON that no name of a trace or policy can end: in JSON `<` stands in strings only, and may be
/// written as an escape there.
fn embedded(report: &data::Report) -> Result<String, std::io::Error> {
    Ok(serde_json::to_string(report)?.replace('<', "\\u003c"))
}

/// What a Content-Security-Policy calls an inline script or style with exactly this text.
pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_all_parts_once() {
        let page = page(&[], &[], &ReportOptions::default()).expect("a page");
        let style = html::style_sheet(STYLE);
        for part in [&script(), &style, "<main id=\"results\"", "<aside id=\"legend\""] {
            assert_eq!(page.matches(part).count(), 1);
        }
        for text in [&script(), &style] {
            assert!(page.contains(&format!("'{}'", hash(text))));
        }
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        // The example of Content Security Policy Level 3, section 6.7.3.
        assert_eq!(hash("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }

    #[test]
    fn no_part_of_the_page_ends_its_element() {
        assert!(!script().to_lowercase().contains("</script"));
        assert!(!script().contains("<!--"));
        assert!(!html::style_sheet(STYLE).to_lowercase().contains("</style"));
    }

    #[test]
    fn no_part_of_the_tools_ends_its_element() {
        let (style, script) = figure_tools();
        assert!(!script.to_lowercase().contains("</script"));
        assert!(!script.contains("<!--"));
        assert!(!style.to_lowercase().contains("</style"));
    }

    #[test]
    fn names_cannot_leave_the_results() {
        let report = data::tests::report_named("</script><script>alert(1)</script><!--");
        let json = embedded(&report).expect("JSON");
        assert!(!json.contains('<'));
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["traces"][0]["name"], "</script><script>alert(1)</script><!--");
    }
}
