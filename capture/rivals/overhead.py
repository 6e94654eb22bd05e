#!/usr/bin/env python3
"""Measures what each kind of capture costs: processor time of a unit of work without and with it, in pairs, beside the share that
the command states.

    cargo build --release --features all
    sudo apt install postgresql gcc libsqlite3-0
    sudo python3 capture/rivals/overhead.py DIRECTORY [--pairs 12] [--rows NAME,…] [--beside PROGRAM] [--write docs/capture.md]

Units per second say little on a machine with few processors or other work, so they are not compared. Run it on an idle machine
nevertheless. No capture ends or samples for its cost, and one that loses an event ends the script. `--beside` measures another
build of ebbpool in turn with this one, by the same target. With `--write` all rows are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "postgres"), *(str(HERE.parents[1] / it) for it in ("tests", "postgres"))]

import captures
from documents import table, write_block
from servers import built
from validate import PORT, WORKLOADS, Server

#: Seconds that a program works for one time of a pair.
SECONDS = "2"
#: Below this true share, in percent, its noise would decide how many times as much is stated.
LEAST_SHARE = 1.0
MEBIBYTE = 1 << 20
#: Debian's, whose module loads SQLite's shared library.
PYTHON = "/usr/bin/python3"

#: What work.c does, for inserts with a commit each: arguments DATABASE SECONDS.
INSERTS = """
import os, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("pragma journal_mode=wal")
database.execute("pragma synchronous=normal")
database.execute("create table notes(id integer primary key, note text)")
print(os.getpid(), flush=True)
if not sys.stdin.readline():
    sys.exit()
end, used, inserts = time.monotonic() + float(sys.argv[2]), time.process_time_ns(), 0
while time.monotonic() < end:
    database.execute("insert into notes(note) values (?)", ("x" * 100,))
    inserts += 1
print((time.process_time_ns() - used) / inserts, flush=True)
sys.stdin.read()
"""

#: 300,000 statements on a table that only its session sees.
TEMPORARY = """
create temporary table visits(id int primary key, note text);
do $$
declare found_note text;
begin
    for number in 1..100000 loop
        insert into visits values (number, 'a note');
    end loop;
    analyze visits;
    for number in 1..200000 loop
        select note into found_note from visits where id = 1 + number * 7919::bigint % 100000;
    end loop;
