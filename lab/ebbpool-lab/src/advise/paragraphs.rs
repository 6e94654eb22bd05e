//! An advice in sections for a page: sentences and tables.

use std::cmp::Ordering;

use ebbpool_cost::one_line;

use super::load::life_of;
use super::notes::duration;
use super::{Advice, BreakEven, ClockSource, MeasuredDay, MemoryPoint, ServerSetting, SystemLoad};
use crate::checkpoints::CheckpointSchedule;
use crate::device_life::DeviceLife;
use crate::knee::WORTH_DOUBLING;
use crate::money::dollars;
use crate::numbers::{cheaper_or_dearer, decimals, digits, frames_and_bytes, grouped, less_or_more, pace, rounded, saving};

/// A section of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdviceParagraph {
    /// The title.
    pub title: &'static str,
    /// Sentences without a full stop, each a line of its own.
    pub sentences: Vec<String>,
    /// A table below them.
    pub table: Option<AdviceTable>,
}

/// A table of texts. The first column is to be aligned left, the others right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdviceTable {
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows, each with as many cells.
    pub rows: Vec<Vec<String>>,
}

impl AdviceParagraph {
    fn new(title: &'static str, sentences: Vec<String>, table: Option<AdviceTable>) -> Self {
        AdviceParagraph { title, sentences, table }
    }
}

pub(super) fn of_advice(advice: &Advice) -> Vec<AdviceParagraph> {
    let mut paragraphs = vec![
        AdviceParagraph::new("Answer", answer(advice), None),
        AdviceParagraph::new("Reads and writes", rates(advice), Some(loads(advice))),
        AdviceParagraph::new("Memory", knee(advice), Some(curve(advice))),
        AdviceParagraph::new("R, the cost of a page write in page reads", asymmetry(advice), None),
        AdviceParagraph::new("Life of the device", life(advice), None),
    ];
    if advice.keeps_policy {
        paragraphs.push(other_policies(advice));
    }
    if !advice.warnings.is_empty() {
        let warnings = advice.warnings.iter().map(|note| note.text.clone());
        paragraphs.push(AdviceParagraph::new("Warnings", warnings.collect(), None));
    }
    let (sentences, table) = knobs(advice);
    if !sentences.is_empty() || table.is_some() {
        paragraphs.push(AdviceParagraph::new("Settings of the running server", sentences, table));
    }
    paragraphs
}

fn memory(advice: &Advice, frames: u64) -> String {
    frames_and_bytes(frames, advice.page_size)
}

/// A size of the memory as a server's setting has it, such as `256MB`.
pub(super) fn setting(advice: &Advice, frames: u64) -> String {
    advice.server.size_value(frames, advice.page_size)
}

/// PostgreSQL's default interval between checkpoints.
const DEFAULT_INTERVAL: &str = "5min";

/// $ a month at a size of the curve.
fn cost_of(advice: &Advice, frames: u64) -> Option<f64> {
    advice.curve.iter().find(|point| point.frames == frames)?.dollars_per_month
}

