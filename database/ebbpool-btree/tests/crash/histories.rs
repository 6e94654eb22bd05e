//! Isolation, checked on histories of threads that append to lists and read them, amid which the power is cut: in the manner of Elle
//! (Kingsbury and Alvaro, VLDB 2020), for *read committed* (Adya's PL-2).
//!
//! Each append has a number of its own, so a list says which transactions have written it, and in which order. What is read of a key
//! are beginnings of one list. Transactions that read what was never committed (G1a), or not the last of a transaction (G1b), or
//! that are before each other by what they wrote and read (G0, G1c), are found, those that see another one and later not all of it (it is
//! visible at once), and after the power cut those that are there in part, or without one on which they depend.
//!
//! Readers wait for no transaction: the thread of an open one reads beside it, which would last until the patience is over.

use std::collections::{BTreeMap, HashMap, HashSet};

use ebbpool::storage::FaultyDisk;
use ebbpool_btree::{Database, DatabaseError, Durability, RecordRange, Transaction};

use crate::chance::Chance;
use crate::lives::{cut_amid, test_threads};
use crate::script::Setting;
use crate::threads::{THREADS, open};

const TRANSACTIONS: u64 = 12;
const KEYS: u64 = 5;

/// The number of a transaction, in whose appends it stands.
type Txn = u32;

/// An append: its transaction, and its number within it.
type Append = (Txn, u32);

/// By key.
type Lists = BTreeMap<u64, Vec<Append>>;

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Acknowledged,
    /// It was to be committed when the power was cut.
    Unknown,
    RolledBack,
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64, u32),
    /// Of one key, or of several in any order.
    Read(Vec<(u64, Vec<Append>)>),
}

#[derive(Clone, Debug)]
struct Event {
    txn: Txn,
    steps: Vec<Step>,
    outcome: Outcome,
}

/// What is wrong with a history.
type Anomaly = String;

// ---- the work ----

fn key(number: u64) -> Vec<u8> {
    // Far from each other, and in any order.
    format!("{:02}", number * 37 % 100).into_bytes()
}

fn list(value: Option<&[u8]>) -> Vec<Append> {
    let number = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
    let (numbers, _) = value.unwrap_or_default().as_chunks::<4>();
    numbers.as_chunks::<2>().0.iter().map(|&[txn, at]| (number(txn), number(at))).collect()
}

fn bytes(list: &[Append]) -> Vec<u8> {
    list.iter().flat_map(|&(txn, at)| [txn, at]).flat_map(u32::to_le_bytes).collect()
}

/// One reads, in the transaction or beside it.
fn read(number: u64, found: Result<Option<Vec<u8>>, DatabaseError>) -> Result<Step, DatabaseError> {
    assert!(!matches!(found, Err(DatabaseError::Conflict { .. })), "a reader has waited");
    Ok(Step::Read(vec![(number, list(found?.as_deref()))]))
}

fn scan(range: RecordRange<'_>, chance: &mut Chance) -> Result<Step, DatabaseError> {
    let records = if chance.one_in(2) { range.rev().collect::<Result<Vec<_>, _>>() } else { range.collect() };
    assert!(!matches!(records, Err(DatabaseError::Conflict { .. })), "a scan has waited");
    let records = records?;
    let found = |number| records.iter().find(|record| record.0 == key(number)).map(|record| record.1.as_slice());
    Ok(Step::Read((0..KEYS).map(|number| (number, list(found(number)))).collect()))
}

