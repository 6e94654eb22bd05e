//! The colours of charts and pages, light and dark, in one table.

use std::fmt::Write;

/// The colour of a line, a bar or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// Nearly black on light paper, nearly white on dark paper.
    Ink,
    /// Grey.
    Grey,
    /// Blue.
    Blue,
    /// Amber.
    Amber,
    /// Red.
    Red,
    /// Pink.
    Pink,
    /// Green.
    Green,
    /// Purple.
    Purple,
    /// Cyan.
    Cyan,
    /// Olive.
    Olive,
}

/// A colour on light paper and on dark paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colour {
    pub(super) name: &'static str,
    pub(super) light: &'static str,
    pub(super) dark: &'static str,
}

const fn colour(name: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { name, light, dark }
}

pub(super) const PAPER: Colour = colour("paper", "#ffffff", "#14181e");
pub(super) const TEXT: Colour = colour("text", "#1c2430", "#e4e8ee");
pub(super) const QUIET: Colour = colour("quiet", "#5a6472", "#9aa5b4");
pub(super) const RULE: Colour = colour("rule", "#c9cfd8", "#3a434f");
pub(super) const GRID: Colour = colour("grid", "#eceff3", "#232a33");

/// The colours that only pages have: behind the paper, of lines of equal bill, of what has the focus, and of text on
/// a hue.
const OF_PAGES: [Colour; 4] = [
    colour("ground", "#f5f6f8", "#0e1116"),
    colour("contour", "#c3cad4", "#46505e"),
    colour("focus", "#0b57d0", "#8ab4f8"),
    colour("on-hue", "#ffffff", "#10141a"),
];

impl Hue {
    /// The ten hues, in the order of the enum.
    pub const ALL: [Hue; 10] =
        [Hue::Ink, Hue::Grey, Hue::Blue, Hue::Amber, Hue::Red, Hue::Pink, Hue::Green, Hue::Purple, Hue::Cyan, Hue::Olive];

    pub(super) const fn colour(self) -> Colour {
        match self {
            Hue::Ink => colour("ink", "#1c2430", "#eef1f5"),
            Hue::Grey => colour("grey", "#6d7683", "#98a2b0"),
            Hue::Blue => colour("blue", "#0067b1", "#5cb0f0"),
            Hue::Amber => colour("amber", "#9c6200", "#e6ad3a"),
            Hue::Red => colour("red", "#c2470a", "#ff8a52"),
            Hue::Pink => colour("pink", "#b8407e", "#f08fc0"),
            Hue::Green => colour("green", "#007a57", "#3fcf9f"),
            Hue::Purple => colour("purple", "#5b3fb8", "#a996ff"),
            Hue::Cyan => colour("cyan", "#147d97", "#62d0e8"),
            Hue::Olive => colour("olive", "#6a7000", "#c3cc4f"),
        }
    }

    /// The name of the colour: of its property in a style sheet, and of its class in a picture.
    pub const fn name(self) -> &'static str {
        self.colour().name
    }
}

fn all() -> impl Iterator<Item = Colour> {
    let paper = [PAPER, TEXT, QUIET, RULE, GRID];
    let hues = Hue::ALL.map(Hue::colour);
    paper.into_iter().chain(OF_PAGES).chain(hues)
}

/// The colours as properties of a page: `light-dark` follows the appearance that the reader, or the system, has
/// chosen.
pub fn properties() -> String {
    let mut css = String::from(":root {\n  color-scheme: light dark;\n");
    for Colour { name, light, dark } in all() {
        let _ = writeln!(css, "  --{name}: light-dark({light}, {dark});");
    }
    css.push_str("}\n");
    css
}

/// The dark colours of a picture that is a file of its own. Its elements carry the light ones as attributes, so that
/// a viewer that knows no style sheets shows the picture as on paper.
pub(super) fn dark_classes() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {");
    for Colour { name, dark, .. } in all() {
        let _ = write!(css, ".{name}{{color:{dark}}}");
    }
    let _ = write!(css, ".hollow{{fill:{}}}", PAPER.dark);
    css.push('}');
    css
}

/// The colours of the pictures in a page that has `properties`: they follow the page's appearance. The pictures
/// carry the light ones as attributes, as those that are files.
pub fn figure_colours() -> String {
    let mut css = String::new();
    for Colour { name, .. } in all() {
        let _ = writeln!(css, ".figure .{name} {{ color: var(--{name}); }}");
    }
    let _ = writeln!(css, ".figure .hollow {{ fill: var(--{}); }}", PAPER.name);
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance of WCAG 2.2.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let part = u8::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal digits");
            let part = f64::from(part) / 255.0;
            match part <= 0.04045 {
                true => part / 12.92,
                false => ((part + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (a, b) = (luminance(one), luminance(other));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn hues_and_texts_stand_out_from_the_paper() {
        let hues = Hue::ALL.map(Hue::colour);
        for Colour { name, light, dark } in hues.into_iter().chain([TEXT, QUIET]) {
            assert!(contrast(light, PAPER.light) >= 4.5, "{name}");
            assert!(contrast(dark, PAPER.dark) >= 4.5, "{name}");
        }
    }

    #[test]
    fn every_colour_has_a_name_of_its_own() {
        let mut names: Vec<&str> = all().map(|colour| colour.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        for name in names {
            assert!(properties().contains(&format!("--{name}: ")));
            assert!(figure_colours().contains(&format!(".{name} {{ color: var(--{name})")));
        }
    }
}
