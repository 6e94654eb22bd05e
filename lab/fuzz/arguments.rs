//! Arguments of the command line: columns of CSV, generators.

use ebbpool_trace::{Columns, Source};

use super::traces;

fn text_of(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// Columns of a CSV file: parsed columns print as a text that parses to the same.
pub(crate) fn columns(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    match text.parse::<Columns>() {
        Ok(columns) => {
            let printed = columns.to_string();
            let again = printed.parse::<Columns>();
            assert_eq!(again.ok().as_ref(), Some(&columns), "'{text}' as '{printed}'");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// A generator: the same references each time, and the stated number of them. Large ones are only
/// parsed.
pub(crate) fn generator(input: &[u8]) {
    const LARGEST: u64 = 2_000;
    let Some(text) = text_of(input) else { return };
    if !text.contains(':') {
        // Without arguments the sizes are the defaults, with which generating takes long.
        return;
    }
    let source = match Source::parse(text, None) {
        Ok(source) => source,
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            return;
        }
    };
    let is_small = |name: &str| {
        text.split([':', ',']).any(|argument| {
            let value = argument
                .split_once('=')
                .filter(|(key, _)| key.trim() == name)
                .and_then(|(_, value)| value.trim().parse::<u64>().ok());
            value.is_some_and(|value| value <= LARGEST)
        })
    };
    let sizes = ["pages", "warehouses", "scale", "subscribers"];
    let warm = !text.contains("warmup") || is_small("warmup");
    if sizes.into_iter().any(is_small) && is_small("refs") && warm {
        traces::check_source(&source);
    }
}
