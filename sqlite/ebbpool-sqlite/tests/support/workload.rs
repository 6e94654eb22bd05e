//! Transactions that can be judged: each changes several tables together, and leaves a sum of everything.

use std::collections::HashMap;

use fastrand::Rng;
use rusqlite::{Connection, params};

/// `steps.n` is the number of the last transaction.
pub const SCHEMA: &str = "CREATE TABLE steps (one INTEGER PRIMARY KEY, n INT); INSERT INTO steps VALUES (1, 0);
    CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB, n INT); CREATE INDEX kv_n ON kv(n); CREATE INDEX kv_v ON kv(v);
    CREATE TABLE log (n INTEGER PRIMARY KEY, sum INT, id INT);";

/// What the database holds, as far as the sum needs it: of each key the transaction and the length.
#[derive(Default)]
pub struct Model(HashMap<i64, (i64, i64)>);

impl Model {
    /// What a database holds.
    pub fn of(database: &Connection) -> rusqlite::Result<Model> {
        let mut rows = database.prepare_cached("SELECT k, n, length(v) FROM kv")?;
        let row = |row: &rusqlite::Row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
        let rows = rows.query_map([], row)?;
        Ok(Model(rows.collect::<rusqlite::Result<HashMap<_, _>>>()?))
    }
}

/// Transaction number `n`. After an error the model is wrong: take it from the database anew.
pub fn step(database: &Connection, random: &mut Rng, n: i64, model: &mut Model) -> rusqlite::Result<()> {
    database.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for _ in 0..random.u32(1..7) {
        let key = random.i64(0..200);
        if random.u32(0..5) == 0 {
            database.prepare_cached("DELETE FROM kv WHERE k=?1")?.execute([key])?;
            model.0.remove(&key);
        } else {
            let length = if random.u32(0..20) == 0 { 3000 } else { random.usize(0..300) };
            let blob = vec![n as u8; length];
            database.prepare_cached("INSERT OR REPLACE INTO kv VALUES (?1, ?2, ?3)")?.execute(params![key, blob, n])?;
            model.0.insert(key, (n, length as i64));
        }
    }
    let sum: i64 = model.0.iter().map(|(key, (n, length))| key * 31 + n * 7 + *length).sum();
    database.prepare_cached("INSERT INTO log VALUES (?1, ?2, -?1)")?.execute(params![n, sum])?;
    database.prepare_cached("UPDATE steps SET n=?1")?.execute([n])?;
    database.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// The number of the last transaction that a database holds, -1 if it has no tables; or what is wrong with it.
pub fn judge(database: &Connection) -> Result<i64, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let ok: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
    if ok != "ok" {
        return Err(ok);
    }
    let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(text);
    if one("SELECT count(*) FROM sqlite_master WHERE name='log'")? == 0 {
        return Ok(-1);
    }
    let n = one("SELECT n FROM steps")?;
    let (count, last) = (one("SELECT count(*) FROM log")?, one("SELECT coalesce(max(n), 0) FROM log")?);
    if count != n || last != n {
        return Err(format!("transaction {n}, but {count} in the log, the last is {last}"));
    }
    if n > 0 {
        let sum = one("SELECT sum FROM log ORDER BY n DESC LIMIT 1")?;
        let found = one("SELECT coalesce(sum(k*31+n*7+length(v)), 0) FROM kv")?;
        if sum != found {
            return Err(format!("the sum is {found}, not {sum}, at transaction {n}"));
        }
    }
    Ok(n)
}
