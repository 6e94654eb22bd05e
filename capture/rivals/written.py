#!/usr/bin/env python3
"""Compares the bytes that a capture measures with those that the server counts itself, and the life that follows from them.

    cargo build --release --features all
    sudo apt install postgresql
    sudo /usr/bin/python3 capture/rivals/written.py DIRECTORY [--seconds 70] [--write docs/capture.md]

PostgreSQL runs pgbench with 8 clients and a checkpoint every 30 seconds, once with a buffer that is smaller than the data and
once with one that holds all of it, so that the trace begins with all pages. Two programs in Python write to SQLite by
its shared library, with a log and with a journal; each does nothing else, so that the bytes that it passes to write() are those of SQLite.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "postgres"), str(HERE.parents[1] / "tests")]

from captures import EBBPOOL
from documents import table, write_block
from validate import WORKLOADS, Server, Session

DEVICE = "sd-a1"
DAY = 86_400
PAGE = 8192

PROGRAM = """
import random, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute(f"pragma journal_mode={sys.argv[2]}")
database.execute("create table if not exists t(id integer primary key, v text)")
database.execute("begin")
database.executemany("insert or replace into t values (?, ?)", ((i, "x" * 100) for i in range(100_000)))
database.execute("commit")
print("ready", flush=True)
while True:
    database.execute("begin immediate")
    for _ in range(5):
        database.execute("update t set v = ? where id = ?", (str(random.random()) * 5, random.randrange(100_000)))
    database.execute("commit")
    time.sleep(0.01)
"""


@dataclass
class Written:
    """Bytes of pages and of the log, at a time."""

    time: float
    parts: list[int]


@dataclass
class Result:
    """The bytes a day of a case: by the server's counters, by the capture, and the life in years with its range."""

    counted: list[float]
    measured: list[float]
    most: float
    life: float
    life_range: list[float]
    counted_life: float


def captured(words: list[str], trace: Path, seconds: int, counters: Callable[[], Written]) -> Result:
    """Captures with advice, and asks for the counters when the capture begins and when it ends."""
    command = [str(EBBPOOL), "capture", *words, "--seconds", str(seconds), "-o", str(trace), "--at-most", "100%"]
    process = subprocess.Popen(
        [*command, "--advise", "--device", DEVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None and process.stdout is not None
    before = after = None
    for line in process.stderr:
        if line.startswith("captures for"):
            before = counters()
        if line.startswith("captured "):
            after = counters()
    page = process.stdout.read()
    if process.wait() or before is None or after is None:
        sys.exit(f"the capture failed: {page}")
    print(page, flush=True)
    advise = next(line for line in page.splitlines() if line.startswith("ebbpool advise "))
    words = [str(EBBPOOL), *advise.split()[1:], "--format", "json"]
    advice = json.loads(subprocess.check_output(words, text=True, stderr=subprocess.DEVNULL))
    day = advice["life"]["measured"]
    elapsed = after.time - before.time
    counted = [(new - old) / elapsed * DAY for new, old in zip(after.parts, before.parts)]
    return Result(
        counted=counted,
        measured=[day["pages"], day["log"]],
        most=day["most"],
        life=advice["now"]["life_years"],
        life_range=advice["now"]["life_range_years"],
        counted_life=advice["life"]["host_bytes"] / sum(counted) / 365,
    )


def postgres(directory: Path, seconds: int, buffer: str) -> Result:
    server = Server(directory)
    if not server.template.exists():
        server.make(replace(WORKLOADS[0], setup="", scale=20))
    server.restore()
    server.start(f"shared_buffers={buffer}", "checkpoint_timeout=30s")
    bench = [str(server.bin / "pgbench"), "-U", "postgres", "-h", str(directory), "-p", "5439", "-n", "-c", "8", "-j", "2"]
    load = subprocess.Popen([*bench, "-T", str(seconds + 40), "bench"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(15)
    session = Session(server)
    if server.major >= 16:
        pages = "(select sum(writes) + sum(extends) from pg_stat_io where object = 'relation')"
    else:
        pages = "(select buffers_checkpoint + buffers_clean + buffers_backend from pg_stat_bgwriter)"
    query = f"select {pages}, pg_current_wal_lsn() - '0/0'::pg_lsn"

    def counters() -> Written:
        found = [int(number) for number in session.query(query).split("|")]
        return Written(time.time(), [found[0] * PAGE, found[1]])

    words = ["postgres", "--pid", str(server.pid())]
    found = captured(words, directory / "postgres.parquet", seconds, counters)
    load.terminate()
    load.wait()
    session.close()
    server.stop()
    return found


def sqlite(directory: Path, seconds: int, mode: str) -> Result:
    database = directory / f"{mode}.db"
    for old in directory.glob(f"{mode}.db*"):
        old.unlink()
    program = subprocess.Popen(
        ["/usr/bin/python3", "-c", PROGRAM, str(database), mode], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.readline()

    def counters() -> Written:
        fields = dict(line.split(": ") for line in Path(f"/proc/{program.pid}/io").read_text().splitlines())
        return Written(time.time(), [int(fields["wchar"])])

    found = captured(["sqlite", "--pid", str(program.pid)], directory / "sqlite.parquet", seconds, counters)
    program.kill()
    program.wait()
    return found


def row(name: str, found: Result) -> list[str]:
    def gigabytes(parts: list[float]) -> str:
        total = f"{sum(parts) / 1e9:.1f}"
        return total if len(parts) == 1 else f"{total} ({parts[0] / 1e9:.1f}, {parts[1] / 1e9:.1f})"

    def days(years: float) -> str:
        return f"{365 * years:.3g}"

    low, high = found.life_range
    return [
        name,
        gigabytes(found.counted),
        gigabytes(found.measured),
        f"{100 * (sum(found.measured) / sum(found.counted) - 1):+.1f} %",
        f"{found.most / 1e9:.1f}",
        f"{days(found.life)} ({days(low)} to {days(high)})",
        days(found.counted_life),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=int, default=70)
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.chown(directory, "postgres")
    seconds = arguments.seconds
    cases = [
        ("PostgreSQL, pgbench -c 8, shared_buffers = 128 MB", lambda: postgres(directory, seconds, "128MB")),
        ("the same, 1 GB: all pages are in the buffer", lambda: postgres(directory, seconds, "1GB")),
        ("Python on SQLite, with a log", lambda: sqlite(directory, seconds, "wal")),
        ("Python on SQLite, with a journal", lambda: sqlite(directory, seconds, "delete")),
    ]
    rows = [row(name, case()) for name, case in cases]
    header = ["program", "counted by itself", "by the capture", "differs", "at most", f"life of {DEVICE}", "by its own count"]
    text = (
        "GB a day, of which (pages, log), and days that the device lives, by `sudo python3 capture/rivals/written.py DIRECTORY "
        "--write docs/capture.md`:\n\n" + table(header, rows)
    )
    print(text)
    if arguments.write:
        write_block(arguments.write, "written", text)


if __name__ == "__main__":
    main()
