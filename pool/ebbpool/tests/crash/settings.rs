//! How long tests of crashes and simulations run, from variables of the environment. Several programs of tests compile it.

/// The number in a variable; `None` without it.
pub fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// The number in a variable. Without it `whole` if `EBBPOOL_WHOLE` is set, as in `./test --whole`, and a tenth of it else.
pub fn scaled(name: &str, whole: u64) -> u64 {
    setting(name).unwrap_or_else(|| if std::env::var_os("EBBPOOL_WHOLE").is_some() { whole } else { whole / 10 })
}