/// The setting of a server for its memory, and what this saves.
fn by_size(advice: &Advice, server: &str) -> Vec<String> {
    let Advice { now, then, .. } = advice;
    let name = advice.server.size_setting();
    let threshold = rounded(100.0 * WORTH_DOUBLING);
    let pays_up_to = |knee: Option<u64>| match advice.cheapest_frames.or(knee) {
        Some(cheapest) if advice.cheapest_frames.is_some() && cheapest == then.frames => {
            "No other size costs less a month".into()
        }
        Some(cheapest) if advice.cheapest_frames.is_some() && cheapest < then.frames => {
            format!("By estimate {} would cost less, {}", memory(advice, cheapest), in_dollars(cost_of(advice, cheapest)))
        }
        Some(knee) if knee > then.frames => format!("More memory than that pays up to {}", memory(advice, knee)),
        Some(_) => {
            format!("More memory than that hardly pays: each further doubling would save less than {threshold} % of the bill")
        }
        None => "More memory than that still pays".into(),
    };
    let knee = advice.knee.as_ref().map(|knee| knee.frames);
    let largest = advice.curve.last().map_or(now.frames, |point| point.frames);
    let enough = |frames: u64, why: String| {
        vec![format!("Keep {name} = {}: {} is enough, {why}", setting(advice, now.frames), memory(advice, frames))]
    };
    match then.frames.cmp(&now.frames) {
        Ordering::Equal if advice.cheapest_frames.is_some_and(|cheapest| cheapest != now.frames) => {
            let cheapest = advice.cheapest_frames.unwrap_or(now.frames);
            vec![format!(
                "Keep {name} = {} unless it may be {}, which costs {} a month instead of {}",
                setting(advice, now.frames),
                memory(advice, cheapest),
                in_dollars(cost_of(advice, cheapest)),
                in_dollars(now.dollars_per_month)
            )]
        }
        Ordering::Equal if advice.cheapest_frames.is_some() => {
            vec![format!("Keep {name} = {}: no other size costs less a month", setting(advice, now.frames))]
        }
        Ordering::Equal if now.frames >= advice.distinct_pages => {
            let why = format!(
                "because the trace requests no more pages, and the buffer of {server} has {}",
                memory(advice, now.frames)
            );
            enough(advice.distinct_pages, why)
        }
        Ordering::Equal if knee.is_some_and(|knee| knee <= now.frames) => enough(
            knee.unwrap_or(now.frames),
            format!("because each further doubling would save less than {threshold} % of the bill"),
        ),
        Ordering::Equal => match advice.curve.iter().rev().find_map(|point| saving(point.cost_now, now.cost)) {
            Some(saved) if saved >= 100.0 * WORTH_DOUBLING => vec![
                format!("Keep {name} = {} unless it may have more memory", setting(advice, now.frames)),
                format!("More memory pays: {} would save {saved:.0} % of the bill", memory(advice, largest)),
            ],
            saved => {
                let why = format!(
                    "because {} would save {:.0} % of the bill",
                    memory(advice, largest),
                    saved.unwrap_or(0.0).max(0.0)
                );
                enough(now.frames, why)
            }
        },
        order => {
            let sizes = [then, now].map(|load| setting(advice, load.frames));
            let changed = |value: f64, before: f64| percent(saving(value, before));
            let life = then.life().map_or_else(String::new, |life| format!(", life {}{life}", longest(advice)));
            let money = then.dollars_per_month.zip(now.dollars_per_month);
            let money = money
                .map(|(then, now)| (dollars(then), dollars(now)))
                .filter(|(then, now)| then != now)
                .map_or_else(String::new, |(then, now)| format!(", {then} a month instead of {now}"));
            let text = format!(
                "Set {name} = {} (now {}): reads {}, writes {}, bill {}{life}{money}",
                sizes[0],
                sizes[1],
                changed(then.reads_per_reference, now.reads_per_reference),
                changed(then.writes_per_reference, now.writes_per_reference),
                changed(then.cost, now.cost)
            );
            let is_priced = advice.cheapest_frames.is_some();
            let more = (order == Ordering::Greater || is_priced).then(|| pays_up_to(knee));
            std::iter::once(text).chain(more).collect()
        }
    }
}

/// A saving as a change, such as `-33 %`.
fn percent(saved: Option<f64>) -> String {
    let text = saved.map_or_else(|| "-".into(), |saved| format!("{:+.0} %", -saved));
    text.replace("-0 %", "+0 %")
}

