//! `ebbpool policies`: lists the policies of the registry, or explains one.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::Args;
use ebbpool_policy::{Capabilities, MemoryUse, PolicyEntry, PolicySpec, registry};

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct PoliciesArgs {
    /// Explain this policy; it may have parameters, or be an alias such as fd-exact
    #[arg(value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Print Markdown, as in docs/generated/policies.md
    #[arg(long, conflicts_with = "policy")]
    pub(crate) markdown: bool,
}

/// The end of docs/generated/policies.md: published policies that the registry does not have.
const NOT_HERE: &str = "
## Not here

- CLIC (Liu et al., FAST 2009) learns which pages to cache from hints that the clients of a storage server attach to \
each request. The reference strings here carry no hints with requests.
- LRB (Song et al., NSDI 2020) and 3L-Cache (Zhou et al., FAST 2025) train gradient-boosted trees with the library \
LightGBM while they run. A policy here allocates nothing once it is warm, and needs no library of that kind.
";

/// The width of explanations in columns.
const WIDTH: usize = 80;

pub(crate) fn policies(args: &PoliciesArgs) -> Result<(), Failure> {
    let text = match &args.policy {
        Some(policy) => explanation(&policy.parse()?),
        None if args.markdown => markdown(),
        None => plain(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn plain() -> String {
    let mut text = String::new();
    for entry in registry::entries() {
        let _ = writeln!(text, "{}", entry.name);
        let _ = writeln!(text, "    {}", entry.summary);
        let _ = writeln!(text, "    Source: {}.", entry.source);
        for (alias, preset) in entry.aliases {
            let _ = writeln!(text, "    {alias} is {}:{preset}.", entry.name);
        }
        for param in entry.params {
            let _ = writeln!(text, "    {}={}  {} ({})", param.name, param.default, param.about, param.kind);
        }
    }
    text
}

/// The explanation of one policy, with the parameters that the user names.
fn explanation(spec: &PolicySpec) -> String {
    let entry = spec.entry();
    let mut text = format!("{spec}\n");
    section(&mut text, "What it does", entry.summary);
    section(&mut text, "How", entry.how);
    section(&mut text, "When", entry.when);
    if !entry.params.is_empty() {
        text.push_str("\nParameters\n");
    }
    for param in entry.params {
        let value = spec.spelled(param.name).unwrap_or_default();
        let default = if value == param.default { "the default".into() } else { format!("default {}", param.default) };
        let _ = writeln!(text, "  {}={value} ({default})", param.name);
        fold(&mut text, param.about, "      ");
        fold(&mut text, &format!("Takes {}.", param.kind), "      ");
    }
    for (alias, preset) in entry.aliases {
        let line = format!("{alias} is {}:{preset}.", entry.name);
        section(&mut text, "Alias", &line);
    }
    section(&mut text, "Costs", costs_of(spec));
    section(&mut text, "Memory", &memory_of(entry));
    section(&mut text, "Source", &format!("{}.", entry.source));
    text
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = writeln!(text, "\n{title}");
    fold(text, body, "  ");
}

fn fold(text: &mut String, body: &str, indent: &str) {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(indent)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    text.push_str(&textwrap::fill(body, options));
    text.push('\n');
}

fn costs_of(spec: &PolicySpec) -> &'static str {
    if spec.capabilities().contains(Capabilities::PROBABILITIES) {
        return "It looks at the probabilities of references, and the costs of a read and a write change its choices; it runs only when named.";
    }
    match (spec.online(), spec.looks_at_costs()) {
        (false, true) => "It looks at the future and at the costs; it runs only when named.",
        (false, false) => "It looks at the future, not at the costs; it runs only when named.",
        (true, true) => "The costs of a read and a write change its choices.",
        (true, false) => "It chooses the same victims whatever a write costs.",
    }
}

fn memory_of(entry: &PolicyEntry) -> String {
    let MemoryUse { order, order_scattered, ghosts } = entry.memory;
    let mut text = format!("About {order} bytes per frame with default parameters");
    if order_scattered > order {
        let _ = write!(text, " ({order_scattered} where each page has an erase block or cluster to itself)");
    }
    if ghosts > 0 {
        let _ = write!(text, ", and {ghosts} for ghosts and estimates");
    }
    text + ", page table apart."
}

fn markdown() -> String {
    let mut text = String::from(
        "# Policies\n\nLook up here how a policy works, when it wins and loses, and which parameters it takes. Generated by `cargo run --release -- policies --markdown`; a test keeps it current.\n\n\
A policy is named as `NAME:PARAMETER=VALUE,…`, for example `cfdc:window=0.5,cluster=16`. A policy that\n\
is a parameter of another stands in parentheses if it has parameters: `ace:policy=(cflru:window=0.25),batch=8`.\n\
Offline policies know the future, or the probabilities of references, and run only when asked for by name.\n\n\
`ebbpool policies NAME` prints the same for one policy. [savings.md](savings.md) has what each saves against \
lru on the samples; figures on this page are those of the paper named.\n\n\
A page that a trim ends leaves its frame at once and unwritten. The policy forgets it without remembering it as an evicted\n\
page; what it remembers of pages that are not in memory stays. A frame that never had a page is used before one that a\n\
trim has emptied, of which the one emptied last comes first. An offline policy waits with a dirty page for its end as for\n\
a write that costs nothing. A policy does not learn that a write replaces all of its page.\n",
    );
    for entry in registry::entries() {
        let offline = if entry.online() { "" } else { " (offline)" };
        let _ = writeln!(text, "\n## {}{offline}\n\n{}\n", entry.name, entry.summary);
        let _ = writeln!(text, "Source: {}.", entry.source);
        for (alias, preset) in entry.aliases {
            let _ = writeln!(text, "`{alias}` is an alias of `{}:{preset}`.", entry.name);
        }
        for (title, body) in [
            ("How", entry.how),
            ("When", entry.when),
            ("Costs", costs_of(&PolicySpec::from_entry(entry))),
            ("Memory", &memory_of(entry)),
        ] {
            let _ = writeln!(text, "\n**{title}.** {body}");
        }
        if entry.params.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n| parameter | default | values | what it does |\n| --- | --- | --- | --- |");
        for param in entry.params {
            let _ = writeln!(text, "| `{}` | `{}` | {} | {} |", param.name, param.default, param.kind, param.about);
        }
    }
    text.push_str(NOT_HERE);
    text
}
