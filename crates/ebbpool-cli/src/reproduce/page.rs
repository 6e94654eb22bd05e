//! The report: verdicts first, then each table and figure.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Reproduced;
use super::data;
use super::format::{Contender, Workload};
use super::metric::Metric;
use super::point::Point;
use super::verdict::{Judged, Verdict, number};

const STYLE: &str = include_str!("page.css");

/// Points beyond which a table says less than the figure.
const MOST_ROWS: usize = 40;

/// The page.
pub(crate) fn index(all: &[Reproduced]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "The papers, reproduced" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The papers, reproduced" }
                p { (summary(all)) }
                (verdicts(all))
                @for done in all { (section(done)) }
            }
        }
    };
    page.into_string()
}

/// How many claims came to what.
pub(crate) fn summary(all: &[Reproduced]) -> String {
    let count = |verdict: Verdict| {
        let judged = all.iter().flat_map(|done| &done.judged);
        judged.filter(|judged| judged.verdict == verdict).count()
    };
    let [holds, part, not, unknown] = [
        Verdict::Holds,
        Verdict::InPart,
        Verdict::DoesNot,
        Verdict::Unknown,
    ]
    .map(count);
    let scale = all.first().map_or("quick", |done| done.scale.name());
    let rest = match unknown {
        0 => String::new(),
        unknown => format!(", {unknown} cannot be judged"),
    };
    format!(
        "{} claims of {} tables and figures, {scale} runs: {holds} hold, {part} hold in part, {not} do not{rest}.",
        holds + part + not + unknown,
        all.len()
    )
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::InPart => "part",
        Verdict::DoesNot => "not",
        Verdict::Unknown => "unknown",
    }
}

fn verdicts(all: &[Reproduced]) -> Markup {
    html! {
        table.verdicts {
            thead { tr {
                th { "where" } th { "claim" } th { "paper" } th { "ours" } th { "verdict" } th { "why we think so" }
            } }
            tbody {
                @for done in all { @for (at, judged) in done.judged.iter().enumerate() {
                    tr {
                        td {
                            @if at == 0 {
                                a href={ "#" (done.experiment.id()) } {
                                    (done.experiment.paper.name()) " " (done.experiment.number)
                                }
                            }
                        }
                        (cells(judged))
                    }
                } }
            }
        }
    }
}

fn cells(judged: &Judged) -> Markup {
    html! {
        td { (judged.says) }
        td { (judged.paper) }
        td { (judged.ours) }
        td class=(class(judged.verdict)) { (judged.verdict.says()) }
        td { (judged.why.as_deref().unwrap_or_default()) }
    }
}

fn section(done: &Reproduced) -> Markup {
    let experiment = &done.experiment;
    let id = experiment.id();
    html! {
        section id=(id) {
            h2 { (experiment.paper.name()) ", " (experiment.number) ": " (experiment.title) }
            p.small {
                (experiment.paper.citation()) ". Ours: " (experiment.basis.says()) "."
            }
            @if let Some(note) = &experiment.note { p { (note) } }
            @for (title, name) in &done.pictures {
                figure {
                    img src=(name) alt={ (experiment.number) ": " (title) };
                    figcaption { (title) }
                }
            }
            @if done.points.len() <= MOST_ROWS || done.pictures.is_empty() { (table(done)) }
            table.claims {
                thead { tr {
                    th { "claim" } th { "paper" } th { "ours" } th { "verdict" } th { "why we think so" }
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
                ". Again: " code { (done.command()) }
            }
        }
    }
}

/// What was run.
fn set_up(done: &Reproduced) -> Markup {
    let experiment = &done.experiment;
    let workloads: Vec<(String, String)> = experiment
        .workloads
        .0
        .iter()
        .filter_map(|(name, workload): &(String, toml::Spanned<Workload>)| {
            let trace = workload.get_ref().at(done.scale)?;
            let limit = trace
                .limit
                .map(|limit| format!(", its first {limit} references"));
            Some((
                name.clone(),
                format!("{}{}", trace.spec, limit.unwrap_or_default()),
            ))
        })
        .collect();
    let policies = experiment.policies.0.iter().map(|(name, contender)| {
        let spec = match contender.get_ref() {
            Contender::Policy(spec) => spec.clone(),
            Contender::Chosen(chosen) => match (&chosen.best_of, &chosen.worst_of) {
                (Some(best), _) => format!("the best of {best}"),
                (None, worst) => format!("the worst of {}", worst.as_deref().unwrap_or_default()),
            },
        };
        (name.clone(), spec)
    });
    let settings = super::format::Setting::KEYS.iter().filter_map(|key| {
        let told = experiment.setting(key, done.scale)?;
        let varies = experiment.vary.get(key).is_some();
        (!varies).then(|| (key.to_string(), told.to_string()))
    });
    let varied = experiment.varied(done.scale).map(|(name, values)| {
        let values: Vec<&str> = values.iter().map(|text| text.0.as_str()).collect();
        (name.to_string(), values.join(", "))
    });
    html! {
        details {
            summary { "What was run" }
            dl {
                @for (name, spec) in workloads { dt { (name) } dd { code { (spec) } } }
                @for (name, spec) in policies { dt { (name) } dd { code { (spec) } } }
                @for (name, value) in settings.chain(varied) { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// The points with what the experiment is about.
fn table(done: &Reproduced) -> Markup {
    let experiment = &done.experiment;
    let mut wanted: Vec<Metric> = vec![experiment.metric];
    let claimed = experiment.claims().filter_map(|claim| claim.metric);
    let drawn = experiment.figures().filter_map(|figure| figure.y);
    for metric in claimed.chain(drawn) {
        if !wanted.contains(&metric) {
            wanted.push(metric);
        }
    }
    let known = data::metrics(&done.points);
    wanted.retain(|metric| known.contains(metric));
    let dimensions = experiment.dimensions();
    let value = |point: &Point, metric: Metric| {
        point
            .value(metric)
            .map_or_else(String::new, |value| match value.fract() == 0.0 {
                true => value.to_string(),
                false => number(value),
            })
    };
    html! {
        table.points {
            thead { tr {
                @for name in &dimensions { th { (name) } }
                th { "policy" }
                @for metric in &wanted { th { (metric.label()) } }
            } }
            tbody { @for point in &done.points { tr {
                @for name in &dimensions { td { (point.get(name).unwrap_or_default()) } }
                td {
                    (point.policy)
                    @if let Some(chosen) = &point.chosen { " (" (chosen) ")" }
                }
                @for metric in &wanted { td.number { (value(point, *metric)) } }
            } } }
        }
    }
}

/// The verdicts as a table in Markdown.
pub(crate) fn markdown(all: &[Reproduced]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
    let mut text = format!(
        "{}\n\n| where | claim | paper | ours | verdict | why we think so |\n| --- | --- | --- | --- | --- | --- |\n",
        summary(all)
    );
    for done in all {
        for judged in &done.judged {
            let row = [
                format!("`{}`", done.experiment.id()),
                cell(&judged.says),
                cell(&judged.paper),
                cell(&judged.ours),
                judged.verdict.says().into(),
                cell(judged.why.as_deref().unwrap_or_default()),
            ];
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    text
}
