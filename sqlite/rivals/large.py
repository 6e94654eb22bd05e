#!/usr/bin/env python3
"""Measures transactions that are larger than the library's memory, and writes a table of docs/sqlite.md.

A bulk load, a delete of each third row and a VACUUM, each of one transaction, with plain SQLite and through the VFS in turn:
what the kernel writes to a fresh ext4 on a loop device until each statement has returned, all is in place and the page cache is
written, and how long the statement takes. Temporary files are on the same file system. Plain SQLite checks each database. Run it as root:

    cargo build --release -p ebbpool-sqlite
    sudo /usr/bin/python3 sqlite/rivals/large.py DIRECTORY [--rounds 5] [--mebibytes 200] [--write docs/sqlite.md]

DIRECTORY takes five times the size of the database.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sqlite3
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from card import Card, checked, fresh_card, load_library, open_database, temporary_files_in
from documents import table, write_block

MEBIBYTE = 1 << 20
#: Bytes of a row's content.
CONTENT = 420
#: Options of the library, or `None` for plain SQLite.
CONFIGURATIONS = {"WAL, NORMAL": None, "**window=0**": "window=0", "**window=30**": "window=30"}
STATEMENTS = ["bulk load", "delete of a third", "VACUUM"]


def rows(mebibytes: int) -> Iterator[tuple[str, bytes]]:
    dice = random.Random(1)
    for _ in range(mebibytes * MEBIBYTE // (CONTENT + 40)):
        yield f"{dice.randrange(1 << 40):x}", dice.randbytes(CONTENT)


def run(card: Card, options: str | None, mebibytes: int) -> list[tuple[int, float]]:
    """Bytes and seconds of each statement, in a process of its own."""
    temporary_files_in(card.mount)
    if options is not None:
        load_library()
    path = card.mount / "test.db"
    database = open_database(path, options)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, content BLOB)")
    database.execute("CREATE INDEX t_name ON t (name)")
    if options is not None:
        database.execute("PRAGMA ebbpool_flush")

    def load() -> None:
        database.execute("BEGIN")
        database.executemany("INSERT INTO t (name, content) VALUES (?, ?)", rows(mebibytes))
        database.execute("COMMIT")

    def delete() -> None:
        database.execute("DELETE FROM t WHERE id % 3 = 0")

    def vacuum() -> None:
        database.execute("VACUUM")

    found = []
    for statement in (load, delete, vacuum):
        card.flush()
        before, begin = card.written()["bytes"], time.monotonic()
        statement()
        seconds = time.monotonic() - begin
        if options is not None:
            database.execute("PRAGMA ebbpool_checkpoint")
        card.flush()
        found.append((card.written()["bytes"] - before, seconds))
    database.close()
    checked(path)
    return found


def measure(directory: Path, options: str | None, mebibytes: int) -> list[tuple[int, float]]:
    context = multiprocessing.get_context("spawn")
    with fresh_card(directory, 5 * mebibytes + 200) as card, ProcessPoolExecutor(1, context) as pool:
        return pool.submit(run, card, options, mebibytes).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=200, help="the size of the content")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("a loop device needs root")
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[list[tuple[int, float]]]] = {name: [] for name in CONFIGURATIONS}
    for number in range(arguments.rounds):
        for name, options in CONFIGURATIONS.items():
            found[name].append(measure(directory, options, arguments.mebibytes))
            figures = ", ".join(
                f"{statement} {size / MEBIBYTE:.0f} MiB {seconds:.1f} s"
                for statement, (size, seconds) in zip(STATEMENTS, found[name][-1])
            )
            print(f"round {number + 1}, {name}: {figures}", file=sys.stderr, flush=True)
    plain = found["WAL, NORMAL"]
    lines = []
    for name, rounds in found.items():
        line = [name]
        for index in range(len(STATEMENTS)):
            ratios = [ours[index][1] / theirs[index][1] for ours, theirs in zip(rounds, plain)]
            sizes = [figures[index][0] / MEBIBYTE for figures in rounds]
            line += [f"{statistics.median(sizes):.0f}", f"{statistics.median(ratios):.2f}"]
        lines.append(line)
    header = [""] + [title for name in STATEMENTS for title in (f"{name}, MiB", "time")]
    text = (
        "By `sudo /usr/bin/python3 sqlite/rivals/large.py DIRECTORY --write docs/sqlite.md`: transactions larger than the "
        f"library's memory, on a database of {arguments.mebibytes} MiB of content with an index. Bytes that the kernel wrote "
        "until the statement had returned, all was in place and the page cache was written, and the time of the statement as a multiple of "
        f"plain SQLite's in the same round, medians of {arguments.rounds} rounds, SQLite {sqlite3.sqlite_version}.\n\n"
        + table(header, lines)
    )
    print(text)
    if arguments.write:
        write_block(arguments.write, "large", text)


if __name__ == "__main__":
    main()