end $$;
"""


@dataclass
class Cost:
    """Nanoseconds of processor time of a unit of work, and the share of it that a capture states to take."""

    time: float
    stated: float | None = None


#: Measures once, under a capture by this program, or without one.
Measure = Callable[[Path | None], Cost]


class Missing(Exception):
    """Why a row cannot be measured on this machine."""


class Target:
    """A program that prints its number, works when it gets a line, prints the time of a unit, and ends when its input does."""

    def __init__(self, words: list[str | Path]) -> None:
        self.words = words

    def __enter__(self) -> Target:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(list(map(str, self.words)), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        try:
            self.pid = int(self.line())
        except BaseException:
            self.process.kill()
            raise
        return self

    def line(self) -> str:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.words[0]} has failed: {self.process.stderr.read()}")
        return line

    def work(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self) -> None:
        """Lets it end, which for one inside `ebbpool sqlite run` ends the capture."""
        _, errors = self.process.communicate(timeout=600)
        if self.process.returncode:
            sys.exit(f"{self.words[0]} has failed: {errors}")

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            # `ebbpool sqlite run` passes this signal to its program.
            self.process.terminate()
            self.process.communicate()


def stated(trace: Path, fact: str = "overhead") -> float | None:
    """The share that a capture states to take, which has lost and left out nothing."""
    facts = json.loads(trace.with_suffix(".json").read_text())
    events, lost, sample = facts["events"], facts["lost"], facts["sample"]
    if lost:
        sys.exit(f"the capture has lost {lost:,} of {events + lost:,} events, so that its cost says nothing")
    if sample != 1.0:
        sys.exit(f"the capture has seen only {sample:.1%} of the pages, so that its cost says nothing")
    share: float | None = facts[fact]
    return share


def captured(source: str, of: int | str, trace: Path, program: Path, work: Callable[[], float], fact: str = "overhead") -> Cost:
    """Works while a process or a device is captured."""
    capture = captures.start(source, of, trace, program)
    try:
        found = work()
        capture.send_signal(signal.SIGINT)
        _, errors = capture.communicate(timeout=600)
    finally:
        capture.kill()
        capture.wait()
    if capture.returncode:
        sys.exit(f"the capture failed: {errors}")
    return Cost(found, stated(trace, fact))


class Bench:
    """Targets in a directory. Of each row that is measured, `stack` has what ends its targets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trace = directory / "overhead.parquet"
        self.stack = ExitStack()
        self.servers: dict[bool, Server] = {}
        self.database = directory / "overhead.db"
        self.file = directory / "file"
        self.file.write_bytes(bytes(16 * MEBIBYTE))
        self.work = directory / "work"
        command = ["cc", "-O2", "-o", str(self.work), str(HERE / "work.c"), "-l:libsqlite3.so.0"]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            sys.exit("there is no cc; install it: apt install gcc libc6-dev")
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")

    def program(self, load: str, file: str | Path) -> list[str | Path]:
        return [self.work, load, file, SECONDS]

    def lookups(self) -> list[str | Path]:
        return self.program("lookups", self.database)

    def inserts(self) -> list[str | Path]:
        return [PYTHON, "-c", INSERTS, self.database, SECONDS]

    def forget(self) -> None:
        """Removes the database, so that each program begins without it."""
        for old in self.directory.glob(f"{self.database.name}*"):
            old.unlink()

    def made(self, has_module: bool) -> Server:
        """A server with a database; with the module it is Debian's own one, redirected."""
        directory, programs = self.directory, None
        if has_module:
            programs = built("debian", directory).parent
            built("module", programs / "pg_config", directory / "for-module")
            directory = directory / "with-module"
            directory.mkdir(exist_ok=True)
        shutil.chown(directory, "postgres")
        server = Server(directory, programs)
        server.make(WORKLOADS[0])
        return server

    def postgres(self, units: int, *client: str, module: bool = False) -> Measure:
        """A server whose client makes it do this number of units."""
        if module not in self.servers:
            self.servers[module] = self.made(module)
        server = self.servers[module]
        server.restore()
        self.stack.callback(server.stop_after_failure)
        settings = ["shared_preload_libraries=ebbpool", "ebbpool.attach=redirect", "bgwriter_lru_maxpages=0"] if module else []
        server.start("shared_buffers=128MB", "max_wal_size=10GB", *settings)
        if module:
            server.query("create extension ebbpool", "bench")
            connection = {"PGHOST": server.directory, "PGPORT": PORT, "PGUSER": "postgres", "PGDATABASE": "bench"}
            os.environ.update({name: str(value) for name, value in connection.items()})
        of = "--module" if module else server.pid()

        def used() -> float:
            """Seconds of the postmaster's children that have ended: every backend of a client that has."""
            fields = Path(f"/proc/{server.pid()}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

        def work() -> float:
            before = used()
            server.client(*client)
            # The postmaster asks for the ends of its children a little later.
            time.sleep(0.5)
            return 1e9 * (used() - before) / units

        def measure(program: Path | None) -> Cost:
            if program is None:
                return Cost(work())
            return captured("postgres", of, self.trace, program, work)

        return measure

    def attached(self, source: str, words: list[str | Path], device: str | None = None) -> Measure:
        """A program that is captured while it runs, or of which a device is."""

        def measure(program: Path | None) -> Cost:
            self.forget()
            with Target(words) as target:
                if program is None:
                    return Cost(target.work())
                return captured(source, device or target.pid, self.trace, program, target.work)

        return measure

    def inside(self, words: list[str | Path]) -> Measure:
        """A program that a capture starts, and records inside it."""

        def measure(program: Path | None) -> Cost:
            self.forget()
            run: list[str | Path] = []
            if program:
                run = [program, "sqlite", "run", "--capture", self.trace, "--references", "200M", "--"]
            with Target(run + words) as target:
                found = target.work()
                target.end()
            return Cost(found, stated(self.trace) if program else None)

        return measure

    def bystander(self) -> Measure:
        """A program beside another one, which is captured and does nothing meanwhile."""
        idle: list[str | Path] = [self.work, "files", self.file, "0.1"]

        def measure(program: Path | None) -> Cost:
            with Target(self.program("calls", self.file)) as target, Target(idle) as other:
                if program is None:
                    return Cost(target.work())

                def work() -> float:
                    found = target.work()
                    # A capture without a request would fail.
                    other.work()
                    return found

                return captured("process", other.pid, self.trace, program, work, "overhead_of_others")

        return measure

    def device(self) -> Measure:
        """A loop device on a file."""
        image = self.directory / "image"
        image.write_bytes(bytes(64 * MEBIBYTE))

        def losetup(*words: str | Path) -> str:
            try:
                return subprocess.check_output(["losetup", *words], stderr=subprocess.STDOUT, text=True).strip()
            except FileNotFoundError:
                raise Missing("there is no losetup") from None
            except subprocess.CalledProcessError as error:
                raise Missing(f"losetup makes no loop device: {error.output.strip()}") from None

        def detach() -> None:
            for name in losetup("-n", "-O", "NAME", "-j", image).split():
                losetup("-d", name)

        # Before it is there, since Ctrl-C may come while losetup works.
        detach()
        self.stack.callback(detach)
        name = losetup("--find", "--show", image)
        return self.attached("device", self.program("device", name), name)


@dataclass
class Row:
    """Its name for `--rows`, what the table says of it, and its target."""

    name: str
    about: str
    open: Callable[[Bench], Measure]


BENCH = ("pgbench", "-n", "-c", "8", "-j", "2")
SELECT, TPC_B = (*BENCH, "-t", "8000", "-S", "bench"), (*BENCH, "-t", "1500", "bench")
FILLED = ("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", "bench", "-c", TEMPORARY)
ROWS = [
    Row("postgres-select", "`postgres`: `pgbench -S -c 8`, a transaction", lambda bench: bench.postgres(8 * 8000, *SELECT)),
    Row("postgres-tpcb", "`postgres`: `pgbench -c 8` (TPC-B), a transaction", lambda bench: bench.postgres(8 * 1500, *TPC_B)),
    Row(
        "postgres-temporary",
        "`postgres`: a temporary table, filled and read, a statement",
        lambda bench: bench.postgres(300_000, *FILLED),
    ),
    Row(
        "module-select",
        "`postgres --module`: `pgbench -S -c 8`, a transaction",
        lambda bench: bench.postgres(8 * 8000, *SELECT, module=True),
    ),
    Row(
        "module-tpcb",
        "`postgres --module`: `pgbench -c 8` (TPC-B), a transaction",
        lambda bench: bench.postgres(8 * 1500, *TPC_B, module=True),
    ),
    Row(
        "sqlite-lookups",
        "`sqlite --pid`: lookups in memory by C, a lookup",
        lambda bench: bench.attached("sqlite", bench.lookups()),
    ),
    Row("sqlite-lookups-inside", "`sqlite run --capture`: the same, a lookup", lambda bench: bench.inside(bench.lookups())),
    Row(
        "sqlite-inserts",
        "`sqlite --pid`: inserts with a commit each by Python, an insert",
        lambda bench: bench.attached("sqlite", bench.inserts()),
    ),
    Row("sqlite-inserts-inside", "`sqlite run --capture`: the same, an insert", lambda bench: bench.inside(bench.inserts())),
    Row(
        "process-files",
        "`process`: `pread` and `pwrite` of 4 KiB in turn, a call",
        lambda bench: bench.attached("process", bench.program("files", bench.file)),
    ),
    Row(
        "process-calls",
        "`process`: a pipe and `getppid`, hardly a file, a call",
        lambda bench: bench.attached("process", bench.program("calls", bench.file)),
    ),
    Row("bystander", "`process` of another, idle one: the same calls, a call", Bench.bystander),
    Row("device", "`device`: direct reads of 4 KiB from a loop device, a request", Bench.device),
]
HEADER = ["capture and load, a unit", "pairs", "without", "with", "true share, median of pairs (all)", "stated, median"]
HEADER += ["stated / true"]


def shown_time(nanoseconds: float) -> str:
    return f"{nanoseconds:.0f} ns" if nanoseconds < 1000 else f"{nanoseconds / 1000:.{1 if nanoseconds < 1e5 else 0}f} µs"


def true_share(without: Cost, with_capture: Cost) -> float:
    """Percent of the target's time under a capture that the capture takes."""
    return 100 * (1 - without.time / with_capture.time)


def rounds(row: Row, bench: Bench, programs: list[Path], count: int) -> list[list[Cost]]:
    """For each round the cost without a capture, and with one by each program. The order turns, so that none is always first."""
    with bench.stack:
        measure = row.open(bench)
        measure(None)
        found = []
        of: list[Path | None] = [None, *programs]
        for at in range(count):
            costs = [Cost(0.0)] * len(of)
            for turn in range(len(of)):
                now = (at + turn) % len(of)
                costs[now] = measure(of[now])
            found.append(costs)
            words = f"{row.name}, {at + 1} of {count}: {shown_time(costs[0].time)} without a capture"
            for cost in costs[1:]:
                says = "" if cost.stated is None else f" (stated: {100 * cost.stated:.1f} %)"
                words += f", {shown_time(cost.time)} with one: {true_share(costs[0], cost):.1f} % of it{says}"
            print(words, flush=True)
    return found


def line(row: Row, without: Sequence[Cost], with_capture: Sequence[Cost]) -> list[str]:
    """A line of the table."""
    shares = sorted(map(true_share, without, with_capture))
    true = statistics.median(shares)
    states = [100 * cost.stated for cost in with_capture if cost.stated is not None]
    says = statistics.median(states) if states else None
    return [
        row.about,
        str(len(shares)),
        *(shown_time(statistics.median(cost.time for cost in costs)) for costs in (without, with_capture)),
        f"{true:.1f} % ({shares[0]:.1f} to {shares[-1]:.1f} %)",
        "none" if says is None else f"{says:.1f} %",
        "" if says is None or true < LEAST_SHARE else f"{says / true:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--rows", metavar="NAME,…", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--beside", type=Path, metavar="PROGRAM")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    names = arguments.rows.split(",") if arguments.rows else [row.name for row in ROWS]
    unknown = set(names) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; the rows are {', '.join(row.name for row in ROWS)}")
    if arguments.write and arguments.rows:
        parser.error("--write needs all rows, since it fills a table of them")
    if arguments.pairs < 1:
        parser.error("--pairs needs a number of at least 1")
    if os.geteuid() != 0:
        sys.exit("captures need root: run it by sudo")
    programs = [captures.EBBPOOL] + ([arguments.beside.resolve()] if arguments.beside else [])
    for program in programs:
        if not os.access(program, os.X_OK):
            sys.exit(f"{program} is no program; build it (cargo build --release --features all), or set EBBPOOL")
    # SIGTERM ends the script as Ctrl-C does: no target stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    bench = Bench(directory)
    rows, missing = [], ""
    for row in ROWS:
        if row.name not in names:
            continue
        try:
            found = rounds(row, bench, programs, arguments.pairs)
        except Missing as why:
            print(f"{row.name} is skipped: {why}", flush=True)
            missing += f"\n\nNot measured: {row.about}, since {why}."
            continue
        without, *with_captures = zip(*found)
        rows.append(line(row, without, with_captures[0]))
        if arguments.beside:
            print(f"by {arguments.beside}: " + ", ".join(line(row, without, with_captures[1])), flush=True)
    pairs = "" if arguments.pairs == parser.get_default("pairs") else f" --pairs {arguments.pairs}"
    text = (
        "Processor time of a unit of work without and with a capture, the share of the latter that the capture takes, "
        "and the one that it states,\n"
        f"by `sudo python3 capture/rivals/overhead.py DIRECTORY{pairs} --write docs/capture.md`. "
        f"The last column is empty where no number is stated, and below {LEAST_SHARE:g} %.\n\n" + table(HEADER, rows) + missing
    )
    print(text)
    if arguments.write:
        write_block(arguments.write, "overhead", text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("ended by Ctrl-C")
