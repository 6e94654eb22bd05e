//! The report: verdicts first, then each table and figure.

use ebbpool_lab::report::html::{document, style_sheet};
use maud::{Markup, PreEscaped, html};

use super::data;
use super::format::{Contender, Paper, Scale, Workload};
use super::metric::Metric;
use super::ordered::Text;
use super::parts::{IndexPart, IndexParts};
use super::point::Point;
use super::ranking::RankingTable;
use super::seeds;
use super::study::ExperimentResult;
use super::verdict::{JudgedClaim, Verdict};

const STYLE: &str = include_str!("page.css");

/// Points beyond which a table says less than the figure.
const MOST_ROWS: usize = 40;

/// The name of the column with the figures that a claim states.
pub fn claimed(all: &[ExperimentResult]) -> &'static str {
    claimed_in(all.iter().map(|done| done.experiment.paper))
}

fn claimed_in(mut papers: impl Iterator<Item = Paper>) -> &'static str {
    match papers.all(Paper::is_published) {
        true => "paper",
        false => "claimed",
    }
}

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
    let body = html! {
        h1 { (title) }
        p { (summary_of_parts(parts)) }
        @for name in &all.unreadable {
            p.small { "Left out: " code { (name) } " is not of this version; run the experiment again." }
        }
        (verdicts(parts))
        @for part in parts { (PreEscaped(&part.section)) }
    };
    document(title, None, &style_sheet(STYLE), body)
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

/// The totals of the verdicts in a sentence. Verdicts on computing time, which vary from run to run, are
/// counted apart.
fn totals<'a>(
    judged: impl Iterator<Item = &'a JudgedClaim>,
    experiments: usize,
    runs: &str,
) -> String {
    let (varying, judged): (Vec<_>, Vec<_>) = judged.partition(|judged| judged.computing_time);
    let count = |verdict: Verdict| {
        let judged = judged.iter();
        judged.filter(|judged| judged.verdict == verdict).count()
    };
    let [holds, part, not, unknown] = [
        Verdict::Holds,
        Verdict::InPart,
        Verdict::DoesNot,
        Verdict::Unknown,
    ]
    .map(count);
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(", {unknown} cannot be judged"),
    };
    let apart = match varying.len() {
        0 => String::new(),
        varying => format!("; {varying} of computing time, which vary"),
    };
    format!(
        "{} claims of {experiments} tables and figures, {runs}: {holds} hold, {part} hold in part, {not} do not{unknown}{apart}.",
        judged.len() + varying.len(),
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

fn class(judged: &JudgedClaim) -> &'static str {
    match judged.verdict {
        _ if judged.computing_time => "unknown",
        Verdict::Holds => "holds",
        Verdict::InPart => "part",
        Verdict::DoesNot => "not",
        Verdict::Unknown => "unknown",
    }
}

fn verdicts(parts: &[IndexPart]) -> Markup {
    html! {
        table.verdicts {
            thead { tr {
                th { "where" } th { "claim" } th { (claimed_in(papers(parts))) } th { "ours" } th { "verdict" } th { "why we think so" }
            } }
            tbody {
                @for part in parts { @for (at, judged) in part.judged.iter().enumerate() {
                    tr {
                        td {
                            @if at == 0 {
                                a href={ "#" (part.id) } { (part.paper.name()) " " (part.number) }
                                (mark(part, parts))
                            }
                        }
                        (cells(judged))
                    }
                } }
            }
        }
    }
}

fn cells(judged: &JudgedClaim) -> Markup {
    html! {
        td { (judged.says) }
        td { (judged.paper) }
        td { (judged.ours) }
        td class=(class(judged)) { (judged.verdict_text()) }
        td { (judged.why.as_deref().unwrap_or_default()) }
    }
}

/// The section about an experiment.
pub(crate) fn section(done: &ExperimentResult) -> Markup {
    let experiment = &done.experiment;
    let id = experiment.id();
    html! {
        section id=(id) {
            h2 { (experiment.paper.name()) ", " (experiment.number) ": " (experiment.title) }
            p.small {
                (experiment.paper.citation())
                @if experiment.paper.is_published() { ". Ours: " (experiment.basis.says()) }
                ". "
                @match done.scale { Scale::Quick => "Quick run", Scale::Full => "Full run" }
                @if let Some(file) = &done.file { " on " code { (file.display()) } }
                "."
            }
            @if let Some(note) = &experiment.note { p { (note) } }
            @for (title, name) in &done.pictures {
                figure {
                    img src=(name) alt={ (experiment.number) ": " (title) };
                    figcaption { (title) }
                }
            }
            @if done.points.len() <= MOST_ROWS || done.pictures.is_empty() { (table(done)) }
            @for (at, ranked) in done.ranked.iter().enumerate() { (ranking(done, at, ranked)) }
            table.claims {
                thead { tr {
                    th { "claim" } th { (claimed(std::slice::from_ref(done))) } th { "ours" } th { "verdict" } th { "why we think so" }
                } }
                tbody { @for judged in &done.judged { tr { (cells(judged)) } } }
            }
            (set_up(done))
            @for note in &done.notes { p.small { "Note: " (note) } }
            p.small {
                "Data: " a href={ (id) ".csv" } { (id) ".csv" }
                @if done.has_moments {
                    ", " a href={ (id) "-over-time.csv" } { (id) "-over-time.csv" }
                }
                ". Again: " code { (done.rerun) }
            }
        }
    }
}

