//! A comparison as tables for a text in Markdown or LaTeX.

use ebbpool_lab::Comparison;
use ebbpool_lab::advice::Answer;
use ebbpool_lab::several::Summary;
use ebbpool_lab::trace_set::TraceGroup;

use super::several::{PriceCell, price_tables, units};

/// The language of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// Tables of vertical bars.
    Markdown,
    /// Tables in the manner of the package booktabs, and sentences as comments: a text can contain the whole by `\\input`.
    Latex,
}

/// All tables, each with what it shows.
pub(crate) fn of_comparisons(markup: Markup, comparisons: &[Comparison], groups: &[TraceGroup]) -> String {
    let (mut text, mut tables) = (String::new(), 0);
    if markup == Markup::Latex {
        text += "% needs \\usepackage{booktabs}\n";
    }
    for group in groups {
        let members = group.members.start..group.members.end.min(comparisons.len());
        let Some(members) = comparisons.get(members).filter(|members| !members.is_empty()) else {
            continue;
        };
        let title = match members {
            [one] => one.title.clone(),
            seeds => format!("{}: {} seeds", group.name, seeds.len()),
        };
        for table in price_tables(members) {
            let caption = format!("{title}; {}; {}", table.label, units(members));
            let heads = std::iter::once(table.label).chain(table.sizes);
            let rows = table.rows.iter().map(|row| {
                let cells = row.cells.iter().map(|cell| bill(markup, cell.as_ref()));
                std::iter::once(markup.escaped(&row.policy)).chain(cells).collect()
            });
            let heads: Vec<String> = heads.map(|head| markup.escaped(&head)).collect();
            tables += 1;
            text += &markup.table((&caption, tables), &heads, rows.collect());
        }
        if let [one] = members {
            text += &markup.sentences(&Answer::new(one).sentences().map(String::from).collect::<Vec<_>>());
        }
    }
    if let Some(summary) = Summary::from_comparisons(comparisons, groups) {
        let escape = |cells: Vec<String>| -> Vec<String> { cells.iter().map(|cell| markup.escaped(cell)).collect() };
        let rows = summary.cells().into_iter().map(escape);
        text += &markup.table(("All traces", tables + 1), &escape(summary.heads()), rows.collect());
        let mut sentences = summary.notes();
        sentences.push(summary.sentence());
        text += &markup.sentences(&sentences);
    }
    text
}

/// A bill with half of its interval and the saving; the least of its column is bold.
fn bill(markup: Markup, cell: Option<&PriceCell>) -> String {
    let Some(cell) = cell else {
        return "-".into();
    };
    let plus_minus = match markup {
        Markup::Markdown => " ± ",
        Markup::Latex => " $\\pm$ ",
    };
    let half = cell.half_width.as_ref().map_or(String::new(), |half| format!("{plus_minus}{half}"));
    let bill = format!("{}{half}", cell.bill);
    let bill = match (cell.is_best, markup) {
        (false, _) => bill,
        (true, Markup::Markdown) => format!("**{bill}**"),
        (true, Markup::Latex) => format!("\\textbf{{{bill}}}"),
    };
    match &cell.saving {
        Some(saving) => format!("{bill} ({saving})"),
        None => bill,
    }
}

impl Markup {
    /// A text in which no character has a meaning of its own.
    fn escaped(self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            match (self, letter) {
                (Markup::Markdown, '|' | '*' | '_' | '\\' | '`' | '<' | '[' | ']' | '$')
                | (Markup::Latex, '%' | '#' | '&' | '_' | '$' | '{' | '}') => {
                    escaped.extend(['\\', letter]);
                }
                (Markup::Latex, '<') => escaped.push_str("\\textless{}"),
                (Markup::Latex, '>') => escaped.push_str("\\textgreater{}"),
                (Markup::Latex, '|') => escaped.push_str("\\textbar{}"),
                (Markup::Latex, '"') => escaped.push_str("''"),
                (Markup::Latex, '\\') => escaped.push_str("\\textbackslash{}"),
                (Markup::Latex, '~') => escaped.push_str("\\textasciitilde{}"),
                (Markup::Latex, '^') => escaped.push_str("\\textasciicircum{}"),
                _ => escaped.push(letter),
            }
        }
        match self {
            Markup::Markdown => escaped,
            // Two hyphens would become a dash.
            Markup::Latex => escaped.replace("--", "-{-}"),
        }
    }

    fn table(self, (title, number): (&str, usize), heads: &[String], rows: Vec<Vec<String>>) -> String {
        let caption = self.escaped(title);
        match self {
            Markup::Markdown => {
                let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
                let rule: Vec<String> =
                    (0..heads.len()).map(|column| if column == 0 { ":---".into() } else { "---:".into() }).collect();
                let rows: String = rows.iter().map(|row| line(row)).collect();
                format!("{caption}\n\n{}{}{rows}\n", line(heads), line(&rule))
            }
            Markup::Latex => {
                let line = |cells: &[String]| format!("    {} \\\\\n", cells.join(" & "));
                let rows: String = rows.iter().map(|row| line(row)).collect();
                // Of the trace, since a text may have the tables of several commands.
                let trace = title.split([':', ';']).next().unwrap_or_default().to_ascii_lowercase();
                let words: Vec<&str> = trace.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                let label = if words.is_empty() { "ebbpool".into() } else { words.join("-") };
                format!(
                    "\\begin{{table}}\n  \\centering\n  \\caption{{{caption}}}\n  \\label{{tab:{label}-{number}}}\n  \\begin{{tabular}}{{l{}}}\n    \\toprule\n{}    \\midrule\n{rows}    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n\n",
                    "r".repeat(heads.len().saturating_sub(1)),
                    line(heads),
                )
            }
        }
    }

    /// Sentences, each on a line of its own.
    fn sentences(self, sentences: &[String]) -> String {
        let line = |sentence: &String| match self {
            Markup::Markdown => format!("{}\n\n", self.escaped(sentence)),
            Markup::Latex => format!("% {}\n", sentence.replace(['\n', '\r'], " ")),
        };
        sentences.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_a_cell_or_a_table() {
        assert_eq!(Markup::Markdown.escaped("a|b_c*"), "a\\|b\\_c\\*");
        assert_eq!(
            Markup::Latex.escaped("50%_{x}\\~^&#$"),
            "50\\%\\_\\{x\\}\\textbackslash{}\\textasciitilde{}\\textasciicircum{}\\&\\#\\$"
        );
    }

    #[test]
    fn tables_have_the_form_of_their_language() {
        let heads = ["policy".to_string(), "3\\%".to_string()];
        let rows = vec![vec!["lru".to_string(), "1.5".to_string()]];
        assert_eq!(
            Markup::Markdown.table(("a", 1), &heads, rows.clone()),
            "a\n\n| policy | 3\\% |\n| :--- | ---: |\n| lru | 1.5 |\n\n"
        );
        let latex = Markup::Latex.table(("a & b", 7), &heads, rows);
        assert!(
            latex.contains("\\caption{a \\& b}") && latex.contains("{tabular}{lr}") && latex.contains("\\label{tab:a-b-7}")
        );
        assert_eq!(Markup::Latex.sentences(&["50 % less".into()]), "% 50 % less\n");
        assert!(latex.contains("    lru & 1.5 \\\\\n"));
    }
}
