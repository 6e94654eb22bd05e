//! An advice as an HTML page of its own, in the look of the report. Nothing is loaded; the script only gives the chart its tools.

mod memory;

use maud::{Markup, PreEscaped, html};

use super::paragraphs::{change, daily, lives, setting};
use super::{Advice, AdviceParagraph, AdviceTable, SystemLoad};
use crate::money::dollars;
use crate::numbers::{decimals, digits, rounded};
use crate::report::html::{document, style_sheet};
use crate::report::{self, ReportOptions, chart, figure_tools};

const STYLE: &str = include_str!("html/page.css");

/// What the page says below the answer.
const COUNTED: &str = "A reference to a page that is not in memory is one page read, but for a write of the whole page. A \
    dirty page that leaves memory, or is dirty at the end, is one page write. The bill is (reads + R × writes) / references.";

/// What a page has besides the advice.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdvicePageParts {
    /// The figures of the advice in a few words, and the command that has them.
    pub commands: Vec<(String, String)>,
    /// Behind each warning, how the caller's user settles it; may be empty, or have fewer entries.
    pub hints: Vec<String>,
    /// The command, the date and the version.
    pub origin: ReportOptions,
}

/// The advice as one HTML page that loads nothing.
pub fn report_page(advice: &Advice, parts: &AdvicePageParts) -> String {
    let (_, script) = figure_tools();
    let style = [report::STYLE, &chart::figure_colours(), STYLE].concat();
    let style = style_sheet(&style);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src blob:; base-uri 'none'; form-action 'none'",
        report::hash(script),
        report::hash(&style)
    );
    let body = html! {
        header.top { h1 { "Ebbpool " span { "advice" } } }
        main.advice {
            (answer(advice))
            (tiles(advice))
            (warnings(advice, &parts.hints))
            @for paragraph in advice.paragraphs() {
                @if !matches!(paragraph.title, "Answer" | "Warnings") { (section(advice, &paragraph)) }
            }
            (commands(&parts.commands))
        }
        footer.advice {
            (parts.origin.markup())
            p { (COUNTED) }
        }
        script { (PreEscaped(script)) }
    };
    let title = format!("Advice on {} - Ebbpool", advice.trace);
    document(&title, Some(&policy), &style, body)
}

