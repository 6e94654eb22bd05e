//! The page of all experiments: contents and filter, then each table and figure; and the verdicts in Markdown.

use ebbpool_lab::report::chart::figure_colours;
use ebbpool_lab::report::figure_tools;
use ebbpool_lab::report::html::{document, style_sheet};
use maud::{Markup, PreEscaped, html};

use super::done::ExperimentResult;
use super::format::{Paper, Scale};
use super::parts::{IndexPart, IndexParts};
use super::verdict::{GuestFinding, JudgedClaim, Verdict, counted_apart};
use super::words::{CLASSES, claimed_in, class, prose};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

fn papers(parts: &[IndexPart]) -> impl Iterator<Item = Paper> {
    parts.iter().map(|part| part.paper)
}

fn title(parts: &[IndexPart]) -> &'static str {
    match parts {
        [_, ..] if papers(parts).all(|paper| paper == Paper::Ebb) => "ebb, studied",
        _ if papers(parts).all(Paper::is_published) => "The papers, reproduced",
        _ => "Experiments",
    }
}

/// The page.
pub(crate) fn index(all: &IndexParts) -> String {
    let parts = &all.parts;
    let title = title(parts);
    let (tools_style, tools_script) = figure_tools();
    let body = html! {
        header {
            h1 { (title) }
            p { (summary_of_parts(parts)) }
            @for name in &all.unreadable {
                p.small { "Left out: " code { (name) } " is not of this version; run the experiment again." }
            }
            p.small { "All verdicts in one table: " a href="verdicts.md" { "verdicts.md" } }
        }
        (contents(parts))
        // The script shows the filter; without it all experiments are in sight.
        (filter(parts))
        main { @for part in parts { (PreEscaped(&part.section)) } }
        script { (PreEscaped(SCRIPT)) }
        script { (PreEscaped(tools_script)) }
    };
    let style = [STYLE, &figure_colours(), tools_style].concat();
    document(title, None, &style_sheet(&style), body)
}

/// The papers of the page, each once, in the order of their first experiments.
fn distinct_papers(parts: &[IndexPart]) -> Vec<Paper> {
    let mut all = Vec::new();
    for paper in papers(parts) {
        if !all.contains(&paper) {
            all.push(paper);
        }
    }
    all
}

