//! Runs the examples, which check their own results.

#[path = "../examples/embed.rs"]
mod embed;
#[path = "../examples/own_policy.rs"]
mod own_policy;
#[path = "../examples/with_async.rs"]
mod with_async;
#[path = "../examples/write_ahead.rs"]
mod write_ahead;

#[test]
fn a_pool_is_embedded() {
    embed::main().expect("it runs");
}

#[test]
fn a_log_follows_the_write_ahead_rule_and_redoes() {
    write_ahead::main().expect("it runs");
}

#[test]
fn tasks_share_a_pool() {
    with_async::main().expect("it runs");
}

mod slow {
    use super::*;

    #[test]
    fn a_custom_policy_runs_in_the_pool() {
        own_policy::main().expect("it runs");
    }
}