fn step(
    (database, open): (&Database, &mut Transaction<'_>),
    chance: &mut Chance,
    (event, beside): (&mut Event, &mut Event),
) -> Result<(), DatabaseError> {
    let number = chance.below(KEYS);
    match chance.below(10) {
        0..4 => {
            let at = event.steps.len() as u32;
            let mut list = list(open.get_for_update(&key(number))?.as_deref());
            event.steps.push(Step::Read(vec![(number, list.clone())]));
            list.push((event.txn, at));
            open.put(&key(number), &bytes(&list))?;
            event.steps.push(Step::Append(number, at));
        }
        4..7 => event.steps.push(read(number, open.get(&key(number)))?),
        7 => event.steps.push(scan(open.range::<&[u8]>(..), chance)?),
        8 => beside.steps.push(read(number, database.get(&key(number)))?),
        _ => beside.steps.push(scan(database.range::<&[u8]>(..), chance)?),
    }
    Ok(())
}

/// The work of one thread, until something fails that is no conflict.
fn work(database: &Database, seed: u64, thread: u64, history: &mut Vec<Event>) -> Result<(), DatabaseError> {
    let mut chance = Chance::new(seed * THREADS + thread);
    let new = |number| Event { txn: (number * THREADS + thread) as Txn, steps: Vec::new(), outcome: Outcome::RolledBack };
    // The first one is no transaction, but what the thread reads beside them.
    history.push(Event { outcome: Outcome::Acknowledged, ..new(0) });
    for number in 1..=TRANSACTIONS {
        history.push(new(number));
        let [beside, .., event] = &mut history[..] else { unreachable!("two events") };
        let mut open = database.begin();
        let steps = 1 + chance.below(5);
        let done = (0..steps).try_for_each(|_| step((database, &mut open), &mut chance, (event, beside)));
        match done {
            Err(DatabaseError::Conflict { .. }) => open.rollback()?,
            Err(error) => return Err(error),
            Ok(()) if chance.one_in(5) => open.rollback()?,
            Ok(()) => {
                event.outcome = Outcome::Unknown;
                open.commit()?;
                event.outcome = Outcome::Acknowledged;
            }
        }
        if chance.one_in(10) {
            database.checkpoint()?;
        }
    }
    Ok(())
}

// ---- the judge ----

/// Checks a history and what was there afterwards, by key; `is_durable` if that has to have what was acknowledged.
fn judge(history: &[Event], found: &Lists, is_durable: bool) -> Result<(), Anomaly> {
    let of_txn: HashMap<Txn, &Event> = history.iter().map(|event| (event.txn, event)).collect();
    let appends = |event: &Event, key: u64| -> Vec<Append> {
        let at = |step: &Step| match step {
            Step::Append(on, at) if *on == key => Some((event.txn, *at)),
            _ => None,
        };
        event.steps.iter().filter_map(at).collect()
    };
    // Reads of others' lists: nothing that was rolled back, and all of a transaction or nothing.
    for event in history {
        let mut own: HashMap<u64, Vec<Append>> = HashMap::new();
        let mut seen: HashSet<Txn> = HashSet::new();
        for step in &event.steps {
            let reads = match step {
                Step::Append(key, at) => {
                    own.entry(*key).or_default().push((event.txn, *at));
                    continue;
                }
                Step::Read(reads) => reads,
            };
            for (key, list) in reads {
                let mine = own.get(key).map_or(&[][..], Vec::as_slice);
                let Some(others) = list.strip_suffix(mine) else {
                    return Err(format!("transaction {} does not see its own appends to {key}: {list:?}", event.txn));
                };
                whole(others, *key, &of_txn, &appends).map_err(|what| format!("transaction {} reads {what}", event.txn))?;
                let all = |txn: &&Txn| appends(of_txn[*txn], *key).iter().all(|append| others.contains(append));
                if let Some(txn) = seen.iter().find(|txn| !all(txn)) {
                    return Err(format!("transaction {} has seen {txn}, and not what it appends to {key}", event.txn));
                }
            }
            seen.extend(reads.iter().flat_map(|(_, list)| list).map(|it| it.0).filter(|&txn| txn != event.txn));
        }
    }
    for (key, list) in found {
        whole(list, *key, &of_txn, &appends).map_err(|what| format!("after the power cut there is {what}"))?;
    }
    let before = order(history, &longest(history, found)?);
    if let Some(txn) = on_a_cycle(&before) {
        return Err(format!("transaction {txn} is before itself (G0 or G1c)"));
    }
    survivors(history, found, &before, &appends, is_durable)
}

/// The longest list of each key that was seen, of which all others are beginnings.
fn longest(history: &[Event], found: &Lists) -> Result<Lists, Anomaly> {
    let mut lists = found.clone();
    // An append makes a list that no one may have read.
    for event in history.iter().filter(|event| event.outcome != Outcome::RolledBack) {
        let mut own: HashMap<u64, Vec<Append>> = HashMap::new();
        for step in &event.steps {
            let changed = match step {
                Step::Read(reads) => {
                    own.extend(reads.iter().cloned());
                    reads.iter().map(|(key, _)| *key).collect()
                }
                Step::Append(key, at) => {
                    own.entry(*key).or_default().push((event.txn, *at));
                    vec![*key]
                }
            };
            for key in changed {
                let (known, list) = (lists.entry(key).or_default(), &own[&key]);
                let both = known.len().min(list.len());
                if known[..both] != list[..both] {
                    return Err(format!("key {key} had two orders: {known:?} and {list:?}"));
                }
                if list.len() > known.len() {
                    known.clone_from(list);
                }
            }
        }
    }
    Ok(lists)
}

/// Checks that a list has no append that was rolled back, and of no transaction a part.
fn whole(
    list: &[Append],
    key: u64,
    of_txn: &HashMap<Txn, &Event>,
    appends: &impl Fn(&Event, u64) -> Vec<Append>,
) -> Result<(), Anomaly> {
    for &(txn, _) in list {
        let Some(event) = of_txn.get(&txn) else { return Err(format!("an append to {key} of no transaction")) };
        if event.outcome == Outcome::RolledBack {
            return Err(format!("an append to {key} that transaction {txn} has rolled back (G1a)"));
        }
        let all = appends(event, key);
        let there: Vec<Append> = list.iter().copied().filter(|it| it.0 == txn).collect();
        if there != all {
            return Err(format!("a part of what transaction {txn} appends to {key} (G1b)"));
        }
    }
    Ok(())
}

/// By transaction, those that are before it: whose append it followed, or read.
fn order(history: &[Event], lists: &Lists) -> BTreeMap<Txn, HashSet<Txn>> {
    let mut before: BTreeMap<Txn, HashSet<Txn>> = BTreeMap::new();
    let mut add = |first: Txn, then: Txn| {
        if first != then {
            before.entry(then).or_default().insert(first);
        }
    };
    for list in lists.values() {
        list.windows(2).for_each(|pair| add(pair[0].0, pair[1].0));
    }
    for event in history.iter().filter(|event| event.outcome != Outcome::RolledBack) {
        for step in &event.steps {
            let Step::Read(reads) = step else { continue };
            for (_, list) in reads {
                if let Some(&(writer, _)) = list.iter().rfind(|it| it.0 != event.txn) {
                    add(writer, event.txn);
                }
            }
        }
    }
    before
}

fn on_a_cycle(before: &BTreeMap<Txn, HashSet<Txn>>) -> Option<Txn> {
    let mut left = before.clone();
    loop {
        let free: Vec<Txn> =
            left.iter().filter(|(_, firsts)| !firsts.iter().any(|it| left.contains_key(it))).map(|it| *it.0).collect();
        if free.is_empty() {
            return left.keys().next().copied();
        }
        free.iter().for_each(|txn| _ = left.remove(txn));
    }
}

/// Checks that what is there are whole transactions, those that were acknowledged, and those on which these depend. What one has read
/// that has ended, or what was read beside all transactions, was durable.
fn survivors(
    history: &[Event],
    found: &Lists,
    before: &BTreeMap<Txn, HashSet<Txn>>,
    appends: &impl Fn(&Event, u64) -> Vec<Append>,
    is_durable: bool,
) -> Result<(), Anomaly> {
    let mut lost: HashSet<Txn> = HashSet::new();
    for event in history.iter().filter(|event| event.outcome != Outcome::RolledBack) {
        let all: Vec<(u64, Append)> =
            (0..KEYS).flat_map(|key| appends(event, key).into_iter().map(move |it| (key, it))).collect();
        let there = all.iter().filter(|(key, it)| found.get(key).is_some_and(|list| list.contains(it))).count();
        if there == all.len() {
            continue;
        }
        if there > 0 {
            return Err(format!("{there} of the {} appends of transaction {} are there", all.len(), event.txn));
        }
        if is_durable && event.outcome == Outcome::Acknowledged {
            return Err(format!("transaction {} was acknowledged and is lost", event.txn));
        }
        lost.insert(event.txn);
    }
    let appended = |txn: &Txn| found.values().flatten().any(|it| it.0 == *txn);
    let ended = |txn: &Txn| history.iter().any(|event| event.txn == *txn && event.outcome == Outcome::Acknowledged);
    for (txn, firsts) in before.iter().filter(|(txn, _)| appended(txn) || is_durable && ended(txn)) {
        if let Some(first) = firsts.intersection(&lost).next() {
            return Err(format!("transaction {txn} is there, and {first} before it is lost"));
        }
    }
    Ok(())
}

// ---- the test ----

fn case(seed: u64) -> Result<u64, String> {
    let mut chance = Chance::new(seed);
    let setting = Setting { double_write: true, ..Setting::new(&mut chance) };
    let disk = FaultyDisk::new(seed);
    let at = 20 + chance.below(400);
    let histories = cut_amid(&disk, seed, at, || {
        let mut histories: Vec<Event> = Vec::new();
        let Ok(database) = open(&disk, &setting, true) else { return Ok(histories) };
        let threads = std::thread::scope(|scope| {
            let start = |thread| {
                let database = &database;
                scope.spawn(move || {
                    let mut history = Vec::new();
                    let outcome = work(database, seed, thread, &mut history);
                    (history, outcome)
                })
            };
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        for joined in threads {
            let (history, outcome) = joined.map_err(|_| "a thread panicked, see above")?;
            if let Err(error) = outcome
                && !disk.is_off()
            {
                return Err(format!("with the power on: {error}"));
            }
            histories.extend(history);
        }
        Ok(histories)
    })?;
    let recovered = || -> Result<Lists, DatabaseError> {
        let database = open(&disk, &setting, false)?;
        let found = (0..KEYS).map(|number| Ok((number, list(database.get(&key(number))?.as_deref()))));
        let found = found.collect::<Result<_, DatabaseError>>()?;
        database.close()?;
        Ok(found)
    };
    let found = recovered().map_err(|error| format!("{error}, {setting:#?}"))?;
    let is_durable = setting.durability == Durability::Synced;
    judge(&histories, &found, is_durable).map_err(|what| format!("{what}, {histories:#?} {found:#?} {setting:#?}"))?;
    Ok(histories.iter().filter(|event| event.outcome != Outcome::RolledBack).count() as u64)
}

#[test]
fn histories_are_read_committed() {
    let (requested, committed) = test_threads("ebbpool-btree", case);
    assert!(committed >= requested, "nearly nothing was done: {committed}");
}

/// The judge finds each anomaly.
#[test]
fn anomalies_are_found() {
    use Outcome::{Acknowledged, RolledBack, Unknown};
    let event = |txn, outcome, steps: &[Step]| Event { txn, steps: steps.to_vec(), outcome };
    let read = |key, list: &[Append]| Step::Read(vec![(key, list.to_vec())]);
    let append = |key, at| Step::Append(key, at);
    let found = |lists: &[&[Append]]| (0..).zip(lists.iter().map(|list| list.to_vec())).collect::<BTreeMap<_, _>>();
    let (one, two) = ((1, 0), (2, 0));
    let sound = [event(1, Acknowledged, &[read(0, &[]), append(0, 0)]), event(2, Unknown, &[read(0, &[one]), append(0, 0)])];
    assert_eq!(judge(&sound, &found(&[&[one, two]]), true), Ok(()));
    assert_eq!(judge(&sound, &found(&[&[one]]), true), Ok(()));
    assert_eq!(judge(&sound, &found(&[&[]]), false), Ok(()));
    let wrong: [(&str, Vec<Event>, Lists); 11] = [
        ("acknowledged", sound.to_vec(), found(&[&[]])),
        ("two orders", sound.to_vec(), found(&[&[two]])),
        ("G1a", vec![event(1, RolledBack, &[append(0, 0)]), event(2, Acknowledged, &[read(0, &[one])])], found(&[])),
        ("G1a", vec![event(1, RolledBack, &[append(0, 0)])], found(&[&[one]])),
        (
            "G1b",
            vec![event(1, Acknowledged, &[append(0, 0), append(0, 1)]), event(2, Acknowledged, &[read(0, &[one])])],
            found(&[&[one, (1, 1)]]),
        ),
        (
            "G1c",
            vec![
                event(1, Acknowledged, &[append(0, 0), read(1, &[two])]),
                event(2, Acknowledged, &[append(1, 0), read(0, &[one])]),
            ],
            found(&[&[one], &[two]]),
        ),
        (
            "before itself",
            vec![
                event(1, Acknowledged, &[append(0, 0), read(1, &[two]), append(1, 1)]),
                event(2, Acknowledged, &[append(1, 0), read(0, &[one]), append(0, 1)]),
            ],
            found(&[&[one, (2, 1)], &[two, (1, 1)]]),
        ),
        (
            "has seen 1",
            vec![
                event(1, Acknowledged, &[append(0, 0), append(1, 1)]),
                event(2, Acknowledged, &[read(0, &[one]), read(1, &[])]),
            ],
            found(&[&[one], &[(1, 1)]]),
        ),
        (
            "before it is lost",
            vec![event(1, Unknown, &[append(0, 0)]), event(2, Acknowledged, &[read(0, &[one])])],
            found(&[&[]]),
        ),
        ("own appends", vec![event(1, Acknowledged, &[append(0, 0), read(0, &[])])], found(&[&[one]])),
        ("1 of the 2 appends", vec![event(1, Unknown, &[append(0, 0), append(1, 1)])], found(&[&[one], &[]])),
    ];
    for (words, history, found) in wrong {
        let judged = judge(&history, &found, true);
        assert!(judged.as_ref().is_err_and(|what| what.contains(words)), "{words}: {judged:?}");
    }
    let depends = [event(1, Unknown, &[append(0, 0)]), event(2, Unknown, &[read(0, &[one]), append(1, 0)])];
    let judged = judge(&depends, &found(&[&[], &[two]]), true);
    assert!(judged.is_err_and(|what| what.contains("before it is lost")));
}
