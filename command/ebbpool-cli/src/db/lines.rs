//! Records as lines `key<TAB>value`.

use std::io::{self, BufRead, Read};

use super::error::DbError;

/// The length of the longest record if each of its bytes is written as `\xHH`.
const LONGEST_LINE: u64 = 4 * ((64 << 20) + (64 << 10));

/// How lines represent keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineForm {
    /// Each byte unchanged.
    Raw,
    /// Bytes that are not printable ASCII, and the backslash, as `\t \n \\ \xHH`.
    Escaped,
}

impl LineForm {
    pub(super) fn new(escape: bool) -> Self {
        match escape {
            true => LineForm::Escaped,
            false => LineForm::Raw,
        }
    }

    /// The bytes that a text represents.
    pub(super) fn read(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            LineForm::Raw => Ok(text.to_vec()),
            LineForm::Escaped => unescape(text),
        }
    }

    /// Appends the representation of bytes.
    pub(super) fn write(self, bytes: &[u8], into: &mut Vec<u8>) {
        match self {
            LineForm::Raw => into.extend_from_slice(bytes),
            LineForm::Escaped => escape(bytes, into),
        }
    }
}

/// The first bytes of a key or line, escaped for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    let mut text = Vec::new();
    escape(&bytes[..bytes.len().min(LONGEST)], &mut text);
    let more = if bytes.len() > LONGEST { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(&text))
}

fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        match byte {
            b'\t' => into.extend_from_slice(br"\t"),
            b'\n' => into.extend_from_slice(br"\n"),
            b'\\' => into.extend_from_slice(br"\\"),
            b' '..=b'~' => into.push(byte),
            _ => {
                let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
                into.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (byte, after) = match *rest {
            [b't', ..] => (b'\t', &rest[1..]),
            [b'n', ..] => (b'\n', &rest[1..]),
            [b'\\', ..] => (b'\\', &rest[1..]),
            [b'x', high, low, ..] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, &rest[3..]),
                _ => return Err(unknown(rest)),
            },
            _ => return Err(unknown(rest)),
        };
        bytes.push(byte);
        rest = after;
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

fn unknown(after: &[u8]) -> String {
    let bytes = &after[..after.len().min(3)];
    format!(r"'\{}' is none of \t \n \\ \xHH, the escapes that --escape knows", shown(bytes))
}

/// A record that was read from a line.
#[derive(Debug)]
pub(super) struct RecordLine {
    pub(super) number: u64,
    /// The key as the line spells it.
    pub(super) shown: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The lines of a file.
pub(super) struct RecordLines<R> {
    reader: R,
    file: String,
    form: LineForm,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> RecordLines<R> {
    /// `file` is the name for messages.
    pub(super) fn new(reader: R, file: &str, form: LineForm) -> Self {
        RecordLines { reader, file: file.into(), form, number: 0, bytes: 0 }
    }

    /// The number of bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An error about the line of that number.
    pub(super) fn refuse(&self, number: u64, problem: String) -> DbError {
        DbError::Line { file: self.file.clone(), line: number, problem }
    }

    fn read(&mut self) -> Result<Option<RecordLine>, DbError> {
        let mut line = Vec::new();
        let mut limited = self.reader.by_ref().take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut line);
        let failed = |source: io::Error| DbError::Io { file: self.file.clone(), what: "read it", source };
        let length = read.map_err(failed)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += length as u64;
        if line.pop_if(|last| *last == b'\n').is_none() && length as u64 == LONGEST_LINE {
            let problem = format!("it is longer than {LONGEST_LINE} bytes, which no record is");
            return Err(self.refuse(self.number, problem));
        }
        let line = self.split(&line);
        line.map(Some).map_err(|problem| self.refuse(self.number, problem))
    }

    fn split(&self, line: &[u8]) -> Result<RecordLine, String> {
        let tab = line.iter().position(|&byte| byte == b'\t');
        let tab = tab.ok_or_else(|| {
            let line = shown(line);
            format!("there is no tab in '{line}'; a line is a key, a tab and a value")
        })?;
        Ok(RecordLine {
            number: self.number,
            shown: line[..tab].to_vec(),
            key: self.form.read(&line[..tab])?,
            value: self.form.read(&line[tab + 1..])?,
        })
    }
}

impl<R: BufRead> Iterator for RecordLines<R> {
    type Item = Result<RecordLine, DbError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = Result<(Vec<u8>, Vec<u8>), String>;

    fn lines(text: &[u8], form: LineForm) -> Vec<Pair> {
        RecordLines::new(text, "f", form)
            .map(|line| match line {
                Ok(line) => Ok((line.key, line.value)),
                Err(error) => Err(error.to_string()),
            })
            .collect()
    }

    fn pair(key: &[u8], value: &[u8]) -> Pair {
        Ok((key.to_vec(), value.to_vec()))
    }

    #[test]
    fn a_line_is_a_key_a_tab_and_the_rest_as_value() {
        let found = lines(b"a\t1\n\t\nb\xff\\\t2\t3\r\nc\t", LineForm::Raw);
        let expected = [pair(b"a", b"1"), pair(b"", b""), pair(b"b\xff\\", b"2\t3\r"), pair(b"c", b"")];
        assert_eq!(found, expected);
        assert_eq!(lines(b"", LineForm::Raw), []);
        let found = lines(b"a\t1\n\nb\t2", LineForm::Raw);
        let problem = "f, line 2: there is no tab in ''; a line is a key, a tab and a value";
        assert_eq!(found[1], Err(problem.into()));
    }

    #[test]
    fn every_byte_survives_escaping() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        LineForm::Escaped.write(&all, &mut text);
        assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)));
        assert_eq!(LineForm::Escaped.read(&text), Ok(all));
        text.clear();
        LineForm::Escaped.write(b"a\tb\nc\\\x00\xfe~", &mut text);
        assert_eq!(text, br"a\tb\nc\\\x00\xfe~");
        assert_eq!(LineForm::Escaped.read(br"\xFE\x0a"), Ok(vec![0xfe, 10]));
        for bad in [&br"\"[..], br"a\q", br"\x1", br"\xg0", br"\x"] {
            let problem = LineForm::Escaped.read(bad).unwrap_err();
            assert!(problem.contains(r"is none of \t \n \\ \xHH"), "{problem}");
        }
        assert_eq!(LineForm::Raw.read(br"\x"), Ok(br"\x".to_vec()));
    }

    #[test]
    fn messages_shorten_long_keys() {
        assert_eq!(shown(b"a\n"), r"a\n");
        assert_eq!(shown(&[b'k'; 100]), format!("{}…", "k".repeat(60)));
    }
}