/// What the settings of a known server can do: memory first, then each setting with its effect.
fn by_settings(advice: &Advice) -> Vec<String> {
    let Some(server) = advice.server.name() else {
        return Vec::new();
    };
    let sizes = if advice.keeps_policy { by_size(advice, server) } else { Vec::new() };
    let knobs = advice.knobs.iter().filter(|knob| knob.simulated && knob.setting != advice.server.size_setting());
    let settings = knobs.filter_map(|knob| {
        let (from, to) = (knob.from.as_deref()?, knob.to.as_deref()?);
        let life = life_of(knob.life_years, knob.life_range_years);
        let at_most = longest(advice);
        let life = life.map_or_else(String::new, |life| format!(", life {at_most}{life}"));
        let is_default = advice.checkpoints.is_none() && from == DEFAULT_INTERVAL;
        let default = if is_default { format!(", {server}'s default") } else { String::new() };
        let [reads, writes] = [knob.saves_reads, knob.saves_writes].map(percent);
        Some(format!("Set {} = {to} (now {from}{default}): reads {reads}, writes {writes}{life}", knob.setting))
    });
    let cached = advice.cached_reads.map(|cached| {
        let share = 100.0 * cached.share;
        format!("The kernel's cache answers {share:.0} % of the reads now, which then cost the device nothing")
    });
    sizes.into_iter().chain(cached).chain(settings).collect()
}

/// What the policies would save that the server cannot have.
fn other_policies(advice: &Advice) -> AdviceParagraph {
    let Advice { now, then, .. } = advice;
    let server = advice.server.name().unwrap_or("the system");
    let mut sentences = vec![format!(
        "{server} has no setting for its policy; a system that can choose one is, for example, a pool of Ebbpool"
    )];
    sentences.push(match &advice.other_policy {
        Some(other) => {
            format!(
                "With {} {} is {} than {}",
                memory(advice, then.frames),
                other.policy,
                cheaper_or_dearer(&change(other.cost, then.cost)),
                now.policy
            )
        }
        None => format!("With {} no policy tried is cheaper than {}", memory(advice, then.frames), now.policy),
    });
    if let Some(better) = better_in_present_memory(advice).filter(|_| then.frames != now.frames) {
        let cheaper = cheaper_or_dearer(&change(better.best_cost, now.cost));
        sentences.push(format!("With the present {} {} is {cheaper}", memory(advice, now.frames), better.best_policy));
    }
    let best = advice.other_policy.as_ref().map_or(&then.policy, |other| &other.policy);
    sentences.extend(advice.breakevens.iter().map(|it| breakeven(best, it)));
    AdviceParagraph::new("What another policy could save", sentences, None)
}

/// What the device takes now, and what a further cache would save of it.
fn below_cache(advice: &Advice) -> Vec<String> {
    let Advice { now, then, .. } = advice;
    let amount = |load: &SystemLoad| match load.bytes_written_per_day {
        Some(bytes) => format!("{} a day", daily(bytes)),
        None => format!("{} pages a reference", decimals(load.writes_per_reference, 4)),
    };
    let lives = |load: &SystemLoad| {
        let life = load.life().map(|life| format!("; the device lives {life}"));
        life.unwrap_or_default()
    };
    let cache = format!("A further cache of {} under {}", memory(advice, then.frames), then.policy);
    let saved = saving(then.writes_per_reference, now.writes_per_reference);
    let saves = match saved.map(f64::round) {
        Some(saved) if saved > 0.0 => format!("saves {saved} % of these writes, and leaves {}", amount(then)),
        _ => "saves none of these writes".into(),
    };
    let mut sentences = vec![
        format!(
            "The trace was recorded below a cache, so that its writes are those of the device: {}{}",
            amount(now),
            lives(now)
        ),
        format!("{cache} {saves}{}", lives(then)),
    ];
    if now.reads > 0 {
        sentences.push(format!(
            "It reads {} than now; a page of which a request writes a part, and that is not in the cache, is read first",
            less_or_more(then.reads_per_reference, now.reads_per_reference)
        ));
    }
    sentences
}

/// `21 % less`, `3 % more` or `no less`, with a decimal below one half per cent: an advice that saves so little does not say
/// "no less".
pub(super) fn change(value: f64, baseline: f64) -> String {
    match saving(value, baseline) {
        Some(saved) if saved > 0.0 && saved < 0.05 => "less than 0.1 % less".into(),
        Some(saved) if (0.05..0.5).contains(&saved) => format!("{saved:.1} % less"),
        _ => less_or_more(value, baseline),
    }
}

