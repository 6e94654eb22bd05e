//! Text from files and users, made fit for messages.

/// Makes text from a file or a user fit for a one-line message: escapes control
/// characters and cuts long text.
pub fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for (count, letter) in text.chars().enumerate() {
        if count == LONGEST {
            line.push('…');
            break;
        }
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}
