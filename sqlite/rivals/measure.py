#!/usr/bin/env python3
"""Measures the bytes that SQLite writes to a card without and with the VFS, and writes the tables of docs/sqlite.md.

Each run has a fresh ext4 on a loop device, and the bytes are those that the kernel counts on the device. What the page cache
has is written every 30 seconds of virtual time, as the kernel does; the clean close counts too. Afterwards plain SQLite
checks the database. Run it as root:

    cargo build --release -p ebbpool-sqlite
    sudo /usr/bin/python3 sqlite/rivals/measure.py DIRECTORY [--loads] [--quick] [--write docs/sqlite.md]

`--loads` measures seven loads of other programs in place of Home Assistant and TPC-B, with SQLite's usual cache. DIRECTORY takes
1.5 GB; in memory (/dev/shm/…) the runs are faster, and write the same. DIRECTORY/results.json stores the results: a second call
measures only what is missing, and `--write` alone writes the tables again. `--quick` takes a tenth of the time and has results of
its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import sqlite3
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from card import Card, checked, fresh_card, load_library, open_database, temporary_files_in
from workloads import LOADS, EvenStates, HomeAssistant, Load, TpcB
from documents import table, write_block

#: Seconds of virtual time after which the kernel writes what the page cache has.
WRITEBACK = 30.0
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Configuration:
    """How the database is opened: PRAGMAs, and options of the library or `None` for plain SQLite."""

    name: str
    loses: str
    journal: str = "wal"
    synchronous: str = "normal"
    options: str | None = None


CONFIGURATIONS = [
    Configuration("DELETE, FULL", "nothing", journal="delete", synchronous="full"),
    Configuration("WAL, FULL", "nothing", synchronous="full"),
    Configuration("WAL, NORMAL", "30 s"),
    Configuration("MEMORY, OFF", "the database", journal="memory", synchronous="off"),
    Configuration("window=0", "nothing", options="window=0"),
    Configuration("window=1", "1 s", options="window=1"),
    Configuration("window=5", "5 s", options="window=5"),
    Configuration("window=30", "30 s", options="window=30"),
    Configuration("window=300", "300 s", options="window=300"),
    Configuration("window=30&log=wal", "30 s", options="window=30&log=wal"),
    Configuration("window=30&memory=8M", "30 s", options="window=30&memory=8M"),
    Configuration("window=30&memory=64M", "30 s", options="window=30&memory=64M"),
]
#: What the others are compared with: Home Assistant's own settings.
TODAY = "WAL, NORMAL"
#: The columns of the table of loads, of which the last is what is saved.
OF_LOADS = [TODAY, "DELETE, FULL", "window=0", "window=30"]


@dataclass(frozen=True)
class Workload:
    """A workload and how long it runs, in seconds of virtual time."""

    name: str
    seconds: float
    quick: bool
    load: type[EvenStates] | type[Load] | None = None

    def make(self) -> HomeAssistant | TpcB | Load:
        if self.load is not None:
            return self.load(0.1 if self.quick else 1.0)
        if self.name == "ha":
            return HomeAssistant(rows=50_000 if self.quick else 500_000)
        return TpcB(self.name == "tpcb-skewed", accounts=100_000 if self.quick else 1_000_000)

    def template(self, directory: Path) -> Path:
        """The filled database, made at the first call."""
        kind = self.name if self.name == "ha" or self.load else "tpcb"
        path = directory / f"{kind}{'-quick' if self.quick else ''}.db"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            self.make().fill(unfinished)
            unfinished.rename(path)
        return path


def loads(quick: bool) -> list[Workload]:
    shorter = 10 if quick else 1
    return [Workload(load.__name__, load.seconds / shorter, quick, load) for load in LOADS]


def workloads(quick: bool) -> list[Workload]:
    hours = 1 / 6 if quick else 6
    minutes = 3 if quick else 30
    return [
        Workload("ha", hours * 3600, quick),
        Workload("tpcb-uniform", minutes * 60, quick),
        Workload("tpcb-skewed", minutes * 60, quick),
    ]


def drive(card: Card, path: Path, workload: Workload, configuration: Configuration) -> dict:
    """Runs the workload on an open card, and returns what was written."""
    is_ours = configuration.options is not None
    temporary_files_in(card.mount)
    if is_ours:
        load_library()

    def connection() -> sqlite3.Connection:
        database = open_database(path, configuration.options)
        if workload.load is None:
            database.execute("PRAGMA cache_size=-16384")
        database.execute(f"PRAGMA journal_mode={configuration.journal}").fetchone()
        database.execute(f"PRAGMA synchronous={configuration.synchronous}")
        return database

    database = connection()
    if is_ours:
        database.execute("PRAGMA ebbpool_clock=1")
    load = workload.make()
    load.begin(database)
    card.flush()
    before, begin = card.written(), time.monotonic()
    now, flushed, rows = 0.0, 0.0, 0
    while now < workload.seconds:
        database.execute("BEGIN IMMEDIATE")
        rows += load.step(database, load.commit)
        database.execute("COMMIT")
        now += load.commit
        if is_ours:
            database.execute(f"PRAGMA ebbpool_clock={1 + now:.3f}")
        if now - flushed >= WRITEBACK:
            flushed = now
            card.flush()
        if isinstance(load, Load) and load.reconnects:
            database.close()
            database = connection()
    status = json.loads(database.execute("PRAGMA ebbpool_status").fetchone()[0]) if is_ours else None
    card.flush()
    middle = card.written()
    database.close()
    card.flush()
    after = card.written()
    return {
        "rows": rows,
        "virtual_seconds": workload.seconds,
        "processor_seconds": time.process_time(),
        "seconds": time.monotonic() - begin,
        "close_bytes": after["bytes"] - middle["bytes"],
        **{name: after[name] - before[name] for name in after},
        "status": status,
        "peak_resident_bytes": peak_resident_bytes(),
    }


def peak_resident_bytes() -> int:
    kibibytes = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kibibytes[1]) * 1024 if kibibytes else 0


def measure(directory: Path, workload: Workload, configuration: Configuration) -> dict:
    """One run: on a fresh card, judged by plain SQLite."""
    template = workload.template(directory)
    with fresh_card(directory) as card:
        path = card.mount / "test.db"
        shutil.copyfile(template, path)
        card.flush()
        found = drive(card, path, workload, configuration)
        checked(path, "integrity_check" if workload.quick else "quick_check")
    return found


def measure_missing(directory: Path, asked: list[Workload], names: list[str], only: str) -> dict[str, dict]:
    """All results; a run that is not in results.json gets a process of its own, because the virtual clock is a process's."""
    store = directory / "results.json"
    results: dict[str, dict] = json.loads(store.read_text()) if store.exists() else {}
    context = multiprocessing.get_context("spawn")
    for workload in asked:
        for configuration in CONFIGURATIONS:
            key = f"{workload.name}{' quick' if workload.quick else ''}: {configuration.name}"
            if key in results or configuration.name not in names or not re.search(only, key):
                continue
            with ProcessPoolExecutor(1, context) as pool:
                results[key] = pool.submit(measure, directory, workload, configuration).result()
            store.write_text(json.dumps(results, indent=1) + "\n")
            print(f"{key}: {results[key]['bytes'] / MEBIBYTE:.1f} MiB, {results[key]['seconds']:.0f} s", flush=True)
    return results


