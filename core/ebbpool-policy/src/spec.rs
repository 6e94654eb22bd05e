//! Policy specifications such as `cfdc:window=0.5,cluster=64`: parameters, parsing, canonical
//! spelling.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::spec::{self, Parameter, ParameterError, Whole, WholeOrWord};
use ebbpool_cost::{Decimal, did_you_mean};

use crate::policy::Capabilities;
use crate::registry;

/// The description of a policy, from which the registry, `--help`, `docs/generated/policies.md` and error
/// messages are made.
#[derive(Debug)]
pub struct PolicyEntry {
    /// The contract name, such as `cflru-c`.
    pub name: &'static str,
    /// Other names, each with the parameters it presets.
    pub aliases: &'static [(&'static str, &'static str)],
    /// The parameters, in canonical order.
    pub params: &'static [PolicyParameter],
    /// One sentence: which pages it keeps and which it evicts.
    pub summary: &'static str,
    /// How it works: what it stores, what a hit changes, how it finds the victim.
    pub how: &'static str,
    /// When to use it, what it is good and bad at, and which paper says so.
    pub when: &'static str,
    /// What it asks and does, with any parameters, apart from policies that it wraps.
    pub capabilities: Capabilities,
    /// The memory that it takes.
    pub memory: MemoryUse,
    /// Where it was published, and which of the project's papers evaluate it.
    pub source: &'static str,
}

/// The text of the file beside the policy as one line, for an entry whose text is longer than a few sentences.
macro_rules! text_beside {
    ($file:literal) => {{
        const TEXT: &[u8] = include_bytes!($file);
        const LINE: [u8; TEXT.len() - 1] = $crate::spec::one_line(TEXT);
        match str::from_utf8(&LINE) {
            Ok(line) => line,
            Err(_) => panic!("the text is not UTF-8"),
        }
    }};
}
pub(crate) use text_beside;

/// `text` with blanks for the ends of its lines, and without the last, which is one byte.
pub(crate) const fn one_line<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    assert!(text.len() == LENGTH + 1 && text[LENGTH] == b'\n', "a text ends with a newline");
    let mut line = [b' '; LENGTH];
    let mut at = 0;
    while at < LENGTH {
        if text[at] != b'\n' {
            line[at] = text[at];
        }
        at += 1;
    }
    line
}

/// Memory that a policy takes with default parameters once warm, in bytes per frame; a test measures
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The order of the resident pages, where their numbers lie close together.
    pub order: u32,
    /// The order of the resident pages, where each has an erase block or cluster of its own, which has a number, counts and
    /// mostly an entry in a heap.
    pub order_scattered: u32,
    /// Ghosts, and the data from which the policy makes estimates.
    pub ghosts: u32,
}

impl MemoryUse {
    /// `order` bytes wherever the pages lie, and no ghosts.
    pub const fn new(order: u32) -> Self {
        MemoryUse { order, order_scattered: order, ghosts: 0 }
    }

    /// Sets the bytes for the order where each page has an erase block or cluster of its own.
    pub const fn scattered(self, order_scattered: u32) -> Self {
        MemoryUse { order_scattered, ..self }
    }

    /// Sets the bytes for ghosts and estimates.
    pub const fn with_ghosts(self, ghosts: u32) -> Self {
        MemoryUse { ghosts, ..self }
    }
}

/// A parameter of a policy.
pub type PolicyParameter = Parameter<ParameterKind>;

/// The values a parameter takes.
#[derive(Debug)]
pub enum ParameterKind {
    /// An exact decimal from 0 to 1.
    Share,
    /// An exact decimal above 0 and up to 1, printed as a percentage.
    Percent,
    /// A share of the frames (per cent sign or decimal point) or a bare number of pages.
    ShareOrPages,
    /// Whole numbers, or a word if there is one.
    Whole(Whole),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Another policy, in parentheses if it has parameters.
    Policy {
        /// The capabilities that it may have.
        serves: Capabilities,
    },
    /// Other policies, in parentheses.
    Policies {
        /// How many there can be.
        most: usize,
        /// The capabilities that they may have.
        serves: Capabilities,
    },
}

