//! Words for messages.

/// Names as `a, b and c`.
pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A size as `8 KiB`, or as `5000 bytes` where it is no whole number of KiB.
pub(crate) fn bytes(size: u64) -> String {
    match size.is_multiple_of(1024) {
        true => format!("{} KiB", size / 1024),
        false => format!("{size} bytes"),
    }
}