def home_assistant_table(results: dict[str, dict], quick: bool) -> str:
    header = ["", "a power cut loses", "MiB an hour", "fewer bytes", "requests an hour", "flushes an hour", "memory, MiB"]
    rows = []
    prefix = "ha quick: " if quick else "ha: "
    today = results[prefix + TODAY]
    for configuration in CONFIGURATIONS:
        found = results[prefix + configuration.name]
        hours = found["virtual_seconds"] / 3600
        status = found["status"]
        memory = "" if status is None else f"{memory_of(status) / MEBIBYTE:.1f}"
        rows.append(
            [
                configuration.name if status is None else f"**{configuration.name}**",
                configuration.loses,
                f"{found['bytes'] / MEBIBYTE / hours:.0f}",
                f"{today['bytes'] / found['bytes']:.1f}x",
                f"{found['requests'] / hours:,.0f}",
                f"{found['flushes'] / hours:,.0f}",
                memory,
            ]
        )
    return table(header, rows)


def memory_of(status: dict) -> int:
    """Bytes: frames of the pool, and the most that was written and in no file."""
    return status["pool_frames"] * status["page_size"] + status["most_memory_bytes"]


def tpcb_table(results: dict[str, dict], quick: bool) -> str:
    header = ["MiB in half an hour", "uniform", "fewer bytes", "80-20", "fewer bytes"]
    rows = []
    suffix = " quick: " if quick else ": "
    for configuration in CONFIGURATIONS:
        row = [configuration.name if configuration.options is None else f"**{configuration.name}**"]
        for kind in ("tpcb-uniform", "tpcb-skewed"):
            found, today = results[f"{kind}{suffix}{configuration.name}"], results[f"{kind}{suffix}{TODAY}"]
            amount = found["bytes"] / MEBIBYTE / found["virtual_seconds"] * 1800
            row += [f"{amount:.0f}", f"{today['bytes'] / found['bytes']:.1f}x"]
        rows.append(row)
    return table(header, rows)


