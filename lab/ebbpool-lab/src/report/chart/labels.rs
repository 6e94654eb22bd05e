//! The texts along the x axis of a picture, placed so that none lies over another.

use super::axes::Scale;
use super::layout::LAYOUT;
use super::picture::Tick;
use super::text::{width, wrapped};

/// Between the texts of two ticks.
const GAP: f64 = 8.0;
/// Lines of a name below its tick.
const MOST_LINES: usize = 3;
/// Lines of a name that runs upwards, beside each other, and the length of the longest.
const MOST_TURNED_LINES: usize = 2;
const TURNED: f64 = 110.0;
/// Rows of numbers that have no room in one.
const ROWS: usize = 3;

/// Letters that stand for names that have no room below their ticks. A name has the same letter in all panels of a
/// picture.
#[derive(Debug, Default)]
pub(super) struct Keys {
    names: Vec<String>,
}

impl Keys {
    /// The letter of a name: A, B and so on, AA after Z.
    fn letter(&mut self, name: &str) -> String {
        let found = self.names.iter().position(|other| other == name);
        let index = found.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        letter(index)
    }

    /// The letters and the names for which they stand.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, &str)> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| (letter(index), name.as_str()))
    }
}

fn letter(index: usize) -> String {
    let last = char::from(b'A' + (index % 26) as u8);
    match index / 26 {
        0 => last.into(),
        before => format!("{}{last}", letter(before - 1)),
    }
}

/// The texts along an x axis.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) lines: Vec<LabelLine>,
    /// Whether the texts run upwards and end below their ticks.
    pub(super) turned: bool,
    /// What the texts take below the axis.
    pub(super) height: f64,
}

/// A line of a text.
#[derive(Debug)]
pub(super) struct LabelLine {
    /// Its middle.
    pub(super) x: f64,
    pub(super) row: usize,
    pub(super) text: String,
}

impl Labels {
    fn in_rows(lines: Vec<LabelLine>) -> Self {
        let rows = lines.iter().map(|line| line.row + 1).max().unwrap_or(1);
        Labels { lines, turned: false, height: f64::from(LAYOUT.line) * rows as f64 }
    }

    /// The names of ticks, which are `room` apart: below their ticks, turned, or as letters.
    pub(super) fn of_names(ticks: &[Tick], scale: &Scale, room: f64, keys: &mut Keys) -> Self {
        let straight = |tick: &Tick| {
            let lines = wrapped(&tick.text, LAYOUT.font, room - GAP)?;
            (lines.len() <= MOST_LINES).then_some(lines)
        };
        let all: Vec<Option<Vec<String>>> = ticks.iter().map(straight).collect();
        if all.iter().any(Option::is_none)
            && let Some(turned) = Labels::turned(ticks, scale, room)
        {
            return turned;
        }
        let mut texts = Vec::new();
        for (tick, lines) in ticks.iter().zip(all) {
            let lines = lines.unwrap_or_else(|| vec![keys.letter(&tick.text)]);
            texts.push((scale.at(tick.at), lines));
        }
        Labels::in_rows(without_collisions(texts))
    }

    /// Names that run upwards, or nothing if one is too long or they have no room beside each other.
    fn turned(ticks: &[Tick], scale: &Scale, room: f64) -> Option<Self> {
        let line = f64::from(LAYOUT.line);
        let mut lines = Vec::new();
        let mut height: f64 = 0.0;
        for tick in ticks {
            let texts = wrapped(&tick.text, LAYOUT.font, TURNED)?;
            if texts.len() > MOST_TURNED_LINES || line * texts.len() as f64 + 2.0 > room {
                return None;
            }
            let first = scale.at(tick.at) - line * texts.len().saturating_sub(1) as f64 / 2.0;
            for (row, text) in texts.into_iter().enumerate() {
                height = height.max(width(&text, LAYOUT.font));
                lines.push(LabelLine { x: first + line * row as f64, row: 0, text });
            }
        }
        Some(Labels { lines, turned: true, height: height + 4.0 })
    }

