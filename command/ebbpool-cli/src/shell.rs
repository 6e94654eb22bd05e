//! Commands as a reader can paste them into a shell.

/// Words as a POSIX shell takes them, each in quotation marks if it has characters that a shell interprets.
pub(crate) fn command_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+@".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_characters_of_a_shell_are_quoted() {
        for (word, shown) in [
            ("--frames", "--frames"),
            ("my.parquet", "my.parquet"),
            ("zipf:pages=10,refs=20", "zipf:pages=10,refs=20"),
            ("3%", "3%"),
            ("", "''"),
            ("a b", "'a b'"),
            ("ace:policy=(lru)", "'ace:policy=(lru)'"),
            ("it's", r"'it'\''s'"),
            ("$(ls)", "'$(ls)'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
        assert_eq!(command_line(&["a".into(), "b c".into()]), "a 'b c'");
    }
}
