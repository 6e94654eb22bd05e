//! Text from outside in messages.

/// Text from outside, fit to stand in a one-line message: control characters are
/// escaped and long text is cut.
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