/// The write-clustering parameter of TC sections 4.5 and 5.1, shared by many policies.
pub const CLUSTER: PolicyParameter = PolicyParameter {
    name: "cluster",
    kind: ParameterKind::Whole(Whole::new(0, MAX_PAGES).or("auto")),
    default: "0",
    about: "pages per write cluster; 0 is off, auto the device's erase block",
};

/// The window parameter of CFLRU and its kin.
pub const WINDOW: PolicyParameter = PolicyParameter {
    name: "window",
    kind: ParameterKind::Share,
    default: "0.5",
    about: "share of the frames, at the LRU end, in which victims are looked for",
};

/// The block parameter of policies that group pages by the device's erase blocks.
pub const BLOCK: PolicyParameter = PolicyParameter {
    name: "block",
    kind: ParameterKind::Whole(Whole::new(1, MAX_PAGES)),
    default: "64",
    about: "pages per erase block (PPE: 16)",
};

/// The most pages a cluster or erase block may have.
pub const MAX_PAGES: u64 = 1 << 20;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An exact decimal.
    Decimal(Decimal),
    /// A whole number.
    Whole(u64),
    /// A word.
    Word(&'static str),
    /// A policy with its parameters.
    Policy(Box<PolicySpec>),
    /// Policies with their parameters.
    Policies(Vec<PolicySpec>),
}

impl Value {
    /// The policies that the value consists of.
    fn policies(&self) -> &[PolicySpec] {
        match self {
            Value::Policy(spec) => std::slice::from_ref(&**spec),
            Value::Policies(specs) => specs,
            _ => &[],
        }
    }

    fn policies_mut(&mut self) -> &mut [PolicySpec] {
        match self {
            Value::Policy(spec) => std::slice::from_mut(&mut **spec),
            Value::Policies(specs) => specs,
            _ => &mut [],
        }
    }
}

/// Why a value was refused.
enum Refusal {
    /// It is not in the range.
    OutOfRange,
    /// It is a policy, and refused as such.
    Policy(SpecError),
}

impl ParameterKind {
    /// Reads a value.
    fn parse(&self, text: &str) -> Result<Value, Refusal> {
        let fraction = || text.parse::<Decimal>().ok();
        let value = match self {
            ParameterKind::Share => fraction().filter(|share| !share.exceeds_one()).map(Value::Decimal),
            ParameterKind::Percent => fraction().filter(|share| !share.exceeds_one() && !share.is_zero()).map(Value::Decimal),
            ParameterKind::ShareOrPages if text.contains(['%', '.']) => {
                return ParameterKind::Share.parse(text);
            }
            ParameterKind::ShareOrPages => Whole::new(0, u64::MAX).number(text).map(Value::Whole),
            ParameterKind::Whole(whole) => whole.read(text).map(|value| match value {
                WholeOrWord::Number(number) => Value::Whole(number),
                WholeOrWord::Word(word) => Value::Word(word),
            }),
            ParameterKind::Word(words) => spec::word(words, text).map(Value::Word),
            ParameterKind::Policy { serves } => return self.parse_policy(text, *serves),
            ParameterKind::Policies { most, serves } => {
                return self.parse_policies(text, *most, *serves);
            }
        };
        value.ok_or(Refusal::OutOfRange)
    }

    fn parse_policy(&self, text: &str, serves: Capabilities) -> Result<Value, Refusal> {
        let spec = self.parse_wrapped(self.unwrap(text)?, serves)?;
        Ok(Value::Policy(Box::new(spec)))
    }

    fn parse_policies(&self, text: &str, most: usize, serves: Capabilities) -> Result<Value, Refusal> {
        let specs = split_list(self.unwrap(text)?)
            .iter()
            .map(|text| self.parse_wrapped(text, serves))
            .collect::<Result<Vec<_>, _>>()?;
        match (1..=most).contains(&specs.len()) {
            true => Ok(Value::Policies(specs)),
            false => Err(Refusal::OutOfRange),
        }
    }