/// `falls by 21 %`, `rises by 3 %` or `stays the same`.
fn falls(value: f64, baseline: f64) -> String {
    let change = change(value, baseline);
    match (change.strip_suffix(" less").filter(|share| *share != "no"), change.strip_suffix(" more")) {
        (Some(share), _) => format!("falls by {share}"),
        (None, Some(share)) => format!("rises by {share}"),
        (None, None) => "stays the same".into(),
    }
}

fn assumed(advice: &Advice) -> Option<String> {
    let assumptions = advice.assumptions.iter().map(|note| note.text.clone());
    let assumptions: Vec<String> = assumptions.collect();
    (!assumptions.is_empty()).then(|| format!("Assumed: {}", assumptions.join("; ")))
}

fn answer(advice: &Advice) -> Vec<String> {
    let Advice { now, then, same_memory, .. } = advice;
    if advice.uncached {
        return below_cache(advice).into_iter().chain(assumed(advice)).collect();
    }
    let mut sentences = by_settings(advice);
    if advice.keeps_policy {
        sentences.extend(assumed(advice));
        return sentences;
    }
    let same_policy = then.policy == now.policy;
    let with = memory(advice, then.frames);
    let falls = falls(then.cost, now.cost);
    let before = memory(advice, now.frames);
    sentences.push(match (same_policy, then.frames == now.frames) {
        (true, true) => format!("Keep {} with {with}: no policy tried is cheaper with this memory", now.policy),
        (true, false) => format!("Keep {}, with {with} instead of {before}: the bill {falls}", now.policy),
        (false, true) => format!("With {} instead of {} in the same {with} the bill {falls}", then.policy, now.policy),
        (false, false) => {
            format!("With {} instead of {}, and {with} instead of {before}, the bill {falls}", then.policy, now.policy)
        }
    });
    if let Some((of_then, of_now)) = then.dollars_per_month.zip(now.dollars_per_month) {
        let least = match advice.cheapest_frames {
            Some(cheapest) if cheapest == then.frames => "; no other size costs less".into(),
            Some(cheapest) => format!("; {} would cost the least", memory(advice, cheapest)),
            None => String::new(),
        };
        sentences.push(format!("That is {} a month instead of {}{least}", dollars(of_then), dollars(of_now)));
    }
    if then.frames != now.frames {
        let alone = (!same_policy)
            .then(|| format!("{} alone is {}", then.policy, cheaper_or_dearer(&change(same_memory.cost, now.cost))));
        let better = better_in_present_memory(advice);
        let better = better.map(|it| format!("{} is {}", it.best_policy, cheaper_or_dearer(&change(it.best_cost, now.cost))));
        let costs: Vec<String> = alone.into_iter().chain(better).collect();
        if !costs.is_empty() {
            sentences.push(format!("With the present {before} {}", costs.join(", and ")));
        }
    }
    sentences.extend(assumed(advice));
    sentences
}

/// The best policy with the present memory, by runs over the whole trace, unless it is the recommended or the present one.
fn better_in_present_memory(advice: &Advice) -> Option<&MemoryPoint> {
    let now = &advice.now;
    let mut points = advice.curve.iter();
    let best = points.find(|point| point.frames == now.frames)?;
    // A simulated device bills what the curve leaves out: its present bill is another one there.
    let is_exact = best.error == Some(0.0) && best.cost_now == now.cost;
    let is_better = best.best_cost < advice.same_memory.cost.min(now.cost);
    (is_exact && is_better).then_some(best)
}

