//! The colour and mark of each policy, the same in every figure.

use ebbpool_policy::registry;
use plotters::style::RGBColor;

/// What a point of a line is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Down,
    Plus,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: RGBColor,
    pub(crate) mark: Mark,
}

/// The colours of Okabe and Ito, which are told apart with any colour vision, but for yellow, which
/// is hard to see on white, and with grey.
const BLACK: RGBColor = RGBColor(0, 0, 0);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILLION: RGBColor = RGBColor(213, 94, 0);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const GREY: RGBColor = RGBColor(120, 120, 120);

const COLOURS: [RGBColor; 8] = [BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, GREY];

const MARKS: [Mark; 7] = [
    Mark::Circle,
    Mark::Square,
    Mark::Triangle,
    Mark::Diamond,
    Mark::Cross,
    Mark::Down,
    Mark::Plus,
];

/// Those that the papers draw, and ours.
const KNOWN: [(&str, RGBColor, Mark); 15] = [
    ("ebb", PURPLE, Mark::Circle),
    ("lru", BLACK, Mark::Circle),
    ("cflru", ORANGE, Mark::Triangle),
    ("cflru-c", ORANGE, Mark::Down),
    ("lru-wsr", SKY, Mark::Square),
    ("ccf-lru", PURPLE, Mark::Diamond),
    ("ad-lru", VERMILLION, Mark::Plus),
    ("casa", GREEN, Mark::Square),
    ("cfdc", BLUE, Mark::Diamond),
    ("ref", GREY, Mark::Cross),
    ("fd-buffer", VERMILLION, Mark::Circle),
    ("fd-static", GREEN, Mark::Triangle),
    ("belady", BLACK, Mark::Cross),
    ("optimum", GREY, Mark::Plus),
    ("cost-belady", GREY, Mark::Circle),
];

/// The style of a policy by its name in the registry.
pub(crate) fn of_policy(name: &str) -> Option<Style> {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    if let Some(&(_, colour, mark)) = known {
        return Some(Style { colour, mark });
    }
    let is_taken = |colour, mark| {
        let mut all = KNOWN.iter();
        all.any(|&(_, c, m)| (c, m) == (colour, mark))
    };
    let free = MARKS.iter().rev().flat_map(|&mark| {
        let colours = COLOURS.iter().rev().map(move |&colour| (colour, mark));
        colours.filter(|&(colour, mark)| !is_taken(colour, mark))
    });
    let entries = registry::entries().iter();
    let others = entries.filter(|entry| {
        let mut all = KNOWN.iter();
        !all.any(|(known, ..)| *known == entry.name)
    });
    let mut styled = others.zip(free);
    let (_, (colour, mark)) = styled.find(|(entry, _)| entry.name == name)?;
    Some(Style { colour, mark })
}

/// The style of the line of that index where lines are no policies.
pub(crate) fn of_index(index: usize) -> Style {
    Style {
        colour: COLOURS[index % COLOURS.len()],
        mark: MARKS[index % MARKS.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_policies_look_alike() {
        let mut styles: Vec<Style> = Vec::new();
        for entry in registry::entries() {
            let style = of_policy(entry.name).expect("colours and marks for all policies");
            assert!(
                !styles.contains(&style),
                "{} looks like another",
                entry.name
            );
            styles.push(style);
        }
        assert!(of_policy("no such policy").is_none());
    }
}