    /// The numbers of ticks between the picture's left end and `edge`. In several rows where one has no room
    /// for all; if those have none either, one row without the numbers that have no room.
    pub(super) fn of_numbers(ticks: &[Tick], scale: &Scale, edge: f64) -> Self {
        let mut rows = [0.0; ROWS];
        let mut lines = Vec::new();
        let mut all = true;
        for tick in ticks {
            let half = width(&tick.text, LAYOUT.font) / 2.0;
            let x = scale.at(tick.at).min(edge - half).max(half);
            match rows.iter().position(|free| x - half >= *free) {
                Some(row) => {
                    rows[row] = x + half + GAP;
                    let text = tick.text.clone();
                    lines.push(LabelLine { x, row, text });
                }
                None => all = false,
            }
        }
        if !all {
            lines.retain(|line| line.row == 0);
        }
        Labels::in_rows(lines)
    }
}

/// The lines of texts whose middles are at these positions, without the texts that would lie over the one before.
fn without_collisions(texts: Vec<(f64, Vec<String>)>) -> Vec<LabelLine> {
    let mut free = f64::NEG_INFINITY;
    let mut all = Vec::new();
    for (x, lines) in texts {
        let widths = lines.iter().map(|line| width(line, LAYOUT.font));
        let half = widths.fold(0.0, f64::max) / 2.0;
        if x - half < free {
            continue;
        }
        free = x + half + GAP / 2.0;
        let lines = lines.into_iter().enumerate();
        all.extend(lines.map(|(row, text)| LabelLine { x, row, text }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(all: &[&str]) -> Vec<Tick> {
        let tick = |(at, text): (usize, &&str)| Tick { at: at as f64, text: text.to_string() };
        all.iter().enumerate().map(tick).collect()
    }

    fn names(all: &[&str], room: f64) -> (Labels, Keys) {
        let last = all.len() as f64 - 1.0;
        let scale = Scale::new((0.0, last), false, (60.0, 60.0 + room * last));
        let mut keys = Keys::default();
        let labels = Labels::of_names(&ticks(all), &scale, room, &mut keys);
        (labels, keys)
    }

    #[test]
    fn names_without_room_are_turned_or_letters() {
        let (labels, _) = names(&["one", "two words", "CCF-LRU"], 45.0);
        assert!(!labels.turned && labels.lines.len() == 5, "{labels:?}");
        let (labels, keys) = names(&["no ghosts", "ages only", "quantiles"], 20.0);
        assert!(labels.turned && keys.all().count() == 0, "{labels:?}");
        let (labels, _) = names(&["no ghosts", "", "quantiles"], 20.0);
        assert!(labels.turned && labels.lines.len() == 2, "{labels:?}");
        let long = "flash:mlc-hp2014,blocks=4500,rho=0.94,ftl=fast,precondition=full";
        let (labels, keys) = names(&["ssd", long, "disk", long], 60.0);
        let texts: Vec<&str> = labels.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["ssd", "A", "disk", "A"]);
        assert_eq!(keys.all().collect::<Vec<_>>(), [("A".to_string(), long)]);
        // Far too many names: some are left out, and none lie over each other.
        let many = vec![long; 200];
        let (labels, _) = names(&many, 2.0);
        assert!(labels.lines.len() > 10);
        for pair in labels.lines.windows(2) {
            assert!(pair[1].x - pair[0].x >= width("A", LAYOUT.font));
        }
    }

    #[test]
    fn letters_go_on_after_the_last() {
        assert_eq!([0, 25, 26, 701, 702].map(letter), ["A", "Z", "AA", "ZZ", "AAA"]);
    }

    #[test]
    fn numbers_leave_each_other_room() {
        let scale = Scale::new((0.0, 1.0), false, (60.0, 400.0));
        let tick = |at: f64| Tick { at, text: at.to_string() };
        let close: Vec<Tick> = [0.01, 0.05, 0.1, 0.2, 0.9].map(tick).into();
        let labels = Labels::of_numbers(&close, &scale, 416.0);
        let rows: Vec<usize> = labels.lines.iter().map(|line| line.row).collect();
        assert_eq!(rows, [0, 1, 2, 0, 0]);
        let many: Vec<Tick> = (0..100).map(|at| tick(f64::from(at) / 100.0)).collect();
        let labels = Labels::of_numbers(&many, &scale, 416.0);
        for pair in labels.lines.windows(2) {
            let half = |line: &LabelLine| width(&line.text, LAYOUT.font) / 2.0;
            assert!(pair[1].x - pair[0].x >= half(&pair[0]) + half(&pair[1]));
        }
    }
}