fn rates(advice: &Advice) -> Vec<String> {
    let money =
        (!advice.dollars_without.is_empty()).then(|| format!("$ a month is without {}", advice.dollars_without.join(", ")));
    let Some(arrivals) = advice.arrivals else {
        return money.into_iter().collect();
    };
    let rate = pace(arrivals.references_per_second);
    let source = match arrivals.source {
        ClockSource::Rate => "as given",
        ClockSource::Duration => "by the duration of the trace",
        ClockSource::TraceTimes => "by the times in the trace",
        ClockSource::DailyWrites => "at which the present system writes what it does in a day",
    };
    let mut sentences = vec![format!("{rate} references arrive per second, {source}")];
    let schedule: Option<CheckpointSchedule> = advice.checkpoints.as_ref().and_then(|it| it.parse().ok());
    // None falls into a shorter trace.
    let schedule = schedule.filter(|it| it.time.is_none_or(|time| time.as_secs_f64() <= arrivals.seconds));
    sentences.extend(
        schedule.map(|schedule| format!("Every system has the checkpoints of the present one, every {}", schedule.in_words())),
    );
    if advice.life.measured.is_some() {
        sentences.push(
            "Reads, writes and bytes start from what the server counted; with another setting they change as in the simulation"
                .into(),
        );
    }
    sentences.extend(money);
    sentences
}

/// Bytes in a day in decimal units, as data sheets have them, with three digits.
pub(super) fn daily(bytes: f64) -> String {
    let (scale, unit) = match bytes {
        bytes if bytes >= 1e12 => (1e12, "TB"),
        bytes if bytes >= 1e9 => (1e9, "GB"),
        _ => (1e6, "MB"),
    };
    let number = bytes / scale;
    if number >= 1e6 {
        return format!("{} {unit}", decimals(number, 0));
    }
    let places = match number {
        number if number >= 100.0 => 0,
        number if number >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.places$} {unit}")
}

/// What stands before a life that leaves writes out.
fn longest(advice: &Advice) -> &'static str {
    match advice.life.not_counted.is_empty() {
        true => "",
        false => "at most ",
    }
}

/// The name of a column of lives.
fn lives_column(advice: &Advice) -> String {
    format!("lives {}", longest(advice)).trim_end().into()
}

pub(super) fn in_dollars(amount: Option<f64>) -> String {
    amount.map_or_else(|| "-".into(), dollars)
}

pub(super) fn lives(life: Option<DeviceLife>) -> String {
    life.map_or_else(|| "-".into(), |life| life.to_string())
}

fn loads(advice: &Advice) -> AdviceTable {
    let timed = advice.arrivals.is_some();
    let knows = |known: fn(&SystemLoad) -> bool| [&advice.now, &advice.then].into_iter().any(known);
    let bytes = knows(|load| load.bytes_written_per_day.is_some());
    let busy = knows(|load| load.busy_share.is_some());
    let life = knows(|load| load.life_years.is_some());
    let per = if timed { "/s" } else { " a reference" };
    let mut header = vec![String::new()];
    header.extend(match advice.keeps_policy {
        true => vec![advice.server.size_setting().into()],
        false => vec!["policy".into(), "memory".into()],
    });
    header.push("bill".into());
    let cached = advice.cached_reads;
    header.push(format!("reads{per}"));
    header.extend(cached.map(|_| "from the device".into()));
    header.push(format!("writes{per}"));
    let money = knows(|load| load.dollars_per_month.is_some());
    let lacks = advice.life.measured.is_some() && !advice.life.not_counted.is_empty();
    let at_least = if lacks { ", at least" } else { "" };
    let optional =
        [(bytes, format!("a day{at_least}")), (busy, "busy".into()), (life, lives_column(advice)), (money, "$ a month".into())];
    header.extend(optional.into_iter().filter(|(shown, _)| *shown).map(|(_, name)| name));
    let row = |name: &str, load: &SystemLoad| {
        let number = |second: Option<f64>, reference: f64| match second {
            Some(second) => pace(second),
            None => decimals(reference, 4),
        };
        let mut cells = vec![name.to_string()];
        match advice.keeps_policy {
            true => cells.push(setting(advice, load.frames)),
            false => cells.extend([
                load.policy.clone(),
                // The frames are in the answer, and a life with its range takes their place.
                match (load.frames, load.bytes) {
                    (0, _) => "-".into(),
                    (_, Some(bytes)) => ebbpool_cost::ByteSize::new(bytes).to_string(),
                    (frames, None) => memory(advice, frames),
                },
            ]),
        }
        cells.extend([digits(load.cost), number(load.reads_per_second, load.reads_per_reference)]);
        cells.extend(cached.map(|cached| {
            let served = |reads: f64| (1.0 - cached.share) * reads;
            number(load.reads_per_second.map(served), served(load.reads_per_reference))
        }));
        cells.push(number(load.writes_per_second, load.writes_per_reference));
        let percent = |share: f64| format!("{} %", decimals(100.0 * share, 0));
        let optional = [
            (bytes, load.bytes_written_per_day.map_or_else(|| "-".into(), daily)),
            (busy, load.busy_share.map_or_else(|| "-".into(), percent)),
            (life, lives(load.life())),
            (money, in_dollars(load.dollars_per_month)),
        ];
        cells.extend(optional.into_iter().filter(|(shown, _)| *shown).map(|(_, text)| text));
        cells
    };
    let mut rows = vec![row("now", &advice.now)];
    let other_memory = advice.then.frames != advice.now.frames && !advice.uncached;
    if other_memory && advice.then.policy != advice.now.policy {
        rows.push(row("same memory", &advice.same_memory));
    }
    // Where the setting stays there is no other system.
    if !advice.keeps_policy || other_memory {
        rows.push(row("then", &advice.then));
    }
    AdviceTable { header, rows }
}

