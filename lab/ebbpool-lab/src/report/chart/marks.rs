//! One colour, dash and shape per policy, the same in every report and every picture; lines differ without colour
//! too.

use std::collections::HashSet;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::colours::Hue;

/// Lengths of strokes and gaps of a line, in pixels: none of a line that is whole.
const DASHES: [&[u8]; 4] = [&[], &[7, 4], &[2, 3], &[9, 3, 2, 3]];

/// What a point of a line is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
    Plus,
    Cross,
    Bar,
}

impl Shape {
    const ALL: [Shape; 8] =
        [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Wedge, Shape::Plus, Shape::Cross, Shape::Bar];

    /// The outline, in a square from -1 to 1.
    pub(super) const fn outline(self) -> &'static str {
        match self {
            Shape::Circle => "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
            Shape::Square => "M-.88-.88H.88V.88H-.88Z",
            Shape::Triangle => "M0-1.1L1.1 .85H-1.1Z",
            Shape::Diamond => "M0-1.3L1.15 0 0 1.3-1.15 0Z",
            Shape::Wedge => "M0 1.1L1.1-.85H-1.1Z",
            Shape::Plus => "M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z",
            Shape::Cross => "M0-.55L.6-1.15 1.15-.6 .55 0 1.15 .6 .6 1.15 0 .55-.6 1.15-1.15 .6-.55 0-1.15-.6-.6-1.15Z",
            Shape::Bar => "M-1.2-.45H1.2V.45H-1.2Z",
        }
    }

    fn after(self, steps: usize) -> Shape {
        Shape::ALL[(self as usize + steps) % Shape::ALL.len()]
    }
}

/// The colour of a line, its dash, and the shape of its points, which may be hollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStyle {
    pub(super) hue: Hue,
    dash: usize,
    shape: Shape,
    pub(super) hollow: bool,
}

const fn full(hue: Hue, dash: usize, shape: Shape) -> LineStyle {
    LineStyle { hue, dash, shape, hollow: false }
}

const fn hollow(hue: Hue, dash: usize, shape: Shape) -> LineStyle {
    LineStyle { hue, dash, shape, hollow: true }
}

/// The mark of each policy by its name in the registry, and of what experiments call `optimum`. Policies of a family
/// share a hue.
const OF_POLICIES: [(&str, LineStyle); 51] = [
    ("lru", full(Hue::Ink, 0, Shape::Circle)),
    ("price-guided", full(Hue::Ink, 1, Shape::Cross)),
    ("lru-c", hollow(Hue::Ink, 2, Shape::Circle)),
    ("belady", full(Hue::Ink, 3, Shape::Bar)),
    ("cost-belady", hollow(Hue::Ink, 3, Shape::Bar)),
    ("informed", hollow(Hue::Ink, 1, Shape::Diamond)),
    ("sieve", full(Hue::Grey, 0, Shape::Wedge)),
    ("clock", hollow(Hue::Grey, 1, Shape::Triangle)),
    ("fbr", full(Hue::Grey, 1, Shape::Cross)),
    ("fifo", hollow(Hue::Grey, 2, Shape::Square)),
    ("s3-fifo", full(Hue::Grey, 2, Shape::Diamond)),
    ("gclock", hollow(Hue::Grey, 3, Shape::Diamond)),
    ("postgres", full(Hue::Grey, 0, Shape::Square)),
    ("innodb", hollow(Hue::Grey, 1, Shape::Circle)),
    ("sqlite", full(Hue::Grey, 2, Shape::Triangle)),
    ("optimum", full(Hue::Grey, 3, Shape::Plus)),
    ("cflru", full(Hue::Blue, 0, Shape::Circle)),
    ("cflru-c", hollow(Hue::Blue, 1, Shape::Circle)),
    ("cflru-e", full(Hue::Blue, 2, Shape::Square)),
    ("dl-cflru-e", hollow(Hue::Blue, 3, Shape::Square)),
    ("lru-wsr", full(Hue::Amber, 0, Shape::Triangle)),
    ("ref", hollow(Hue::Amber, 1, Shape::Plus)),
    ("lirs-wsr", hollow(Hue::Amber, 2, Shape::Triangle)),
    ("lirs", full(Hue::Amber, 3, Shape::Wedge)),
    ("ccf-lru", full(Hue::Red, 0, Shape::Diamond)),
    ("dulo", hollow(Hue::Red, 1, Shape::Diamond)),
    ("for", full(Hue::Red, 2, Shape::Plus)),
    ("wa-landlord", full(Hue::Red, 3, Shape::Cross)),
    ("ad-lru", full(Hue::Pink, 0, Shape::Wedge)),
    ("fab", hollow(Hue::Pink, 1, Shape::Wedge)),
    ("bplru", full(Hue::Pink, 2, Shape::Plus)),
    ("ace", hollow(Hue::Pink, 3, Shape::Square)),
    ("ebb", full(Hue::Green, 0, Shape::Circle)),
    ("auto", hollow(Hue::Green, 1, Shape::Circle)),
    ("watt", full(Hue::Green, 2, Shape::Triangle)),
    ("lhd", hollow(Hue::Green, 3, Shape::Diamond)),
    ("cfdc", full(Hue::Purple, 0, Shape::Cross)),
    ("arc", full(Hue::Purple, 1, Shape::Circle)),
    ("car", hollow(Hue::Purple, 2, Shape::Triangle)),
    ("h-arc", hollow(Hue::Purple, 3, Shape::Square)),
    ("lecar", full(Hue::Purple, 2, Shape::Plus)),
    ("cacheus", full(Hue::Purple, 3, Shape::Diamond)),
    ("casa", full(Hue::Cyan, 0, Shape::Bar)),
    ("acr", hollow(Hue::Cyan, 1, Shape::Bar)),
    ("2q", full(Hue::Cyan, 2, Shape::Diamond)),
    ("lru-k", full(Hue::Cyan, 3, Shape::Wedge)),
    ("fd-buffer", full(Hue::Olive, 0, Shape::Square)),
    ("fd-static", hollow(Hue::Olive, 1, Shape::Square)),
    ("hyperbolic", full(Hue::Olive, 1, Shape::Cross)),
    ("w-tinylfu", full(Hue::Olive, 2, Shape::Triangle)),
    ("lrfu", full(Hue::Olive, 3, Shape::Diamond)),
];

