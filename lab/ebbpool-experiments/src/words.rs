//! Words of the pages, and the class of a verdict.

use maud::{Markup, html};

use super::done::ExperimentResult;
use super::format::Paper;
use super::verdict::{CountedApart, JudgedClaim, Verdict};

/// The name of the column with the figures that a claim states.
pub fn claimed(all: &[ExperimentResult]) -> &'static str {
    claimed_in(all.iter().map(|done| done.experiment.paper))
}

pub(crate) fn claimed_in(mut papers: impl Iterator<Item = Paper>) -> &'static str {
    match papers.all(Paper::is_published) {
        true => "paper",
        false => "claimed",
    }
}

/// What the page shows as verdicts, and in words how many claims have them. Those that are counted apart are apart.
pub(crate) const CLASSES: [(&str, &str); 8] = [
    ("holds", "hold"),
    ("part", "hold in part"),
    ("not", "do not hold"),
    ("unknown", "cannot be judged"),
    ("circular", "are circular"),
    ("unclaimed", "are not claimed by a paper"),
    ("repeated", "repeat another paper's"),
    ("varies", "vary with computing time"),
];

/// The class of a claim in [`CLASSES`].
pub(crate) fn class(judged: &JudgedClaim) -> &'static str {
    if let Some(why) = judged.counted_apart() {
        return match why {
            CountedApart::Circular => "circular",
            CountedApart::Unclaimed => "unclaimed",
            CountedApart::Repeated => "repeated",
            CountedApart::ComputingTime => "varies",
        };
    }
    match judged.verdict {
        Verdict::Holds => "holds",
        Verdict::InPart => "part",
        Verdict::DoesNot => "not",
        Verdict::Unknown => "unknown",
    }
}

/// A text of an experiment, with what is between backticks as code.
pub(crate) fn prose(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // A backtick without a second one stands for itself.
    let (paired, rest) = match pieces.len() % 2 {
        1 => (pieces.as_slice(), None),
        _ => {
            let last = text.rfind('`').map(|at| &text[at..]);
            (&pieces[..pieces.len() - 1], last)
        }
    };
    html! {
        @for (at, piece) in paired.iter().enumerate() {
            @if at % 2 == 1 { code { (breakable(piece)) } } @else { (breakable(piece)) }
        }
        @if let Some(rest) = rest { (breakable(rest)) }
    }
}

/// A text whose long words, such as a device with its parameters, may break after their commas, and whose per cent
/// signs stay with their numbers.
fn breakable(text: &str) -> Markup {
    const LONGEST: usize = 24;
    let text = &text.replace(" %", "\u{a0}%");
    let words = text.split_inclusive(' ').map(|word| {
        let pieces: Vec<&str> = match word.len() > LONGEST {
            true => word.split_inclusive(',').collect(),
            false => vec![word],
        };
        pieces
    });
    html! {
        @for pieces in words {
            @for (at, piece) in pieces.iter().enumerate() { @if at > 0 { wbr; } (piece) }
        }
    }
}