fn knee(advice: &Advice) -> Vec<String> {
    // A server keeps its policy; elsewhere the best one of each size is taken.
    let of = if advice.keeps_policy { format!("{}'s", advice.now.policy) } else { "the".into() };
    let threshold = rounded(100.0 * WORTH_DOUBLING);
    let mut sentences = vec![match &advice.knee {
        Some(knee) => format!(
            "The knee is at {}: doublings beyond it save less than {threshold} % of {of} bill",
            memory(advice, knee.frames)
        ),
        None => format!("There is no knee: the last doubling still saves {threshold} % of {of} bill or more"),
    }];
    let simulated = advice.device.as_ref().is_some_and(|device| device.starts_with("flash:"));
    if simulated {
        sentences.push("The bills below are at the device's first R; those above have its cleaning too".into());
    }
    sentences
}

fn curve(advice: &Advice) -> AdviceTable {
    let life = advice.curve.iter().any(|point| point.life_years.is_some());
    let mut header = vec!["frames".to_string()];
    header.extend(advice.page_size.map(|_| "memory".into()));
    header.extend(match (advice.keeps_policy, advice.uncached) {
        (true, _) => vec![format!("{}'s bill", advice.now.policy)],
        (false, true) => vec!["best policy".into(), "its bill".into(), "writes saved".into()],
        (false, false) => vec!["best policy".into(), "its bill".into(), format!("{}'s bill", advice.now.policy)],
    });
    let now = advice.now.writes_per_reference;
    let saved = |writes: f64| {
        let saved = saving(writes, now);
        saved.map_or_else(|| "-".into(), |saved| format!("{saved:.0} %"))
    };
    let money = advice.curve.iter().any(|point| point.dollars_per_month.is_some());
    // Between two policies' bills they would be taken for the other one's.
    let (under, its) = if advice.keeps_policy { ("", "") } else { (" under it", "its ") };
    header.extend(life.then(|| format!("{}{under}", lives_column(advice))));
    header.extend(money.then(|| format!("{its}$ a month")));
    let rows = advice.curve.iter().map(|point| {
        let mut cells = vec![grouped(point.frames)];
        let bytes = point.bytes.map(|bytes| ebbpool_cost::ByteSize::new(bytes).to_string());
        cells.extend(bytes);
        let error = match point.error {
            Some(error) if error > 0.0 => format!(" ±{:.1}%", 100.0 * error),
            _ => String::new(),
        };
        cells.extend(Some(point.policy.clone()).filter(|_| !advice.keeps_policy));
        cells.push(format!("{}{error}", digits(point.cost)));
        cells.extend(match (advice.keeps_policy, advice.uncached) {
            (true, _) => None,
            (false, true) => Some(saved(point.writes_per_reference)),
            (false, false) => Some(digits(point.cost_now)),
        });
        cells.extend(life.then(|| lives(life_of(point.life_years, point.life_range_years))));
        cells.extend(money.then(|| in_dollars(point.dollars_per_month)));
        cells
    });
    AdviceTable { rows: rows.collect(), header }
}