/// Hues of lines that are not of one policy, in the order in which lines get them.
const HUES_OF_LINES: [Hue; 10] =
    [Hue::Ink, Hue::Amber, Hue::Cyan, Hue::Green, Hue::Red, Hue::Purple, Hue::Pink, Hue::Blue, Hue::Grey, Hue::Olive];

impl LineStyle {
    /// The mark of a policy by its name in the registry.
    pub fn for_policy(name: &str) -> Option<LineStyle> {
        let found = OF_POLICIES.iter().find(|(policy, _)| *policy == name);
        found.map(|(_, mark)| *mark)
    }

    /// The marks of the lines of one picture; `own` has the mark of a line's policy, or nothing for a line of no
    /// policy or several. The first line of a hue has its own mark. Any other gets an unused hue while there is one,
    /// so that a legend with few lines distinguishes them by colour; all lines differ in dash, shape or filling.
    pub fn for_lines(own: &[Option<LineStyle>]) -> Vec<LineStyle> {
        let mut marks: Vec<Option<LineStyle>> = Vec::new();
        for mark in own {
            let is_new = |mark: &LineStyle| marks.iter().flatten().all(|other| other.hue != mark.hue);
            let mark = mark.filter(is_new);
            marks.push(mark);
        }
        for at in 0..marks.len() {
            if marks[at].is_none() {
                let all: Vec<LineStyle> = marks.iter().flatten().copied().collect();
                marks[at] = Some(LineStyle::unlike(&all, own[at]));
            }
        }
        marks.into_iter().flatten().collect()
    }

    /// A mark that none of these is, of the hue that the fewest of them have.
    fn unlike(all: &[LineStyle], own: Option<LineStyle>) -> LineStyle {
        let shape_at = |steps: usize| Shape::Circle.after(steps);
        let uses = |is: &dyn Fn(&LineStyle) -> bool| all.iter().filter(|mark| is(mark)).count();
        let least = |hue: &&Hue| uses(&|mark: &LineStyle| mark.hue == **hue);
        let hue = HUES_OF_LINES.iter().min_by_key(least).copied();
        let hue = hue.unwrap_or(Hue::Ink);
        let shapes = (0..Shape::ALL.len()).map(shape_at);
        let shape = shapes.min_by_key(|shape| uses(&|mark: &LineStyle| mark.shape == *shape));
        let dashes = 0..DASHES.len();
        let dash = dashes.min_by_key(|dash| uses(&|mark: &LineStyle| mark.dash == *dash));
        let mut mark = full(hue, own.map_or(dash.unwrap_or(0), |own| own.dash), shape.unwrap_or(Shape::Circle));
        for _ in 0..Shape::ALL.len() * DASHES.len() * 2 {
            if !all.contains(&mark) {
                break;
            }
            mark = mark.next();
        }
        mark
    }

    /// The dashes as `stroke-dasharray` takes them; none of a line that is whole.
    pub(super) fn dash(self) -> Option<String> {
        let lengths: Vec<String> = DASHES[self.dash].iter().map(u8::to_string).collect();
        (!lengths.is_empty()).then(|| lengths.join(" "))
    }

