//! The room that texts of a picture take.
//!
//! A picture is drawn where no font can be asked, and read where any may be in use, so widths are those of a wide
//! one, DejaVu Sans: in most others texts leave more room than they need.

/// Advance widths of the characters from the blank to the tilde, in thousandths of the font's size.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
    634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// The width of any other character.
const OTHER: u16 = 838;

/// How much wider a bold text is.
const BOLD: f64 = 1.15;

/// What ends a piece of a text that the next line may follow, and what may where pieces are too wide.
const BLANKS: [char; 2] = [' ', ','];
const SIGNS: [char; 8] = [' ', ',', '-', '/', ':', '=', '_', ';'];

/// The width of a text in a font of that size, in pixels.
pub(super) fn width(text: &str, size: u32) -> f64 {
    let of = |letter: char| {
        let index = (letter as usize).checked_sub(' ' as usize);
        index.and_then(|index| WIDTHS.get(index)).copied()
    };
    let all: u32 = text.chars().map(|letter| u32::from(of(letter).unwrap_or(OTHER))).sum();
    f64::from(all * size) / 1e3
}

/// The width of a bold text.
pub(super) fn bold_width(text: &str, size: u32) -> f64 {
    BOLD * width(text, size)
}

/// A text in lines of at most that width, broken after blanks and commas, or where that is not enough, after any
/// sign between words; nothing if a piece is wider.
pub(super) fn wrapped(text: &str, size: u32, most: f64) -> Option<Vec<String>> {
    let signs: [&[char]; 2] = [&BLANKS, &SIGNS];
    let mut tries = signs.into_iter();
    tries.find_map(|signs| filled(text.split_inclusive(signs), size, most))
}

/// A text in at most that many lines of that width. It is broken inside words where it has to be, and three dots
/// stand for what finds no room.
pub(super) fn fitted(text: &str, size: u32, most: f64, lines: usize) -> Vec<String> {
    let mut all = wrapped(text, size, most).unwrap_or_else(|| {
        let pieces = text.split_inclusive(&SIGNS[..]);
        let letters = pieces.flat_map(|piece| match width(piece.trim_end(), size) <= most {
            true => vec![piece],
            false => piece.split_inclusive(|_: char| true).collect(),
        });
        filled(letters, size, most).unwrap_or_default()
    });
    if all.len() > lines {
        let rest = all.split_off(lines.saturating_sub(1)).concat();
        all.push(shortened(&rest, size, most));
    }
    all
}

/// Pieces of a text in lines of at most that width; nothing if a piece is wider.
fn filled<'a>(pieces: impl Iterator<Item = &'a str>, size: u32, most: f64) -> Option<Vec<String>> {
    let fits = |line: &str| width(line.trim_end(), size) <= most;
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if fits(&format!("{line}{piece}")) => line.push_str(piece),
            _ if fits(piece) => lines.push(piece.into()),
            _ => return None,
        }
    }
    let trimmed = lines.iter().map(|line| line.trim_end().to_string());
    Some(trimmed.collect())
}

/// A text of at most that width, with three dots for what is left out.
pub(super) fn shortened(text: &str, size: u32, most: f64) -> String {
    if width(text, size) <= most {
        return text.into();
    }
    let mut short: String = text.into();
    while short.pop().is_some() && width(&short, size) + width("…", size) > most {}
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_break_at_blanks() {
        let wide = width("FD-Buffer and", 12);
        let lines = wrapped("FD-Buffer and CASA", 12, wide + 1.0).expect("two lines");
        assert_eq!(lines, ["FD-Buffer and", "CASA"]);
        assert_eq!(wrapped("FD-Buffer", 12, 20.0), None);
        let lines = wrapped("blocks=4500,rho=0.94", 12, width("blocks=4500,", 12));
        assert_eq!(lines.expect("two lines"), ["blocks=4500,", "rho=0.94"]);
        let lines = wrapped("CCF-LRU", 12, width("CCF-", 12) + 1.0);
        assert_eq!(lines.expect("two lines"), ["CCF-", "LRU"]);
    }

    #[test]
    fn any_text_fits_into_lines() {
        let most = width("abcdef", 12);
        for text in ["abcdefghijkl", "ab cdefghijkl mn", "", "a,b", "ééé…ééé"] {
            for lines in 1..4 {
                let fitted = fitted(text, 12, most, lines);
                assert!(fitted.len() <= lines, "{fitted:?}");
                assert!(fitted.iter().all(|line| width(line, 12) <= most), "{fitted:?}");
            }
        }
        assert_eq!(fitted("abcdefghijkl", 12, most, 3), ["abcdef", "ghijkl"]);
        assert!(fitted("abcdefghijkl mn", 12, most, 1)[0].ends_with('…'));
    }

    #[test]
    fn long_texts_are_shortened() {
        let most = width("no ghosts", 12);
        assert_eq!(shortened("no ghosts", 12, most), "no ghosts");
        let short = shortened("no ghosts at all", 12, most);
        assert!(short.starts_with("no gh") && short.ends_with('…'));
        assert!(width(&short, 12) <= most);
    }
}