fn asymmetry(advice: &Advice) -> Vec<String> {
    let r = rounded(advice.asymmetry.0);
    let of = match &advice.device {
        Some(device) => format!("R = {r} on {device}"),
        None => format!("R = {r}"),
    };
    // Those of a policy that the server cannot have stand beside what it would save.
    let breakevens = advice.breakevens.iter().filter(|_| !advice.keeps_policy);
    std::iter::once(of).chain(breakevens.map(|it| breakeven(&advice.then.policy, it))).collect()
}

/// At which R a policy is the cheaper one.
fn breakeven(best: &str, it: &BreakEven) -> String {
    let against = &it.against;
    match (it.holds_from, it.holds_to) {
        // Above the present R nothing was simulated.
        (Some(from), _) if it.simulated => {
            format!("{best} is at least as cheap as {against} at each R tried from {} up to the present one", rounded(from))
        }
        (Some(from), _) => format!("{best} is at least as cheap as {against} from R = {} up", rounded(from)),
        (None, Some(to)) => format!("{best} is at least as cheap as {against} up to R = {}", rounded(to)),
        (None, None) if it.simulated => {
            format!(
                "{best} is at least as cheap as {against} at each R tried, from {} up to the present one",
                rounded(it.lowest)
            )
        }
        (None, None) => format!("{best} is at least as cheap as {against} at any R"),
    }
}

fn life(advice: &Advice) -> Vec<String> {
    let life = &advice.life;
    let mut sentences: Vec<String> = life.measured.iter().map(measured).collect();
    sentences.push(life.assumption.trim_end_matches('.').to_string());
    if let Some([low, high]) = life.range {
        sentences.push(format!("It can take {} to {} of writes before it wears out", daily(low), daily(high)));
    }
    let causes = life.causes.iter().filter(|cause| cause.writes_per_reference != 0.0);
    let causes = causes.map(|cause| {
        let amount = match cause.bytes_per_day {
            Some(bytes) => format!("{} a day", daily(bytes.abs())),
            None => format!("{} a reference", decimals(cause.writes_per_reference.abs(), 4)),
        };
        let less = if cause.writes_per_reference < 0.0 { "less " } else { "" };
        let counted = if cause.included { "" } else { " (not counted above)" };
        format!("{less}{} {amount}{counted}", cause.cause)
    });
    let causes: Vec<String> = causes.collect();
    if !causes.is_empty() {
        let begin = match advice.uncached {
            true => "Writes now",
            false => "Writes of pages now, by simulation",
        };
        sentences.push(format!("{begin}: {}", causes.join(", ")));
    }
    if !life.not_counted.is_empty() {
        sentences.push(format!("Each life is an upper limit. Not counted: {}", life.not_counted.join("; ")));
    }
    if let Some(larger) = life.larger_buffer.as_ref().filter(|it| it.life_years.is_some()) {
        sentences.push(format!(
            "With {} and {} it lives {}{}",
            larger.policy,
            memory(advice, larger.frames),
            longest(advice),
            lives(larger.life())
        ));
    }
    sentences.extend(required_life(advice));
    sentences
}

/// What was written while the trace was captured.
fn measured(day: &MeasuredDay) -> String {
    let parts = [(day.pages, "pages"), (day.log, "log")];
    let parts = parts.iter().filter_map(|(bytes, name)| {
        let bytes = bytes.as_ref()?;
        Some(format!("{} {name}", daily(*bytes)))
    });
    let parts: Vec<String> = parts.collect();
    let mut sentence = format!("Measured in {}: the server writes {} a day", duration(day.seconds), daily(day.total),);
    if !parts.is_empty() {
        sentence += &format!(", {}", parts.join(" and "));
    }
    if let Some(most) = day.most.filter(|most| *most > day.total) {
        sentence += &format!(
            "; at most {}, with log that is written again, other files{}: the lower end of each life goes by that",
            daily(most),
            match &day.device_name {
                Some(name) => format!(" and other programs on {name}"),
                None => String::new(),
            }
        );
    }
    sentence
}

