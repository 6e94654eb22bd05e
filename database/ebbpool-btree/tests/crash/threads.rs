//! Crashes while several threads work, besides the database's own. The seed determines their steps, but not
//! the order of the threads, so a failure may take a few runs to reproduce.
//!
//! Each thread has keys of its own; one has the number of its latest transaction. Some transactions count
//! themselves in a shared record. After a crash each thread's records are those after one of its
//! transactions, and the shared count is the number of counting transactions that survived.

use std::collections::BTreeMap;
use std::time::Duration;

use ebbpool::storage::{FaultyDisk, page_lsn};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabaseParts, Durability};

use crate::chance::Chance;
use crate::lives::{cut_amid, test_threads};
use crate::model::{Effects, Records, apply};
use crate::script::Setting;

pub const THREADS: u64 = 3;
const TRANSACTIONS: u64 = 12;
const KEYS: u64 = 25;
const COUNT: &[u8] = b"count";

/// The commits that one thread has called.
#[derive(Default)]
struct History {
    commits: Vec<(Effects, bool)>,
    acknowledged: usize,
}

pub fn open(disk: &FaultyDisk, setting: &Setting, background: bool) -> Result<Database, DatabaseError> {
    let pages = |name| disk.pages(name, setting.page_size);
    let parts = DatabaseParts {
        pages: Box::new(pages("data")),
        double_write: Some(Box::new(pages("torn"))),
        log: ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _),
    };
    let database = DatabaseOptions::new(setting.frames + 8 * THREADS as u32)
        .policy(setting.policy)?
        .page_size(setting.page_size)
        .durability(setting.durability)
        .checkpoint_every(setting.checkpoint_every)
        .background(background)
        .pool(|pool| pool.read_ahead(0))
        // The keys of a commit that cannot be written stay locked: without power others wait for nothing.
        .lock_patience(Duration::from_millis(200))
        .open_on(parts)?;
    disk.watch(&database.log(), page_lsn);
    Ok(database)
}

fn own(thread: u64, key: u64) -> Vec<u8> {
    format!("{key:02} of {thread}").into_bytes()
}

fn number(value: Option<&Vec<u8>>) -> u64 {
    let bytes = value.and_then(|value| value.first_chunk());
    bytes.copied().map_or(0, u64::from_le_bytes)
}

/// The work of one thread, until something fails.
fn work(
    (database, disk): (&Database, &FaultyDisk),
    setting: &Setting,
    seed: u64,
    thread: u64,
    history: &mut History,
) -> Result<(), DatabaseError> {
    let mut chance = Chance::new(seed * THREADS + thread);
    for transaction in 1..=TRANSACTIONS {
        let mut open = database.begin();
        let mut effects = Effects::new();
        for _ in 0..chance.below(8) {
            let key = own(thread, 1 + chance.below(KEYS));
            if chance.one_in(3) {
                open.delete(&key)?;
                effects.insert(key, None);
            } else {
                let value = vec![chance.below(256) as u8; chance.usize(setting.most_value + 1)];
                open.put(&key, &value)?;
                effects.insert(key, Some(value));
            }
        }
        if chance.one_in(4) {
            open.rollback()?;
            continue;
        }
        let (key, value) = (own(thread, 0), transaction.to_le_bytes().to_vec());
        open.put(&key, &value)?;
        effects.insert(key, Some(value));
        let counts = chance.one_in(2);
        if counts {
            let count = loop {
                match open.get_for_update(COUNT) {
                    Err(DatabaseError::Conflict { .. }) if !disk.is_off() => {}
                    found => break number(found?.as_ref()),
                }
            };
            open.put(COUNT, &(count + 1).to_le_bytes())?;
        }
        history.commits.push((effects, counts));
        open.commit()?;
        if setting.durability == Durability::Synced {
            history.acknowledged = history.commits.len();
        }
        if chance.one_in(10) {
            database.checkpoint()?;
        }
    }
    Ok(())
}

fn judge(found: &Records, histories: &[History]) -> Result<(), String> {
    let mut counted = 0;
    let mut expected = Records::new();
    for (thread, history) in histories.iter().enumerate() {
        let key = own(thread as u64, 0);
        let last = found.get(&key);
        let is_last = |(effects, _): &(Effects, bool)| effects.get(&key).is_some_and(|it| it.as_ref() == last);
        let there = match last {
            Some(_) => history.commits.iter().position(is_last).map(|at| at + 1),
            None => Some(0),
        };
        let there = there.ok_or(format!("thread {thread} never wrote {last:?}"))?;
        if there < history.acknowledged {
            let acknowledged = history.acknowledged;
            return Err(format!("thread {thread}: {acknowledged} were acknowledged, {there} are there"));
        }
        for (effects, counts) in &history.commits[..there] {
            apply(&mut expected, effects);
            counted += u64::from(*counts);
        }
    }
    let mut found = found.clone();
    let count = number(found.remove(COUNT).as_ref());
    if count != counted {
        return Err(format!("{counted} transactions are there that count, and the count is {count}"));
    }
    match found == expected {
        true => Ok(()),
        false => Err("records are not those of whole transactions".into()),
    }
}

fn case(seed: u64) -> Result<u64, String> {
    let mut chance = Chance::new(seed);
    let setting = Setting { double_write: true, ..Setting::new(&mut chance) };
    let disk = FaultyDisk::new(seed);
    let at = 20 + chance.below(250);
    let histories = cut_amid(&disk, seed, at, || {
        let mut histories: Vec<History> = Vec::new();
        if let Ok(database) = open(&disk, &setting, true) {
            let threads = std::thread::scope(|scope| {
                let start = |thread| {
                    let (database, setting) = ((&database, &disk), &setting);
                    scope.spawn(move || {
                        let mut history = History::default();
                        let outcome = work(database, setting, seed, thread, &mut history);
                        (history, outcome)
                    })
                };
                let threads: Vec<_> = (0..THREADS).map(start).collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
                threads.into_iter().map(join).collect::<Vec<_>>()
            });
            for joined in threads {
                let (history, outcome) = joined.map_err(|_| "a thread panicked, see above")?;
                if let Err(error) = outcome
                    && !disk.is_off()
                {
                    return Err(format!("with the power on: {error}"));
                }
                histories.push(history);
            }
        }
        Ok(histories)
    })?;
    let recovered = || -> Result<(Records, Option<String>), DatabaseError> {
        let mut database = open(&disk, &setting, false)?;
        let found = database.range::<&[u8]>(..).collect::<Result<BTreeMap<_, _>, _>>()?;
        let finding = database.check()?.findings.first().map(ToString::to_string);
        database.close()?;
        Ok((found, finding))
    };
    let (found, finding) = recovered().map_err(|error| format!("{error}, {setting:#?}"))?;
    if let Some(finding) = finding {
        return Err(format!("{finding}, {setting:#?}"));
    }
    judge(&found, &histories).map_err(|what| format!("{what}, {setting:#?}"))?;
    Ok(histories.iter().map(|history| history.commits.len() as u64).sum())
}

#[test]
fn the_commits_of_threads_survive_every_crash() {
    let (requested, committed) = test_threads("ebbpool-btree", case);
    assert!(committed >= requested, "nearly nothing was done: {committed}");
}
