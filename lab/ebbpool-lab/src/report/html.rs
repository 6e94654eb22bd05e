//! What the pages of the report and of the experiments have in common.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart;

const BASE: &str = include_str!("base.css");

/// A style sheet: the colours, what all pages share, and a page's own rules.
pub fn style_sheet(own: &str) -> String {
    [&chart::properties(), BASE, own].concat()
}

/// A page. `policy` is a Content-Security-Policy.
pub fn document(title: &str, policy: Option<&str>, style: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if let Some(policy) = policy {
                    meta http-equiv="Content-Security-Policy" content=(policy);
                }
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