    /// The text inside the parentheses, which a single name need not have.
    fn unwrap<'a>(&self, text: &'a str) -> Result<&'a str, Refusal> {
        match spec::inside_parentheses(text) {
            Ok(Some(inside)) => Ok(inside),
            Ok(None) if !text.contains([':', '(', ')']) => Ok(text),
            _ => Err(Refusal::OutOfRange),
        }
    }

    fn parse_wrapped(&self, text: &str, serves: Capabilities) -> Result<PolicySpec, Refusal> {
        // Checked before the rest is parsed, so that no text makes this function recurse deeply.
        let (name, _) = spec::split_name(text);
        if named(name).is_some_and(|(entry, _)| !entry.can_be_wrapped(serves)) {
            return Err(Refusal::OutOfRange);
        }
        text.parse().map_err(Refusal::Policy)
    }

    fn spell(&self, value: &Value) -> String {
        match (self, value) {
            (ParameterKind::Percent | ParameterKind::ShareOrPages, Value::Decimal(fraction)) => fraction.percent(),
            (_, Value::Decimal(fraction)) => fraction.to_string(),
            (_, Value::Whole(number)) => number.to_string(),
            (_, Value::Word(word)) => word.to_string(),
            (_, Value::Policy(spec)) => match spec.to_string() {
                spelled if spelled.contains(':') => format!("({spelled})"),
                name => name,
            },
            (_, Value::Policies(specs)) => {
                let spelled: Vec<String> = specs.iter().map(PolicySpec::to_string).collect();
                format!("({})", spelled.join(","))
            }
        }
    }
}

/// The values allowed, in words.
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterKind::Share => f.write_str("0 to 1, or 0% to 100%"),
            ParameterKind::Percent => f.write_str("above 0% to 100%"),
            ParameterKind::ShareOrPages => f.write_str("0% to 100% (or 0.0 to 1.0) of the frames, or a number of pages"),
            ParameterKind::Whole(whole) => whole.fmt(f),
            ParameterKind::Word(words) => f.write_str(&spec::alternatives(words)),
            ParameterKind::Policy { .. } => {
                f.write_str("a policy that wraps none itself and is not that of a server, in parentheses if it has parameters")
            }
            ParameterKind::Policies { most, .. } => write!(
                f,
                "1 to {most} online policies that wrap none themselves, are not those of servers and ask for no erase counts, in parentheses"
            ),
        }
    }
}

/// The value where none is given; `None` if the parameter does not take its own default.
pub(crate) fn default_value(parameter: &PolicyParameter) -> Option<Value> {
    parameter.kind.parse(parameter.default).ok()
}

impl PolicyEntry {
    /// True if one of its parameters is a policy, or policies.
    pub fn wraps_a_policy(&self) -> bool {
        let mut kinds = self.params.iter().map(|param| &param.kind);
        kinds.any(|kind| matches!(kind, ParameterKind::Policy { .. } | ParameterKind::Policies { .. }))
    }

    /// False for policies that look into the future, or know probabilities that no program knows.
    pub fn online(&self) -> bool {
        !self.capabilities.intersects(Capabilities::OFFLINE)
    }

    /// True if a policy may wrap this one that serves these capabilities: it has no others, and wraps none itself.
    pub fn can_be_wrapped(&self, serves: Capabilities) -> bool {
        !self.wraps_a_policy() && serves.contains(self.capabilities.wrapped())
    }
}

/// The entry of that name or alias, with the parameters that the alias presets.
fn named(name: &str) -> Option<(&'static PolicyEntry, &'static str)> {
    registry::entries().iter().find_map(|entry| {
        if entry.name == name {
            return Some((entry, ""));
        }
        let mut aliases = entry.aliases.iter();
        let (_, preset) = aliases.find(|(alias, _)| *alias == name)?;
        Some((entry, *preset))
    })
}

