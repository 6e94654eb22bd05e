//! The section of the page about an experiment: its figures, and beside them its claims.

use ebbpool_lab::report::chart::in_page;
use maud::{Markup, PreEscaped, html};

use super::data;
use super::done::{DrawnFigure, ExperimentResult, ranking_file};
use super::format::{Contender, Experiment, Scale, Workload};
use super::metric::Metric;
use super::ordered::Text;
use super::point::Point;
use super::ranking::RankingTable;
use super::seeds;
use super::verdict::GuestFinding;
use super::words::{claimed, class, prose};

/// Points beyond which a table says less than the figure.
const MOST_ROWS: usize = 40;

/// The widths of a figure in the page, in pixels; the style sheet shows the one that the page has room for.
const BROAD: u32 = 760;
const NARROW: u32 = 372;

/// The section about an experiment.
pub(crate) fn section(done: &ExperimentResult) -> Markup {
    let experiment = &done.experiment;
    let id = experiment.id();
    let has_figures = !done.figures.is_empty();
    html! {
        section id=(id) data-paper=(experiment.paper.key()) {
            h2 {
                span.source { (experiment.paper.name()) ", " (experiment.number) }
                " " (prose(&experiment.title))
            }
            @if let Some(note) = &experiment.note { p.note { (prose(note)) } }
            div.pair {
                div.figures {
                    @for figure in &done.figures { (drawn(figure, experiment)) }
                    @if done.points.len() <= MOST_ROWS || !has_figures {
                        details open[!has_figures] {
                            summary { "The numbers" }
                            (table(done))
                        }
                    }
                    @for (at, ranked) in done.ranked.iter().enumerate() { (ranking(done, at, ranked)) }
                }
                div.judged {
                    (claims(done))
                    @for note in &done.notes { p.small { "Note: " (prose(note)) } }
                    (set_up(done))
                    (origin(done))
                }
            }
        }
    }
}

/// A figure at both widths, and its files. A caption that repeats the experiment's title is for screen readers only.
fn drawn(figure: &DrawnFigure, experiment: &Experiment) -> Markup {
    let (id, title) = (experiment.id(), &experiment.title);
    // No text can end the script's element.
    let csv = figure.csv.replace('<', "\u{2039}");
    html! {
        figure {
            figcaption.unseen[figure.title == *title] { (prose(&figure.title)) }
            div.broad { (in_page(&figure.picture, BROAD)) }
            div.narrow { (in_page(&figure.picture, NARROW)) }
            script type="text/csv" { (PreEscaped(csv)) }
            p.files {
                a href=(figure.file) download { (figure.file) }
                " " a href={ (id) ".csv" } download { (id) ".csv" }
            }
        }
    }
}

fn claims(done: &ExperimentResult) -> Markup {
    let claimed = claimed(std::slice::from_ref(done));
    html! {
        @if !done.judged.is_empty() { ul.claims aria-label="Claims" {
            @for judged in &done.judged {
                li data-verdict=(class(judged)) {
                    p { span.verdict.(class(judged)) { (judged.verdict_text()) } " " (prose(&judged.says)) }
                    dl {
                        div { dt { (claimed) } dd { (prose(&judged.paper)) } }
                        div { dt { "ours" } dd { (prose(&judged.ours)) } }
                    }
                    @for reason in judged.all_reasons() { p.why { (prose(&reason)) } }
                    @for guest in &judged.guests {
                        p.small { (prose(&guest.claim_place_text())) ": " (prose(&guest.ours)) "; " (GuestFinding::NO_VERDICT) "." }
                    }
                }
            }
        } }
    }
}

/// Where the experiment is from, how our figures compare with the paper's, and how to run it again.
fn origin(done: &ExperimentResult) -> Markup {
    let experiment = &done.experiment;
    let id = experiment.id();
    html! {
        p.small {
            (experiment.paper.citation())
            @if experiment.paper.is_published() { ". Ours: " (experiment.basis.says()) }
            ". "
            @match done.scale { Scale::Quick => "Quick run", Scale::Full => "Full run" }
            @if let Some(file) = &done.file { " on " code { (file.display()) } }
            "."
        }
        p.small {
            "Data: " a href={ (id) ".csv" } { (id) ".csv" }
            @if done.has_moments {
                ", " a href={ (id) "-over-time.csv" } { (id) "-over-time.csv" }
            }
            ". Again: " code { (done.rerun) }
        }
    }
}

fn ranking(done: &ExperimentResult, at: usize, ranked: &RankingTable) -> Markup {
    let file = ranking_file(done.experiment.id(), at, done.ranked.len());
    html! {
        h3 {
            (prose(ranked.title.as_deref().unwrap_or(&done.experiment.title)))
            " " a.small href=(file) download { (file) }
        }
        div.scroll tabindex="0" { table.points {
            thead { tr { @for head in ranked.heads() { th { (head) } } } }
            tbody { @for cells in ranked.cells() { tr { @for cell in cells { td { (cell) } } } } }
        } }
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
            let limit = trace.limit.map(|limit| format!(", its first {limit} references"));
            let parts: Vec<&str> = trace.parts().collect();
            Some((name.clone(), format!("{}{}", parts.join(", then "), limit.unwrap_or_default())))
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
                format!("{which} {} with {values}", chosen.template().unwrap_or_default())
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
    let seeds: Vec<&str> = experiment.seeds(done.scale).iter().map(|Text(seed)| seed.as_str()).collect();
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
    let mut dimensions = experiment.dimensions();
    let has_values = |name: &&str| {
        let mut points = done.points.iter();
        points.any(|point| point.get(name).is_some_and(|value| !value.is_empty()))
    };
    dimensions.retain(has_values);
    let value = |point: &Point, metric: Metric| {
        point.value(metric).map_or_else(String::new, |value| match value.fract() == 0.0 {
            true => value.to_string(),
            false => seeds::value_text(value, point.half_width(metric), ""),
        })
    };
    html! {
        div.scroll tabindex="0" { table.points {
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