def loads_table(results: dict[str, dict], quick: bool) -> str:
    rows = []
    for workload in loads(quick):
        found = [results[f"{workload.name}{' quick' if quick else ''}: {name}"] for name in OF_LOADS]
        cells = [f"{one['bytes'] / MEBIBYTE:.1f} / {one['flushes']:,}" for one in found]
        rows.append([workload.make().name, *cells, f"{found[0]['bytes'] / found[-1]['bytes']:.1f}x"])
    return (
        "By `sudo /usr/bin/python3 sqlite/rivals/measure.py DIRECTORY --loads --write docs/sqlite.md`: MiB / flushes of each load, "
        "counted as in the tables below, with SQLite's usual cache; the last column compares `window=30` with `WAL, NORMAL`. Bytes "
        "differ by 3 % from run to run, flushes by more where the file system's own are many. An import that takes longer than 30 real "
        "seconds writes more with a WAL, because the kernel does not wait for its end.\n\n"
        + table(["", *OF_LOADS, "fewer bytes"], rows)
        + "\n\nThe states are those of Home Assistant below, made harder: all entities as frequent, identifiers at random. `WAL, NORMAL` "
        "flushes for checkpoints only, and promises no time by which a commit is durable. A window does: commits that are further "
        "apart, as those of the DNS server, have flushes of their own. Large values have the fewest bytes with DELETE. The import "
        "is about as large as the library's memory; much larger ones save less (see below)."
    )


def tables(results: dict[str, dict], quick: bool) -> str:
    loads = {workload.name: workload.seconds for workload in workloads(quick)}
    rows = "50,000" if quick else "500,000"
    accounts = "100,000" if quick else "1,000,000"
    return (
        "By `sudo /usr/bin/python3 sqlite/rivals/measure.py DIRECTORY --write docs/sqlite.md`: sectors that the kernel "
        "wrote to an ext4 of its own, whose page cache was written every 30 seconds, with the clean close. Plain SQLite "
        "checked each database afterwards.\n\n"
        f"Home Assistant's `states` with its indexes over {loads['ha'] / 3600:.3g} hours, {rows} rows before: 300 entities, 10 "
        "states a second, a commit every 5 seconds. `WAL, NORMAL` is what Home Assistant uses. Memory is that of the library's "
        "pool and of what is in no file yet.\n\n"
        + home_assistant_table(results, quick)
        + f"\n\nTPC-B over {loads['tpcb-uniform'] / 60:.3g} minutes, {accounts} accounts, 10 transactions a second:\n\n"
        + tpcb_table(results, quick)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--loads", action="store_true", help="measure seven loads of other programs")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, on a tenth of the rows")
    parser.add_argument("--only", default="", metavar="REGEX", help="measure runs such as 'ha: window=30', and print no table")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("a loop device needs root")
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    quick = arguments.quick
    names = OF_LOADS if arguments.loads else [configuration.name for configuration in CONFIGURATIONS]
    asked = loads(quick) if arguments.loads else workloads(quick)
    results = measure_missing(directory, asked, names, arguments.only)
    if arguments.only:
        return
    block, text = ("loads", loads_table(results, quick)) if arguments.loads else ("bytes", tables(results, quick))
    print(text)
    if arguments.write:
        write_block(arguments.write, block, text)


if __name__ == "__main__":
    main()