fn ranking(done: &ExperimentResult, at: usize, ranked: &RankingTable) -> Markup {
    let file = super::files::ranking_file(done.experiment.id(), at, done.ranked.len());
    html! {
        table.points {
            caption {
                (ranked.title.as_deref().unwrap_or(&done.experiment.title))
                " (" a href=(file) { (file) } ")"
            }
            thead { tr { @for head in ranked.heads() { th { (head) } } } }
            tbody { @for cells in ranked.cells() { tr { @for cell in cells { td { (cell) } } } } }
        }
    }
}

/// What was run.
fn set_up(done: &ExperimentResult) -> Markup {
    html! {
        details {
            summary { "What was run" }
            dl {
                @for (name, spec) in workloads(done).into_iter().chain(policies(done)) {
                    dt { (name) } dd { code { (spec) } }
                }
                @for (name, value) in settings(done) { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// The names of the workloads, and what generates or records them.
fn workloads(done: &ExperimentResult) -> Vec<(String, String)> {
    let workloads = done.experiment.workloads.0.iter();
    workloads
        .filter_map(|(name, workload): &(String, toml::Spanned<Workload>)| {
            let trace = workload.get_ref().at(done.scale)?;
            let limit = trace
                .limit
                .map(|limit| format!(", its first {limit} references"));
            let parts: Vec<&str> = trace.parts().collect();
            Some((
                name.clone(),
                format!("{}{}", parts.join(", then "), limit.unwrap_or_default()),
            ))
        })
        .collect()
}

/// The names of the policies, and their specifications.
fn policies(done: &ExperimentResult) -> Vec<(String, String)> {
    let policies = done.experiment.policies.0.iter();
    let specified = policies.map(|(name, contender)| {
        let spec = match contender.get_ref() {
            Contender::Policy(spec) => spec.clone(),
            Contender::Group(chosen) => {
                let which = match (&chosen.best_of, &chosen.worst_of) {
                    (Some(_), _) => "the best of",
                    (None, Some(_)) => "the worst of",
                    (None, None) => "each of",
                };
                let values = chosen.values().join(", ");
                format!(
                    "{which} {} with {values}",
                    chosen.template().unwrap_or_default()
                )
            }
        };
        (name.clone(), spec)
    });
    specified.collect()
}

/// What is the same for all points, what varies, and the seeds.
fn settings(done: &ExperimentResult) -> Vec<(String, String)> {
    let experiment = &done.experiment;
    let settings = super::format::Setting::KEYS.iter().filter_map(|key| {
        let value = experiment.setting(key, done.scale)?;
        let varies = experiment.vary.get(key).is_some();
        (!varies).then(|| (key.to_string(), value.to_string()))
    });
    let varied = experiment.varied(done.scale).map(|(name, values)| {
        let values: Vec<&str> = values.iter().map(|text| text.0.as_str()).collect();
        (name.to_string(), values.join(", "))
    });
    let seeds: Vec<&str> = experiment
        .seeds(done.scale)
        .iter()
        .map(|Text(seed)| seed.as_str())
        .collect();
    let seeds = (!seeds.is_empty()).then(|| ("seeds".to_string(), seeds.join(", ")));
    settings.chain(varied).chain(seeds).collect()
}

/// The points, with the metrics that the experiment is about.
fn table(done: &ExperimentResult) -> Markup {
    let experiment = &done.experiment;
    let mut metrics: Vec<Metric> = vec![experiment.metric];
    let claimed = experiment.claims().filter_map(|claim| claim.metric);
    let drawn = experiment.figures().filter_map(|figure| figure.y);
    for metric in claimed.chain(drawn) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let measured = data::metrics(&done.points);
    metrics.retain(|metric| measured.contains(metric));
    let dimensions = experiment.dimensions();
    let value = |point: &Point, metric: Metric| {
        point
            .value(metric)
            .map_or_else(String::new, |value| match value.fract() == 0.0 {
                true => value.to_string(),
                false => seeds::value_text(value, point.half_width(metric), ""),
            })
    };
    html! {
        div.scroll { table.points {
            thead { tr {
                @for name in &dimensions { th { (name) } }
                th { "policy" }
                @for metric in &metrics { th { (metric.label()) } }
            } }
            tbody { @for point in &done.points { tr {
                @for name in &dimensions { td { (point.get(name).unwrap_or_default()) } }
                td {
                    (point.policy)
                    @if let Some(chosen) = &point.chosen { " (" (chosen) ")" }
                }
                @for metric in &metrics { td.number { (value(point, *metric)) } }
            } } }
        } }
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
            let row = [
                format!("`{}`{}", part.id, cell(&mark(part, parts))),
                cell(&judged.says),
                cell(&judged.paper),
                cell(&judged.ours),
                judged.verdict_text(),
                cell(judged.why.as_deref().unwrap_or_default()),
            ];
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    for ranked in parts.iter().flat_map(|part| &part.rankings) {
        let heads: Vec<String> = ranked.heads.iter().map(|head| cell(head)).collect();
        let rule = vec!["---"; heads.len()].join(" | ");
        text.push_str(&format!(
            "\n{}\n\n| {} |\n| {rule} |\n",
            cell(&ranked.heading),
            heads.join(" | ")
        ));
        for cells in &ranked.cells {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text
}
