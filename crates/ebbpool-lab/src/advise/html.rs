//! An advice as an HTML page of its own, without a script.

use maud::{Markup, html};

use super::{Advice, AdviceTable};
use crate::report::html::{document, style_sheet};

const STYLE: &str = "main { max-width: 60rem; margin: 0 auto; padding: 1rem; } \
    .scroll { overflow-x: auto; } \
    table { border-collapse: collapse; font-variant-numeric: tabular-nums; } \
    th, td { padding: 0.2rem 0.8rem; text-align: right; white-space: nowrap; } \
    th:first-child, td:first-child { text-align: left; padding-left: 0; } \
    code { overflow-wrap: anywhere; }";

/// The page. `commands` are the figures, and the command that has them, as the caller spells it.
pub fn report_page(advice: &Advice, commands: &[(String, String)]) -> String {
    let body = html! {
        main {
            h1 { "Advice" }
            p { (advice.title()) }
            @for paragraph in advice.paragraphs() {
                h2 { (paragraph.title) }
                @for sentence in &paragraph.sentences { p { (sentence) "." } }
                @if let Some(table) = &paragraph.table { (of_table(table)) }
            }
            @if !commands.is_empty() {
                h2 { "Commands that have these figures" }
                dl {
                    @for (about, command) in commands {
                        dt { (about) }
                        dd { code { (command) } }
                    }
                }
            }
        }
    };
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    document("Ebbpool advice", Some(policy), &style_sheet(STYLE), body)
}

fn of_table(table: &AdviceTable) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for name in &table.header { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for cell in row { td { (cell) } } }
                    }
                }
            }
        }
    }
}
