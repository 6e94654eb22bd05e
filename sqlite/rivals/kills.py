#!/usr/bin/env python3
"""Kills a process that writes through the VFS, again and again, and has plain SQLite judge what is left.

A writer inserts numbered rows and says each number after its commit has returned. After a random time it gets SIGKILL. Then
the VFS recovers the database, and plain SQLite checks it: no damage, no gap in the numbers, and nothing lost that was
committed longer before the kill than the window. With a window of 0 nothing that the writer has said may be lost. Journal
modes, logs and windows change from kill to kill, also on the same database.

    cargo build --release -p ebbpool-sqlite
    /usr/bin/python3 sqlite/rivals/kills.py DIRECTORY [--kills 500] [--seed 1]

It ends with an error if one kill breaks the promise. EBBPOOL_SQLITE_LIBRARY names another library than
target/release/libebbpool_sqlite.so.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from card import checked, load_library, open_database

WINDOW = 0.3
#: Seconds by which an epoch may be late: it is made by a thread, after a sync, on a machine with other work.
LATE = 0.5
#: Kills after which a database is made anew.
GENERATION = 10
#: So small that epochs, checkpoints and early epochs of full memory come many times a second.
SMALL = "log_limit=200000&memory=1M"
SCHEMA = """
CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, at REAL, filler BLOB);
CREATE INDEX IF NOT EXISTS t_filler ON t (filler);
"""


@dataclass
class Case:
    journal: str
    log: str
    window: float
    #: Seconds after the first commit of this writer.
    after: float

    @staticmethod
    def new(dice: random.Random) -> Case:
        return Case(
            dice.choice(["wal", "delete", "truncate", "persist"]),
            dice.choice(["deltas", "wal"]),
            dice.choice([0.0, WINDOW]),
            # Half of the kills fall into the first moments, with recovery and the first epochs.
            dice.random() * dice.choice([0.05, 1.2]),
        )


@dataclass
class Outcome:
    problems: list[str] = field(default_factory=list)
    commits: int = 0
    lost: int = 0
    #: Seconds between the oldest lost commit and the kill.
    oldest: float = 0.0


def write(path: Path, journal: str, options: str) -> None:
    """The process that is killed: commits numbered rows until then."""
    load_library()
    database = open_database(path, f"{options}&{SMALL}")
    database.execute(f"PRAGMA journal_mode={journal}").fetchone()
    database.execute("PRAGMA wal_autocheckpoint=50")
    database.executescript(SCHEMA)
    (number,) = database.execute("SELECT coalesce(max(n), 0) FROM t").fetchone()
    dice = random.Random(number)
    for number in itertools.count(number + 1):
        filler = dice.randbytes(8) * dice.randrange(4, 40)
        if number % 31 == 0:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE t SET filler = filler || 'y' WHERE n % 20 = ?", (number % 20,))
            database.execute("ROLLBACK")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO t VALUES (?, ?, ?)", (number, time.time(), filler))
        if number % 7 == 0:
            database.execute("UPDATE t SET filler = filler || 'x' WHERE n % 50 = ?", (number % 50,))
        database.execute("COMMIT")
        print(number, time.time(), flush=True)
        time.sleep(0.0003)


def kill_writer(path: Path, case: Case) -> tuple[dict[int, float], float]:
    """The commits that the writer has said with their times, and the time of the kill."""
    options = f"log={case.log}&window={case.window}"
    command = [sys.executable, __file__, str(path.parent), "--writer", str(path), case.journal, options]
    said = path.with_name("said.txt")
    with said.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as writer:
        while said.stat().st_size == 0 and writer.poll() is None:
            time.sleep(0.002)
        time.sleep(case.after)
        killed = time.time()
        writer.send_signal(signal.SIGKILL)
        _, problems = writer.communicate()
    if writer.returncode != -signal.SIGKILL:
        sys.exit(f"{case}: the writer ended before: {problems}")
    # The last line may be cut short.
    lines = [line.split() for line in said.read_text().split("\n")[:-1]]
    return {int(number): float(at) for number, at in lines}, killed


def numbers(path: Path) -> tuple[int, int, int]:
    """The last number, and the rows in the table and in its index."""
    plain = open_database(path, None)
    found = (0, 0, 0)
    # The first commits may be lost, with the table.
    if plain.execute("SELECT count(*) FROM sqlite_master").fetchone() == (2,):
        found = plain.execute(
            "SELECT coalesce(max(n), 0), count(*), (SELECT count(*) FROM t INDEXED BY t_filler WHERE filler NOT NULL) FROM t"
        ).fetchone()
    plain.close()
    return found


def judge(path: Path, case: Case) -> Outcome:
    """Kills one writer, and judges what is left."""
    said, killed = kill_writer(path, case)
    recovering = open_database(path, "window=0")
    recovering.execute("SELECT count(*) FROM sqlite_master").fetchone()
    recovering.close()
    checked(path)
    last, rows, indexed = numbers(path)
    lost = [at for number, at in said.items() if number > last]
    outcome = Outcome([], len(said), len(lost), killed - min(lost, default=killed))
    if not last == rows == indexed:
        outcome.problems.append(f"the last number is {last}, but there are {rows} rows, and {indexed} in the index")
    if case.window == 0.0 and lost:
        outcome.problems.append(f"{len(lost)} commits are lost")
    if case.window > 0.0 and outcome.oldest > case.window + LATE:
        outcome.problems.append(f"a commit is lost that was {outcome.oldest:.2f} s old")
    return outcome


def run(directory: Path, kills: int, seed: int) -> list[str]:
    """Kills writers one after the other, and returns what was wrong."""
    directory.mkdir(parents=True, exist_ok=True)
    path, dice, problems = directory / "killed.db", random.Random(seed), []
    load_library()
    commits = lost = 0
    oldest = 0.0
    for index in range(kills):
        if index % GENERATION == 0:
            for left in directory.glob("killed.db*"):
                left.unlink()
        case = Case.new(dice)
        outcome = judge(path, case)
        problems += [f"kill {index}, {case}: {problem}" for problem in outcome.problems]
        commits, lost, oldest = commits + outcome.commits, lost + outcome.lost, max(oldest, outcome.oldest)
    print(
        f"{kills} kills, {commits:,} commits, {lost:,} lost, the oldest {oldest:.2f} s before its kill (window {WINDOW} s), "
        f"{len(problems)} broken promises"
    )
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.writer:
        path, journal, options = arguments.writer
        return write(Path(path), journal, options)
    problems = run(arguments.directory.resolve(), arguments.kills, arguments.seed)
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