/// The first card: the answer, and what it is about.
fn answer(advice: &Advice) -> Markup {
    let all = advice.paragraphs().into_iter();
    let sentences = all.filter(|it| it.title == "Answer").flat_map(|it| it.sentences);
    // They are a list of their own on the page.
    let sentences = sentences.filter(|it| advice.assumptions.is_empty() || !it.starts_with("Assumed: "));
    html! {
        section.trace {
            p.kicker { (advice.title()) }
            @for (at, sentence) in sentences.enumerate() {
                p.answer.further[at > 0] { (sentence) "." }
            }
            @if !advice.assumptions.is_empty() {
                h3 { "Assumed" }
                ul.assumed { @for note in &advice.assumptions { li { (note.text) } } }
            }
            dl.facts {
                @for (name, value) in facts(advice) { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

fn facts(advice: &Advice) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(server) = advice.server.name() {
        facts.push(("server", server.to_string()));
    }
    if advice.keeps_policy && advice.then.frames != advice.now.frames {
        let [now, then] = [&advice.now, &advice.then].map(|load| setting(advice, load.frames));
        facts.push(("then", format!("{} = {then}, now {now}", advice.server.size_setting())));
    }
    if let Some(device) = &advice.device {
        facts.push(("device", device.clone()));
    }
    facts.push(("R", rounded(advice.asymmetry.0)));
    if let Some(rate) = advice.arrivals {
        let rate = decimals(rate.references_per_second, 0);
        facts.push(("arrivals", format!("{rate} references a second")));
    }
    if let Some(page_size) = advice.page_size {
        facts.push(("page", ebbpool_cost::ByteSize::new(page_size).to_string()));
    }
    facts
}

/// A figure of the present system and of the recommended one, in words.
struct Tile {
    name: String,
    now: String,
    then: String,
    change: Option<String>,
}

/// A card for each figure that the system has now and then.
fn tiles(advice: &Advice) -> Markup {
    let tiles = figures(advice);
    html! {
        div.tiles {
            @for tile in tiles {
                section.tile {
                    h2 { (tile.name) }
                    p.then { (tile.then) }
                    p.now { "now " (tile.now) @if let Some(change) = &tile.change { ": " (change) } }
                }
            }
        }
    }
}

fn figures(advice: &Advice) -> Vec<Tile> {
    let (now, then) = (&advice.now, &advice.then);
    let both = |figure: fn(&SystemLoad) -> Option<f64>| Some((figure(now)?, figure(then)?));
    let tile = |name: &str, (now, then): (f64, f64), text: fn(f64) -> String| Tile {
        name: name.into(),
        now: text(now),
        then: text(then),
        change: Some(change(then, now)),
    };
    let mut tiles = vec![tile("bill per reference, in page reads", (now.cost, then.cost), digits)];
    let per_second = |it: f64| decimals(it, if it < 10.0 { 2 } else { 0 });
    let figure = |name: &str, second: fn(&SystemLoad) -> Option<f64>, reference: fn(&SystemLoad) -> f64| match both(second) {
        Some(values) => tile(&format!("{name} a second"), values, per_second),
        None => tile(&format!("{name} a reference"), (reference(now), reference(then)), |it| decimals(it, 4)),
    };
    tiles.push(figure("page reads", |it| it.reads_per_second, |it| it.reads_per_reference));
    tiles.push(figure("page writes", |it| it.writes_per_second, |it| it.writes_per_reference));
    if let Some(values) = both(|it| it.bytes_written_per_day) {
        tiles.push(tile("written a day", values, daily));
    }
    if now.life_years.is_some() || then.life_years.is_some() {
        tiles.push(Tile { name: "life of the device".into(), now: lives(now.life()), then: lives(then.life()), change: None });
    }
    if let Some(values) = both(|it| it.dollars_per_month) {
        tiles.push(tile("$ a month", values, dollars));
    }
    tiles
}

fn warnings(advice: &Advice, hints: &[String]) -> Markup {
    html! {
        @if !advice.warnings.is_empty() {
            section.trace.warnings {
                h2 { "Warnings" }
                @for (at, note) in advice.warnings.iter().enumerate() {
                    p.note role="note" { (note.text) (hints.get(at).map_or("", String::as_str)) "." }
                }
            }
        }
    }
}

fn section(advice: &Advice, paragraph: &AdviceParagraph) -> Markup {
    let is_memory = paragraph.title == "Memory";
    html! {
        section.trace {
            h2 { (paragraph.title) }
            @for sentence in &paragraph.sentences { p { (sentence) "." } }
            @if is_memory { (memory::figure(advice)) }
            @if let Some(table) = &paragraph.table {
                (of_table(table, &if is_memory { memory::marks(advice) } else { Vec::new() }))
            }
        }
    }
}

/// A table, with a word behind the first cell of some rows. On a narrow screen each row is a list, so that nothing is cut.
fn of_table(table: &AdviceTable, marks: &[Option<&str>]) -> Markup {
    html! {
        table.stack {
            thead { tr { @for name in &table.header { th scope="col" { (name) } } } }
            tbody {
                @for (row, cells) in table.rows.iter().enumerate() {
                    tr {
                        @for (column, cell) in cells.iter().enumerate() {
                            @let label = table.header.get(column).map_or("", String::as_str);
                            @match column {
                                0 => th scope="row" data-label=(label) {
                                    span { (cell) @if let Some(Some(mark)) = marks.get(row) { " " b.mark { (mark) } } }
                                },
                                _ => td data-label=(label) { span { (cell) } },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The commands. Lines break between their words only, so that an option is never cut.
fn commands(commands: &[(String, String)]) -> Markup {
    html! {
        @if !commands.is_empty() {
            section.trace {
                h2 { "Commands that have these figures" }
                dl.commands {
                    @for (about, command) in commands {
                        dt { (about) }
                        dd { code { @for word in command.split(' ') { span { (word) } " " } } }
                    }
                }
            }
        }
    }
}
