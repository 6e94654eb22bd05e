//! Tables of a fixed length, whose memory the system may refuse.

/// `count` values in a box; `None` if there is no memory for them.
pub(crate) fn boxed<T>(count: usize, value: impl Fn() -> T) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.extend((0..count).map(|_| value()));
    Some(values.into_boxed_slice())
}
