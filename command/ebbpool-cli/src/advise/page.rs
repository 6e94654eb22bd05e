//! An advice as a page on the terminal.

use std::fmt::Write;

use ebbpool_lab::advise::{Advice, AdviceNote, AdviceTable, NoteKind};

use super::commands::CommandLine;
use crate::table::{add_row, finish, plain};

/// Columns of the page.
const WIDTH: usize = 100;

/// The length of the longest bar.
const BAR: usize = 14;

/// Bars that fill 1/8, … 7/8 of a character.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

pub(super) fn of_advice(advice: &Advice, commands: &[CommandLine]) -> String {
    let mut text = format!("{}\n", advice.title());
    for paragraph in advice.paragraphs() {
        let _ = writeln!(text, "\n{}", paragraph.title);
        let hints: Vec<&str> = match paragraph.title {
            "Answer" => vec![""; paragraph.sentences.len()],
            "Warnings" => advice.warnings.iter().map(hint).collect(),
            _ => Vec::new(),
        };
        for (at, sentence) in paragraph.sentences.iter().enumerate() {
            let hint = hints.get(at).copied().unwrap_or_default();
            text += &wrapped(&format!("{sentence}{hint}"), "  ");
        }
        if let Some(table) = &paragraph.table {
            let bars = match paragraph.title {
                "Memory" => bars(advice),
                _ => Vec::new(),
            };
            text += &of_table(table, &bars);
        }
        if paragraph.title == "Answer" && !advice.assumptions.is_empty() {
            let options: Vec<&str> = advice.assumptions.iter().map(option).collect();
            text += &wrapped(&format!("Say otherwise with {}", options.join(", ")), "  ");
        }
    }
    text += "\nCommands that have these figures\n";
    for line in commands {
        // A command is not wrapped, so that it can be copied.
        let _ = writeln!(text, "  {}:\n    {}", line.about, line.command);
    }
    text
}

/// The option that settles a warning.
pub(super) fn hint(note: &AdviceNote) -> &'static str {
    match note.kind {
        NoteKind::NoClock => " (--duration, --rate or --writes-per-day say it)",
        NoteKind::NoPageSize => " (--page-size says it)",
        NoteKind::ColdStart => " (--warmup)",
        NoteKind::HoldsAllPages => " (--frames)",
        NoteKind::LessMemory => " (--memory-budget)",
        _ => "",
    }
}

/// The option that replaces an assumption.
fn option(note: &AdviceNote) -> &'static str {
    match note.kind {
        NoteKind::Policy => "--now",
        NoteKind::Checkpoints => "--duration or --rate",
        NoteKind::Frames => "--frames",
        NoteKind::Asymmetry => "--device or --asymmetry",
        _ => "",
    }
}

fn wrapped(text: &str, indent: &str) -> String {
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(WIDTH).initial_indent(indent).subsequent_indent(&further).break_words(false);
    textwrap::fill(text, options) + "\n"
}

/// A bar for each point of the curve: the smallest bill at its size, against the largest of these.
fn bars(advice: &Advice) -> Vec<String> {
    let bills = advice.curve.iter().map(|point| point.cost);
    let most = bills.fold(0.0, f64::max);
    let bar = |cost: f64| {
        let eighths = match most > 0.0 {
            true => (cost / most * (BAR * 8) as f64).round() as usize,
            false => 0,
        };
        let mut bar = "█".repeat(eighths / 8);
        if let Some(part) = (eighths % 8).checked_sub(1) {
            bar.push(EIGHTHS[part]);
        }
        bar
    };
    let marked = advice.curve.iter().map(|point| {
        let mark = match point.frames {
            frames if frames == advice.now.frames && frames == advice.then.frames => " now and then",
            frames if frames == advice.then.frames => " then",
            frames if frames == advice.now.frames => " now",
            _ => "",
        };
        format!("{}{mark}", bar(point.cost))
    });
    marked.collect()
}

/// A table, with a text behind each row.
fn of_table(content: &AdviceTable, behind: &[String]) -> String {
    let mut table = plain();
    add_row(&mut table, content.header.clone());
    for row in &content.rows {
        add_row(&mut table, row.clone());
    }
    let lines = finish(table);
    let mut text = String::new();
    for (at, line) in lines.lines().enumerate() {
        let behind = at.checked_sub(1).and_then(|row| behind.get(row));
        let line = match behind {
            Some(behind) => format!("  {line}  {behind}"),
            None => format!("  {line}"),
        };
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