    /// The index of the dash: bars have a pattern for each.
    pub(super) const fn pattern(self) -> usize {
        self.dash
    }

    pub(super) const fn outline(self) -> &'static str {
        self.shape.outline()
    }

    /// Of a policy as it is spelled: a policy with parameters has the hue of the policy without.
    fn of_spelling(policy: &str) -> LineStyle {
        let name = policy.split(':').next().unwrap_or_default();
        let mark = LineStyle::for_policy(name).unwrap_or_else(|| {
            // Ink and grey belong to the policies that others are compared with.
            let hash = hash(name);
            full(Hue::ALL[2 + hash % (Hue::ALL.len() - 2)], (hash >> 4) % DASHES.len(), Shape::Circle.after(hash >> 8))
        });
        match policy == name {
            true => mark,
            false => {
                let hash = hash(policy);
                LineStyle { dash: (mark.dash + 1 + hash % 3) % DASHES.len(), shape: mark.shape.after(hash >> 4), ..mark }
            }
        }
    }

    /// The mark to try where another policy has this one already.
    fn next(self) -> LineStyle {
        let shape = self.shape.after(1);
        let is_first = shape == Shape::Circle;
        let hollow = self.hollow != is_first;
        let dash = match is_first && hollow {
            true => (self.dash + 1) % DASHES.len(),
            false => self.dash,
        };
        LineStyle { hue: self.hue, dash, shape, hollow }
    }
}

impl Default for LineStyle {
    fn default() -> Self {
        full(Hue::Ink, 0, Shape::Circle)
    }
}

impl Serialize for LineStyle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut mark = serializer.serialize_struct("LineStyle", 4)?;
        mark.serialize_field("hue", self.hue.name())?;
        mark.serialize_field("dash", &self.dash())?;
        mark.serialize_field("outline", self.outline())?;
        mark.serialize_field("hollow", &self.hollow)?;
        mark.end()
    }
}

/// FNV-1a: the same number for the same text on every machine.
fn hash(text: &str) -> usize {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step) as usize
}

/// The mark of each of several policies, as they are spelled; no two are alike.
pub(in crate::report) fn marks_of(policies: &[&str]) -> Vec<LineStyle> {
    let most = Shape::ALL.len() * DASHES.len() * 2;
    let mut taken = HashSet::new();
    let mut unused = |policy: &&str| {
        let mut mark = LineStyle::of_spelling(policy);
        // Parameters may lead two policies to one mark; the later one takes the next that is free.
        let mut tries = 0;
        while !taken.insert((mark.hue.name(), mark.dash, mark.shape, mark.hollow)) && tries < most {
            mark = mark.next();
            tries += 1;
        }
        mark
    };
    policies.iter().map(&mut unused).collect()
}

#[cfg(test)]
mod tests {
    use ebbpool_policy::registry;

    use super::*;

    #[test]
    fn no_two_policies_of_the_registry_look_alike() {
        for (at, (name, mark)) in OF_POLICIES.iter().enumerate() {
            for (other, its) in &OF_POLICIES[..at] {
                assert!(name != other && mark != its, "{name} looks like {other}");
            }
        }
        for entry in registry::entries() {
            assert!(LineStyle::for_policy(entry.name).is_some(), "{} has no mark", entry.name);
        }
        assert!(LineStyle::for_policy("no such policy").is_none());
    }

    #[test]
    fn policies_with_parameters_differ_from_each_other() {
        let all: Vec<String> = (0..40).map(|at| format!("cflru:window=0.{at}")).collect();
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.extend(["cflru", "cflru-c", "my own", "another"]);
        let marks = marks_of(&all);
        for (at, mark) in marks.iter().enumerate() {
            assert!(!marks[..at].contains(mark), "{}", all[at]);
        }
        assert!(marks[..42].iter().all(|mark| mark.hue == Hue::Blue));
    }

    #[test]
    fn lines_of_a_picture_differ_and_few_of_them_in_hue() {
        let policy = |name: &str| LineStyle::for_policy(name);
        let own = [policy("fd-buffer"), policy("fd-buffer"), policy("fd-static"), policy("lru"), None, policy("cflru")];
        let marks = LineStyle::for_lines(&own);
        for at in [0, 3, 5] {
            assert_eq!(Some(marks[at]), own[at], "{at}");
        }
        for (at, mark) in marks.iter().enumerate() {
            assert!(marks[..at].iter().all(|other| other.hue != mark.hue), "{at}");
        }
        let marks = LineStyle::for_lines(&[None; 60]);
        for (at, mark) in marks.iter().enumerate() {
            assert!(!marks[..at].contains(mark), "{at}");
            let same = marks.iter().filter(|other| other.hue == mark.hue).count();
            assert_eq!(same, 6, "{at}");
        }
    }
}