fn required_life(advice: &Advice) -> Vec<String> {
    let life = &advice.life;
    let Some(required) = life.required_years else {
        return Vec::new();
    };
    let required = DeviceLife { years: required, range: None };
    let verdict = |reached: Option<bool>| match reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    let judged = match (life.range, life.not_counted.is_empty()) {
        (Some(_), true) => " (judged by the lower end of the range)",
        (Some(_), false) => " (judged by the lower end of the range; what is not counted can only shorten the life)",
        (None, true) => "",
        (None, false) => " (what is not counted can only shorten the life)",
    };
    let mut sentence = format!(
        "Will the device last {required}? Now: {}. With the recommendation: {}{judged}",
        verdict(life.reached_now),
        verdict(life.reached_then)
    );
    if let Some(allowed) = life.allowed_bytes_per_day {
        sentence += &format!(". It would with at most {} of writes a day", daily(allowed));
    }
    if life.reached_then == Some(false) {
        sentence += &match &life.reached_by {
            Some(choice) => format!(
                "; {} with {} {}",
                choice.policy,
                memory(advice, choice.frames),
                match life.not_counted.is_empty() {
                    true => "reaches it",
                    false => "would reach it if nothing else were written",
                }
            ),
            None => "; no memory of the curve reaches it".into(),
        };
    }
    vec![sentence]
}

fn knobs(advice: &Advice) -> (Vec<String>, Option<AdviceTable>) {
    // The answer for a known server has the others already.
    let is_answered = |knob: &&ServerSetting| advice.server.name().is_some() && knob.setting != advice.server.size_setting();
    let simulated = advice.knobs.iter().filter(|knob| knob.simulated && !is_answered(knob));
    let others = advice.knobs.iter().filter(|knob| !knob.simulated);
    let sentence = |knob: &ServerSetting| {
        let note = knob.note.as_deref().unwrap_or("not simulated");
        format!("{}: {note}", knob.setting)
    };
    let sentences = others.map(sentence).collect();
    let life = advice.knobs.iter().any(|knob| knob.life_years.is_some());
    let money = advice.knobs.iter().any(|knob| knob.dollars_per_month.is_some());
    let saved = |percent: Option<f64>| {
        let text = percent.map(|percent| format!("{percent:+.1} %"));
        text.unwrap_or_else(|| "-".into()).replace("-0.0 %", "+0.0 %")
    };
    let rows = simulated.map(|knob| {
        let values = [&knob.from, &knob.to].map(|value| value.as_deref().unwrap_or("-"));
        let mut cells = vec![format!("{} {} to {}", knob.setting, values[0], values[1])];
        cells.extend([knob.saves_cost, knob.saves_reads, knob.saves_writes].map(saved));
        cells.extend(life.then(|| lives(life_of(knob.life_years, knob.life_range_years))));
        cells.extend(money.then(|| in_dollars(knob.dollars_per_month)));
        cells
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = ["", "saves of bill", "reads", "writes"];
    let mut header: Vec<String> = columns.map(String::from).into();
    header.extend(life.then(|| lives_column(advice)));
    header.extend(money.then(|| "$ a month".into()));
    let table = (!rows.is_empty()).then_some(AdviceTable { header, rows });
    (sentences, table)
}

impl Advice {
    /// A line that describes the trace.
    pub fn title(&self) -> String {
        let time = self.arrivals.map(|arrivals| format!(" in {}", duration(arrivals.seconds)));
        format!(
            "{}: {} references{}, {} distinct pages",
            one_line(&self.trace),
            grouped(self.references + self.warmup),
            time.unwrap_or_default(),
            grouped(self.distinct_pages)
        )
    }
}
