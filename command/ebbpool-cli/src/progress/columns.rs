//! Columns of a terminal, and texts that fit into them.

use std::io;

use terminal_size::{Width, terminal_size_of};

/// The least columns of a name that is shortened.
pub(crate) const LEAST_NAME: usize = 8;

/// The columns of the terminal on standard error; `None` if that is no terminal.
pub(crate) fn terminal_columns() -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(io::stderr())?;
    (columns > 0).then_some(columns.into())
}

/// The columns of a text. Letters that may take two count as two, so that a line never becomes too long.
pub(crate) fn display_width(text: &str) -> usize {
    let columns = |letter: char| match u32::from(letter) {
        0x1100..=0x115f | 0x2e80.. => 2,
        _ => 1,
    };
    text.chars().map(columns).sum()
}

/// A text of at most that many columns, with three dots for its middle if it is longer.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.into();
    }
    let fits = |part: &str, most: usize| display_width(part) <= most;
    let left = columns.saturating_sub(1);
    let (mut first, mut last) = (String::new(), String::new());
    for letter in text.chars() {
        first.push(letter);
        if !fits(&first, left.div_ceil(2)) {
            first.pop();
            break;
        }
    }
    for letter in text.chars().rev() {
        last.insert(0, letter);
        if !fits(&last, left - display_width(&first).min(left)) {
            last.remove(0);
            break;
        }
    }
    match columns {
        0 => String::new(),
        _ => format!("{first}…{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("cikm-fig2", 20), "cikm-fig2");
        assert_eq!(shortened("cikm-fig12-clustering", 12), "cikm-f…ering");
        assert_eq!(shortened("日本語の名前", 7), "日…名前");
        for columns in 0..30 {
            let short = shortened("cikm-fig12-clustering", columns);
            assert!(display_width(&short) <= columns, "{short}");
        }
    }
}