/// A policy with its parameters; prints in canonical spelling: the name and the parameters that
/// differ from their defaults.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    pub(crate) entry: &'static PolicyEntry,
    values: Vec<Value>,
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.values == other.values
    }
}

impl Eq for PolicySpec {}

/// Why a specification was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no policy of that name.
    #[error("unknown policy '{name}'{suggestion}; the policies are: {all}")]
    UnknownPolicy {
        /// The name as given.
        name: String,
        /// "did you mean" the most similar one, if one is similar.
        suggestion: String,
        /// The names of all policies.
        all: String,
    },
    /// Its parameters are refused.
    #[error("policy {policy}: {error}")]
    Parameter {
        /// The policy.
        policy: &'static str,
        /// Why they are refused.
        error: ParameterError,
    },
    /// The policy that a parameter names is refused.
    #[error("policy {policy}: {param}: {error}")]
    Wrapped {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        param: &'static str,
        /// Why it is refused.
        error: Box<SpecError>,
    },
}

impl PolicySpec {
    /// The registry's entry.
    pub fn entry(&self) -> &'static PolicyEntry {
        self.entry
    }

    /// `entry` with all parameters at their defaults.
    pub fn from_entry(entry: &'static PolicyEntry) -> Self {
        let default = |param: &PolicyParameter| {
            let value = default_value(param);
            debug_assert!(value.is_some(), "{}: {}", entry.name, param.name);
            value.unwrap_or(Value::Whole(0))
        };
        PolicySpec { entry, values: entry.params.iter().map(default).collect() }
    }

    /// A parameter's value; `None` if the policy has no such parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        let at = self.entry.params.iter().position(|p| p.name == name)?;
        self.values.get(at).cloned()
    }

    /// A parameter's value in canonical spelling; `None` if the policy has no such parameter.
    pub fn spelled(&self, name: &str) -> Option<String> {
        let param = self.entry.params.iter().find(|p| p.name == name)?;
        Some(param.kind.spell(&self.value(name)?))
    }

    /// The policies that this one wraps.
    pub fn wrapped(&self) -> impl Iterator<Item = &PolicySpec> {
        self.values.iter().flat_map(Value::policies)
    }

    /// What the policy asks and does, with any parameters, and what the policies ask and do that it wraps.
    pub fn capabilities(&self) -> Capabilities {
        let wrapped = self.wrapped().map(|wrapped| wrapped.capabilities().wrapped());
        wrapped.fold(self.entry.capabilities, Capabilities::union)
    }

    /// False if the policy, or one that it wraps, looks into the future, or knows probabilities that no program knows.
    pub fn online(&self) -> bool {
        !self.capabilities().intersects(Capabilities::OFFLINE)
    }

    /// True if the costs of a read and a write change the choices of the policy, or of one that it
    /// wraps.
    pub fn looks_at_costs(&self) -> bool {
        self.capabilities().contains(Capabilities::COSTS)
    }

    /// True if the policy, or one that it wraps, requires erase counts.
    pub fn asks_erase_counts(&self) -> bool {
        self.capabilities().contains(Capabilities::ERASE_COUNTS)
    }

    /// True if the parameter has this word.
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        matches!(self.value(name), Some(Value::Word(is)) if is == word)
    }

    /// True if the policy, or one that it wraps, has blocks written whole, with pages that no caller has changed.
    pub fn pads(&self) -> bool {
        self.has_word("padding", "true") || self.wrapped().any(PolicySpec::pads)
    }

    /// True if a parameter stands for the size of the device's erase block.
    pub fn asks_erase_block(&self) -> bool {
        self.has_word("cluster", "auto") || self.wrapped().any(PolicySpec::asks_erase_block)
    }

    /// The policy for a device whose erase blocks have `pages` pages, which replaces
    /// `cluster=auto`.
    pub fn on_erase_blocks(mut self, pages: u64) -> Self {
        let auto = self.has_word("cluster", "auto");
        for (param, value) in self.entry.params.iter().zip(&mut self.values) {
            match value {
                Value::Word(_) if auto && param.name == "cluster" => {
                    *value = Value::Whole(pages.clamp(1, MAX_PAGES));
                }
                _ => {
                    for wrapped in value.policies_mut() {
                        *wrapped = wrapped.clone().on_erase_blocks(pages);
                    }
                }
            }
        }
        self
    }

    /// The policy with other values where `change` returns one, also in the policies that it wraps.
    /// The value must be of its parameter's kind and in its range.
    pub fn with_values(mut self, change: &impl Fn(&PolicyParameter, &Value) -> Option<Value>) -> Self {
        for (param, value) in self.entry.params.iter().zip(&mut self.values) {
            for wrapped in value.policies_mut() {
                *wrapped = wrapped.clone().with_values(change);
            }
            if let Some(changed) = change(param, value) {
                *value = changed;
            }
        }
        self
    }

    fn set(&mut self, assignments: &str) -> Result<(), SpecError> {
        let policy = self.entry.name;
        let refused = |error| SpecError::Parameter { policy, error };
        for (at, value) in spec::assignments(assignments, self.entry.params).map_err(refused)? {
            let param = &self.entry.params[at];
            self.values[at] = param.kind.parse(value).map_err(|refusal| match refusal {
                Refusal::OutOfRange => refused(param.refuse(value)),
                Refusal::Policy(error) => SpecError::Wrapped { policy, param: param.name, error: Box::new(error) },
            })?;
        }
        Ok(())
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, assignments) = spec::split_name(text);
        if let Some((entry, preset)) = named(name) {
            let mut spec = PolicySpec::from_entry(entry);
            // What an alias presets is given, and cannot be given again.
            match (preset, assignments.unwrap_or_default()) {
                ("", given) => spec.set(given)?,
                (preset, given) => spec.set(&[preset, given].join(","))?,
            }
            return Ok(spec);
        }
        let names = || {
            registry::entries()
                .iter()
                .flat_map(|entry| std::iter::once(entry.name).chain(entry.aliases.iter().map(|(alias, _)| *alias)))
        };
        Err(SpecError::UnknownPolicy {
            name: name.into(),
            suggestion: did_you_mean(name, names()),
            all: names().collect::<Vec<_>>().join(" "),
        })
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry.name)?;
        let defaults = PolicySpec::from_entry(self.entry);
        let mut separator = ':';
        for ((param, value), default) in self.entry.params.iter().zip(&self.values).zip(&defaults.values) {
            if value != default {
                write!(f, "{separator}{}={}", param.name, param.kind.spell(value))?;
                separator = ',';
            }
        }
        Ok(())
    }
}

