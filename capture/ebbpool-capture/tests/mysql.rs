//! A running MySQL, captured: its requests are those that it counts itself.
//!
//! The test needs a server without other users, and in `EBBPOOL_MYSQL_CLIENT` the command of a client for it that may create
//! a database, such as `mysql --user=root --socket=/tmp/mysql.sock`; `EBBPOOL_MYSQL_PID` chooses one of several servers.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ebbpool_capture::sources::mysql::MysqlSource;

use common::{TestRandom, capture_work, cost, written};

const ROWS: u64 = 60_000;

fn ask(client: &str, text: &str) -> String {
    let mut words = client.split_ascii_whitespace();
    let mut child = Command::new(words.next().expect("a command"))
        .args(words)
        .args(["--batch", "--skip-column-names"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a client");
    let mut input = child.stdin.take().expect("its input");
    let text = text.to_owned();
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("an answer");
    writer.join().expect("a thread").expect("sent");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn counter(client: &str, name: &str) -> u64 {
    let answer = ask(client, &format!("show global status like '{name}'"));
    let number = answer.split_ascii_whitespace().last();
    number.expect("a number").parse().expect("a number")
}

fn statements() -> String {
    let (mut random, mut text) = (TestRandom(4), String::from("use ebbpool_capture;\n"));
    for _ in 0..20_000 {
        let id = random.below(ROWS).min(random.below(ROWS));
        let _ = match random.below(10) {
            0..2 => writeln!(text, "update t set v = repeat('x', {}) where id = {id};", 1 + random.below(190)),
            2..8 => writeln!(text, "select count(v) from t where id = {id};"),
            _ => writeln!(text, "select count(v) from t where k = {id};"),
        };
    }
    text
}

#[test]
fn requests_are_those_that_the_server_counts() {
    let Ok(client) = std::env::var("EBBPOOL_MYSQL_CLIENT") else {
        let _ = writeln!(std::io::stderr(), "skipped: EBBPOOL_MYSQL_CLIENT names no client");
        return;
    };
    let Some(cost) = cost() else { return };
    let rows = format!(
        "set session cte_max_recursion_depth = {ROWS} + 1;
        drop database if exists ebbpool_capture; create database ebbpool_capture; use ebbpool_capture;
        create table t(id int primary key, k int, v varchar(200), key(k));
        insert into t with recursive c(i) as (select 1 union all select i + 1 from c where i < {ROWS})
        select i, i * 7919 % {ROWS}, repeat('y', 100) from c;"
    );
    ask(&client, &rows);
    // The server goes on to merge and purge for a while.
    thread::sleep(Duration::from_secs(5));
    let pid = std::env::var("EBBPOOL_MYSQL_PID").ok().map(|pid| pid.parse().expect("a number"));
    let mut source = MysqlSource::open(pid, None).expect("a source");
    println!("{}", source.description());
    let names = ["Innodb_buffer_pool_read_requests", "Innodb_buffer_pool_write_requests"];
    let count = || names.map(|name| counter(&client, name));
    let (before, after) = (Cell::new([0; 2]), Cell::new([0; 2]));
    let (recorder, report) = capture_work(
        &mut source,
        cost,
        64 << 20,
        &mut || {
            before.set(count());
            ask(&client, &statements());
            after.set(count());
        },
        &|| after.get() != [0; 2],
    );
    let counted: Vec<u64> = (0..2).map(|at| after.get()[at] - before.get()[at]).collect();
    let counts = source.counts();
    println!("{counts:?}, {} writes; the server: {counted:?}; {} lost", recorder.writes(), report.lost);
    assert_eq!(report.lost, 0);
    let near = |one: u64, other: u64, share: f64| one.abs_diff(other) as f64 <= share * other as f64;
    assert!(near(counts.requests, counted[0], 0.001));
    assert!(near(recorder.writes(), counted[1], 0.25));
    let trace = source.trace(recorder, true);
    let (found, facts) = written(&trace, "t");
    println!("{}", facts["objects"]);
    assert!(found.len() > 20_000);
    // The program's own file has the symbols of its build.
    let process = source.process().0;
    drop(source);
    let symbols = format!("/proc/{process}/exe");
    assert!(MysqlSource::open(Some(process), Some(Path::new(&symbols))).is_ok());
    assert!(MysqlSource::open(Some(process), Some(Path::new("/proc/self/exe"))).is_err());
}
