//! Text from files and users, made fit for messages.

/// True for characters that make a name look like another one, like none or like two lines: control characters, separators of lines,
/// and those that change the direction of text or have no width.
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text in which [invisible characters](is_invisible) are visible: the name of a file or a process may have any.
pub fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_invisible(letter) {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }
    line
}

/// Makes text from a file or a user fit for a one-line message: escapes it, and cuts long text.
pub fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => escaped(&text[..end]) + "…",
        None => escaped(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let text = "a\n\u{1b}[2J\u{85}\u{202e}b\u{2066}\u{200f}\u{61c} é–中";
        assert_eq!(one_line(text), "a\\n\\u{1b}[2J\\u{85}\\u{202e}b\\u{2066}\\u{200f}\\u{61c} é–中");
        let long = "é".repeat(301);
        assert_eq!(one_line(&long), "é".repeat(300) + "…");
        assert_eq!(one_line(&long[2..]), "é".repeat(300));
    }
}