/// Splits a list of policies at commas. An item with `=` and no `:` before it continues the policy
/// before it, and commas inside parentheses do not separate.
///
/// ```
/// let list = ebbpool_policy::split_list("lru,cfdc:window=0.5,cluster=64");
/// assert_eq!(list, ["lru", "cfdc:window=0.5,cluster=64"]);
/// ```
pub fn split_list(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    // Where the parentheses do not match, the whole list is one piece, which the parser refuses.
    for piece in spec::parts(list).unwrap_or_else(|_| vec![list.trim()]) {
        let head = piece.split('=').next().unwrap_or("");
        let continues = piece.contains('=') && !head.contains(':');
        match items.last_mut() {
            Some(last) if continues => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(piece);
            }
            _ if piece.is_empty() => {}
            _ => items.push(piece.into()),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, SpecError> {
        text.parse::<PolicySpec>().map(|spec| spec.to_string())
    }

    #[test]
    fn canonical_spelling_leaves_defaults_out() {
        for (text, spelled) in [
            ("cflru:window=50%", "cflru"),
            ("cflru:", "cflru"),
            ("cflru:window=.250", "cflru:window=0.25"),
            ("cfdc:cluster=16,window=0.5", "cfdc:cluster=16"),
            ("fd-exact", "fd-buffer:cost=exact"),
            ("fd-exact:group=64", "fd-buffer:group=64,cost=exact"),
            ("fd-static:clean=0.25", "fd-static:clean=25%"),
            ("fd-static:clean=25", "fd-static:clean=25"),
            ("fd-buffer:interval=auto,q=.5%", "fd-buffer:interval=auto,q=0.5%"),
            ("lru:cluster=auto", "lru:cluster=auto"),
            ("ace", "ace"),
            ("ace:batch=4,policy=( clock )", "ace:policy=clock,batch=4"),
            ("ace:policy=(fd-exact:group=4,interval=9),batch=8", "ace:policy=(fd-buffer:interval=9,group=4,cost=exact)"),
            ("ace:policy=(cflru:window=50%)", "ace:policy=cflru"),
            ("auto:experts=lru", "auto:experts=(lru)"),
            ("auto:lead=9,experts=(cflru:window=.25,cluster=4,lru)", "auto:experts=(cflru:window=0.25,cluster=4,lru),lead=9"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(spelled));
        }
    }

    #[test]
    fn refusals_name_the_nearest_and_the_range() {
        let message = |text: &str| canonical(text).unwrap_err().to_string();
        assert!(message("lur").contains("did you mean 'lru'?"));
        assert!(message("cflru:windwo=1").contains("did you mean 'window'?"));
        assert!(message("cflru:window=1.5").contains("0 to 1"));
        assert!(message("fd-buffer:interval=0").contains("a whole number from 1 to "));
        assert!(message("fd-exact:cost=paper").contains("given twice"));
        assert!(message("cflru:window").contains("'window' is not of the form NAME=VALUE"));
        assert!(message("belady:x=1").contains("it takes no parameters"));
        assert!(!message("").contains("did you mean"));
        assert!(message("ace:policy=lur").contains("policy ace: policy: unknown policy 'lur'"));
        assert!(message("ace:policy=(cflru:window=2)").contains("cflru: window=2: expected 0 to 1"));
        assert!(message("ace:policy=cflru:window=1").contains("in parentheses"));
        assert!(message("ace:policy=(lru").contains("policy ace: 'policy=(lru': the parentheses"));
        for (depth, auto, ace) in [
            (2, "that wrap none themselves", "a policy that wraps none itself"),
            (100_000, "nested more than 8 deep", "nested more than 8 deep"),
        ] {
            let nested = "auto:experts=(".repeat(depth) + "lru" + &")".repeat(depth);
            assert!(message(&nested).contains(auto));
            let nested = "ace:policy=(".repeat(depth) + "lru" + &")".repeat(depth);
            assert!(message(&nested).contains(ace));
        }
        for name in ["postgres", "innodb:rate=100", "sqlite:commit=90"] {
            assert!(message(&format!("ace:policy=({name})")).contains("not that of a server"));
            assert!(message(&format!("auto:experts=(lru,{name})")).contains("not those of servers"));
        }
        for text in [
            "", ":", "lru:cluster=-1", "cfdc:keys=then", "ace:policy=", "ace:policy=()", "ace:policy=(lru", "ace:policy=lru)",
            "auto:experts=()", "auto:experts=(lru", "auto:experts=(belady)", "auto:experts=(cflru-e)",
            "auto:experts=(lru,ace)", "auto:experts=(lru,lru,lru,lru,lru,lru,lru,lru,lru)",
        ] {
            assert!(!message(text).contains('\n'), "{text}");
        }
    }

    #[test]
    fn lists_split_as_the_contract_says() {
        assert_eq!(split_list("lru, cflru:window=1,casa"), ["lru", "cflru:window=1", "casa"]);
        assert_eq!(split_list("lru,cluster=64"), ["lru:cluster=64"]);
        assert_eq!(
            split_list("ace:policy=(cflru:window=0.5,x=1),batch=8,lru"),
            ["ace:policy=(cflru:window=0.5,x=1),batch=8", "lru"]
        );
    }
}