/// A link to each experiment, with a mark for each of its claims.
fn contents(parts: &[IndexPart]) -> Markup {
    html! {
        nav #contents aria-label="Contents" {
            @for paper in distinct_papers(parts) {
                div data-paper=(paper.key()) {
                    h2 { (paper.name()) }
                    ol {
                        @for part in parts.iter().filter(|part| part.paper == paper) {
                            li data-of=(part.id) {
                                a href={ "#" (part.id) } { span.number { (part.number) } " " (prose(&part.title)) }
                                (mark(part, parts))
                                (claim_marks(part))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A mark for each claim of an experiment, and the same in words.
fn claim_marks(part: &IndexPart) -> Markup {
    let words: Vec<String> = CLASSES
        .iter()
        .filter_map(|(class_name, words)| {
            let judged = part.judged.iter();
            match judged.filter(|judged| class(judged) == *class_name).count() {
                0 => None,
                count => Some(format!("{count} {words}")),
            }
        })
        .collect();
    let words = words.join(", ");
    html! {
        @if !words.is_empty() {
            span.marks role="img" aria-label=(words) title=(words) {
                @for judged in &part.judged { span.mark.(class(judged)) {} }
            }
        }
    }
}

/// Checkboxes for papers and verdicts, each with the number of its claims.
fn filter(parts: &[IndexPart]) -> Markup {
    let claims_of = |is: &dyn Fn(&IndexPart, &JudgedClaim) -> bool| {
        let all = parts.iter();
        let all = all.flat_map(|part| part.judged.iter().map(move |judged| (part, judged)));
        all.filter(|(part, judged)| is(part, judged)).count()
    };
    let papers = distinct_papers(parts).into_iter();
    let papers = papers.map(|paper| {
        let count = claims_of(&|part, _| part.paper == paper);
        (paper.key(), paper.name(), count)
    });
    let verdicts = CLASSES.iter().map(|(class_name, words)| {
        let count = claims_of(&|_, judged| class(judged) == *class_name);
        (*class_name, *words, count)
    });
    let group = |legend: &str, name: &str, all: Vec<(&str, &str, usize)>| {
        html! {
            fieldset {
                legend { (legend) }
                @for (value, words, count) in all {
                    label {
                        input type="checkbox" name=(name) value=(value);
                        @if name == "verdict" { span.mark.(value) {} }
                        " " (words) " " span.count { (count) }
                    }
                }
            }
        }
    };
    let verdicts = verdicts.filter(|(_, _, count)| *count > 0).collect();
    html! {
        form #filter hidden aria-label="Filter" {
            (group("Paper", "paper", papers.collect()))
            (group("Verdict", "verdict", verdicts))
            p { span #shown role="status" {} " " button type="reset" hidden { "Show all" } }
        }
    }
}

/// The number of claims by their verdict, in a sentence.
pub fn summary(all: &[ExperimentResult]) -> String {
    let judged = all.iter().flat_map(|done| &done.judged);
    totals(judged, all.len(), &runs(all.iter().map(|done| done.scale)))
}

fn summary_of_parts(parts: &[IndexPart]) -> String {
    let mut runs = runs(parts.iter().map(|part| part.scale));
    let on_file = parts.iter().filter(|part| part.file.is_some()).count();
    if on_file > 0 {
        runs.push_str(&format!(", {on_file} of them on a file"));
    }
    let judged = parts.iter().flat_map(|part| &part.judged);
    totals(judged, parts.len(), &runs)
}

/// The scales of the runs.
fn runs(scales: impl Iterator<Item = Scale>) -> String {
    let (full, quick): (Vec<Scale>, _) = scales.partition(|scale| *scale == Scale::Full);
    match (quick.len(), full.len()) {
        (_, 0) => "quick runs".into(),
        (0, _) => "full runs".into(),
        (quick, full) => format!("{quick} quick and {full} full runs"),
    }
}

/// The totals of the verdicts in a sentence.
fn totals<'a>(judged: impl Iterator<Item = &'a JudgedClaim>, experiments: usize, runs: &str) -> String {
    let judged: Vec<&JudgedClaim> = judged.collect();
    let count = |verdict: Verdict| {
        let judged = judged.iter().filter(|judged| judged.is_counted());
        judged.filter(|judged| judged.verdict == verdict).count()
    };
    let [holds, part, not, unknown] = [Verdict::Holds, Verdict::InPart, Verdict::DoesNot, Verdict::Unknown].map(count);
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(", {unknown} cannot be judged"),
    };
    let apart = counted_apart(judged.iter().copied());
    format!(
        "{} {} of {experiments} tables and figures, {runs}: {holds} hold, {part} hold in part, {not} do not{unknown}{apart}.",
        judged.len(),
        if judged.len() == 1 { "claim" } else { "claims" },
    )
}

/// Marks a run whose scale is not that of all others, and a run on a file.
fn mark(part: &IndexPart, parts: &[IndexPart]) -> String {
    let mixed = parts.iter().any(|other| other.scale != part.scale);
    let scale = mixed.then(|| part.scale.name().to_string());
    let file = part.file.as_ref().map(|file| format!("on {file}"));
    let marks: Vec<String> = scale.into_iter().chain(file).collect();
    match marks.is_empty() {
        true => String::new(),
        false => format!(" ({})", marks.join(", ")),
    }
}

/// The verdicts as a table in Markdown.
pub(crate) fn markdown(parts: &[IndexPart]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
    let mut text = format!(
        "{}\n\n| where | claim | {} | ours | verdict | why we think so |\n| --- | --- | --- | --- | --- | --- |\n",
        summary_of_parts(parts),
        claimed_in(papers(parts))
    );
    for part in parts {
        for judged in &part.judged {
            let name = format!("`{}`{}", part.id, cell(&mark(part, parts)));
            let row = [
                name.clone(),
                cell(&judged.says),
                cell(&judged.paper),
                cell(&judged.ours),
                judged.verdict_text(),
                cell(&judged.reasons()),
            ];
            text.push_str(&format!("| {} |\n", row.join(" | ")));
            for guest in &judged.guests {
                let row =
                    [name.as_str(), &cell(&guest.claim_place_text()), "", &cell(&guest.ours), GuestFinding::NO_VERDICT, ""];
                text.push_str(&format!("| {} |\n", row.join(" | ")));
            }
        }
    }
    for ranked in parts.iter().flat_map(|part| &part.rankings) {
        let heads: Vec<String> = ranked.heads.iter().map(|head| cell(head)).collect();
        let rule = vec!["---"; heads.len()].join(" | ");
        text.push_str(&format!("\n{}\n\n| {} |\n| {rule} |\n", cell(&ranked.heading), heads.join(" | ")));
        for cells in &ranked.cells {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_become_code() {
        let shown = |text: &str| prose(text).into_string();
        assert_eq!(shown("as `a < b` and `c`"), "as <code>a &lt; b</code> and <code>c</code>");
        assert_eq!(shown("none"), "none");
        assert_eq!(shown("`all`"), "<code>all</code>");
        assert_eq!(shown("one ` alone"), "one ` alone");
        assert_eq!(shown("`a` and ` alone"), "<code>a</code> and ` alone");
        assert_eq!(shown("by 9 %"), "by 9\u{a0}%");
        let device = shown("on flash:mlc-hp2014,blocks=4500,rho=0.94");
        assert_eq!(device, "on flash:mlc-hp2014,<wbr>blocks=4500,<wbr>rho=0.94");
    }

    #[test]
    fn the_script_cannot_end_its_element() {
        assert!(!SCRIPT.to_lowercase().contains("</script") && !SCRIPT.contains("<!--"));
    }
}
