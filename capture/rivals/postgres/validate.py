#!/usr/bin/env python3
"""Compares what Ebbpool predicts for PostgreSQL with what PostgreSQL counts, and writes the tables of docs/validation.md.

For each workload and each size of shared_buffers it starts a fresh copy of a server with a cold buffer, captures the run with
`ebbpool capture postgres`, runs the captured references through the lab's policy `postgres`, and reads the server's own
counters before and after. Run it as root, with PostgreSQL's packages from Debian or Ubuntu installed and a release build of
Ebbpool:

    cargo build --release --features all
    sudo apt install postgresql
    sudo python3 capture/rivals/postgres/validate.py DIRECTORY [--quick] [--write docs/validation.md]

DIRECTORY takes some 6 GB. DIRECTORY/results.json stores the results: a second call measures only what is missing, and
`--write` alone writes the tables again.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[3] / "tests")]

import captures
from captures import EBBPOOL, LEAST, difference, shown
from documents import table, write_block

PORT = "5439"
#: Only backends write: no background writer, no checkpoint, no autovacuum.
QUIET = [
    "autovacuum=off",
    "bgwriter_lru_maxpages=0",
    "checkpoint_timeout=1d",
    "max_wal_size=100GB",
]
#: Of every run. Without syncs the log is always written when a page is, as in a server with a fast log.
ALWAYS = ["fsync=off"]
#: The cost of a page write in page reads for what a better policy would do.
ASYMMETRY = "8"


@dataclass
class Workload:
    """A database, scripts for pgbench with their weights, transactions of each client, and sizes of the buffer in pages."""

    name: str
    about: str
    setup: str
    scripts: list[tuple[int, str]]
    transactions: int
    sizes: list[int]
    scale: int = 20
    options: list[str] = field(default_factory=list)


TATP_TABLES = """
create table subscriber (s_id int primary key, sub_nbr text, bits int, vlr_location int) with (fillfactor=90);
create table access_info (s_id int, ai_type int, data1 int, data2 int, primary key (s_id, ai_type));
create table special_facility (s_id int, sf_type int, is_active int, data_a int, primary key (s_id, sf_type));
create table call_forwarding (s_id int, sf_type int, start_time int, end_time int, numberx text,
    primary key (s_id, sf_type, start_time));
insert into subscriber select i, lpad(i::text, 15, '0'), i % 256, (i::bigint * 7919) % 100000 from generate_series(1, 400000) i;
create unique index subscriber_nbr on subscriber (sub_nbr);
insert into access_info select i, t, i % 256, t from generate_series(1, 400000) i, generate_series(1, 4) t where (i + t) % 8 < 5;
insert into special_facility select i, t, 1, i % 256 from generate_series(1, 400000) i, generate_series(1, 4) t where (i * t) % 8 < 5;
insert into call_forwarding select i, t, 8 * (i % 3), 8 * (i % 3) + 8, '555' from generate_series(1, 400000) i, generate_series(1, 4) t
    where (i * t) % 8 < 3;
"""

#: TATP's subscribers are chosen by its own skew, (random(0, A) | random(1, P)) % P + 1.
TATP_ID = r"\set s (random(0, 65535) | random(1, 400000)) % 400000 + 1" + "\n"
TATP = [
    (35, TATP_ID + "select * from subscriber where s_id = :s;"),
    (
        10,
        TATP_ID
        + r"\set t random(1, 4)"
        + "\nselect cf.numberx from special_facility sf, call_forwarding cf where sf.s_id = :s and sf.sf_type = :t "
        "and sf.is_active = 1 and cf.s_id = sf.s_id and cf.sf_type = sf.sf_type;",
    ),
    (35, TATP_ID + r"\set t random(1, 4)" + "\nselect * from access_info where s_id = :s and ai_type = :t;"),
    (
        2,
        TATP_ID
        + r"\set t random(1, 4)"
        + "\nbegin;\nupdate subscriber set bits = :t where s_id = :s;\n"
        "update special_facility set data_a = :t where s_id = :s and sf_type = :t;\nend;",
    ),
    (14, TATP_ID + r"\set v random(1, 100000)" + "\nupdate subscriber set vlr_location = :v where sub_nbr = lpad(:s::text, 15, '0');"),
    (
        2,
        TATP_ID
        + r"\set t random(1, 4)"
        + "\ninsert into call_forwarding values (:s, :t, 24, 32, '555') on conflict do nothing;",
    ),
    (2, TATP_ID + r"\set t random(1, 4)" + "\ndelete from call_forwarding where s_id = :s and sf_type = :t and start_time = 24;"),
]

ZIPF = (
    r"\set a random_zipfian(1, 2000000, 1.05)"
    + "\n"
    + r"\set p permute(:a, 2000000) + 1"
    + "\nselect abalance from pgbench_accounts where aid = :p;"
)
ZIPF_WRITE = (
    r"\set a random_zipfian(1, 2000000, 1.05)"
    + "\n"
    + r"\set p permute(:a, 2000000) + 1"
    + "\nupdate pgbench_accounts set abalance = abalance + 1 where aid = :p;"
)
SCAN = "select count(*) from pgbench_accounts where abalance < 0;"

WORKLOADS = [
    Workload("tpcb", "TPC-B, as pgbench has it", "", [], 6000, [1024, 4096, 8192, 16384]),
    Workload(
        "zipf",
        "reads and updates of accounts by a Zipf distribution",
        "",
        [(8, ZIPF), (2, ZIPF_WRITE)],
        30000,
        [1024, 4096, 8192, 16384],
    ),
    Workload("tatp", "TATP's seven transactions", TATP_TABLES, TATP, 25000, [1024, 2048, 4096, 8192]),
    Workload(
        "scans",
        "the Zipf workload, with scans of the whole table between",
        "",
        [(7995, ZIPF), (2000, ZIPF_WRITE), (5, SCAN)],
        15000,
        [1024, 4096, 8192, 16384],
        options=["max_parallel_workers_per_gather=0"],
    ),
]


def binaries() -> Path:
    """The directory of the newest server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if not found:
        sys.exit("no PostgreSQL server in /usr/lib/postgresql; install one: apt install postgresql")
    return found[-1].parent


class Server:
    """A server that runs as the user postgres, unless it is started by a user who is not root; its sockets are in its
    directory. `programs` is the directory of its programs; without it the newest server of the system runs."""

    def __init__(self, directory: Path, programs: Path | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.template = directory / "template"
        self.bin = programs or binaries()
        version = subprocess.check_output([self.bin / "postgres", "--version"], text=True)
        self.major = int(version.split()[2].split(".")[0])
        self.running = False
        atexit.register(self.stop_after_failure)
        # SIGTERM ends the program as Ctrl-C does: the server is stopped.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def stop_after_failure(self) -> None:
        if self.running:
            self.stop()

    def as_owner(self, *words: str | Path) -> None:
        command = [*(["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/")
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")

    def start(self, *settings: str) -> None:
        options = [f"-c {setting}" for setting in settings]
        options += [f"-c port={PORT}", f"-c unix_socket_directories={self.directory}", "-c listen_addresses="]
        log = self.directory / "server.log"
        # Before it does, since Ctrl-C may come while pg_ctl waits.
        self.running = True
        try:
            # Its standard streams must not be ours: it lives on after pg_ctl.
            self.as_owner(self.bin / "pg_ctl", "-D", self.data, "-l", log, "-w", "-o", " ".join(options), "start")
        except SystemExit:
            self.running = False
            raise

    def stop(self) -> None:
        self.as_owner(self.bin / "pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        self.running = False

    def client(self, program: str, *words: str) -> str:
        command = [self.bin / program, "-U", "postgres", "-h", str(self.directory), "-p", PORT, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
        return done.stdout

    def query(self, sql: str, database: str = "postgres") -> str:
        return self.client("psql", "-d", database, "-AtXqc", sql).strip()

    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def refuse_if_running(self) -> None:
        """Ends the program if another one's server runs in the directory."""
        if not (self.data / "postmaster.pid").exists():
            return
        pid = self.pid()
        if Path(f"/proc/{pid}").exists():
            sys.exit(f"a server (process {pid}) runs in {self.data}; stop it first: kill -INT {pid}")

    def make(self, workload: Workload) -> None:
        """Makes the database of a workload, of which each run gets a copy."""
        self.refuse_if_running()
        for old in (self.data, self.template):
            shutil.rmtree(old, ignore_errors=True)
        self.as_owner(self.bin / "initdb", "-D", self.data, "--locale=C", "-A", "trust", "-N")
        self.start("shared_buffers=256MB", "max_wal_size=10GB", "fsync=off")
        self.query("create database bench")
        if workload.setup:
            self.query(workload.setup, "bench")
        else:
            self.client("pgbench", "-i", "-q", "-s", str(workload.scale), "bench")
        # Hint bits and visibility are settled, so that a run does not write them.
        self.query("vacuum freeze analyze", "bench")
        self.query("checkpoint")
        self.stop()
        self.data.rename(self.template)

    def restore(self) -> None:
        self.refuse_if_running()
        shutil.rmtree(self.data, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.template), str(self.data)], check=True)


class Session:
    """A session that asks for counters. It stays open, with the catalogues in its own memory, so that it reads no page of the
    shared buffer between two questions."""

    def __init__(self, server: Server) -> None:
        self.server = server
        command = [server.bin / "psql", "-U", "postgres", "-h", str(server.directory), "-p", PORT, "-AtXq", "-d", "postgres"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The catalogues are read, and the server counts what a session did some time after it.
        for _ in range(3):
            self.counters()

    def query(self, sql: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{sql};\n\\echo end\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line == "end\n":
                return "".join(lines).strip()
            lines.append(line)
        sys.exit(f"psql ended: {sql}")

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def background(self) -> dict[str, int]:
        """Pages that the background writer and the checkpointer have written, at this moment: they go on when the load ends."""
        checkpoints = "buffers_checkpoint" if self.server.major < 17 else "(select buffers_written from pg_stat_checkpointer)"
        found = self.query(f"select buffers_clean, {checkpoints} from pg_stat_bgwriter")
        return dict(zip(("cleaner", "checkpoints"), map(int, found.split("|"))))

    def counters(self) -> dict[str, int]:
        """Counted pages since the server was made: reads, and writes of backends."""
        time.sleep(1.5)
        if self.server.major >= 16:
            # From 18 on one read may be of several pages.
            pages = "sum(reads)" if self.server.major < 18 else "div(sum(read_bytes), current_setting('block_size')::int)"
            found = self.query(
                f"select coalesce({pages}, 0), coalesce(sum(writes), 0) from pg_stat_io where object = 'relation' "
                "and backend_type not in ('background writer', 'checkpointer')"
            )
        else:
            # The writes of backends are reported when a checkpoint ends.
            self.query("checkpoint")
            time.sleep(1.0)
            found = self.query(
                "select (select sum(blks_read) from pg_stat_database), buffers_backend from pg_stat_bgwriter"
            )
        return dict(zip(("reads", "backends"), map(int, found.split("|"))))


def run_benchmark(server: Server, workload: Workload, transactions: int, clients: int = 8, seed: int = 42) -> str:
    """`transactions` are those of each client."""
    words = ["-n", "-c", str(clients), "-j", "2", "-t", str(transactions), f"--random-seed={seed}"]
    for number, (weight, script) in enumerate(workload.scripts):
        path = server.directory / f"{workload.name}-{number}.sql"
        path.write_text(script + "\n")
        words += ["-f", f"{path}@{weight}"]
    return server.client("pgbench", *words, "bench")


def policy_of(facts: dict, quiet: bool) -> str:
    """The lab's policy with the settings of the server that was captured."""
    if quiet:
        return "postgres:bgwriter_lru_maxpages=0"
    settings = facts["settings"]
    return (
        f"postgres:bgwriter_delay={settings['bgwriter_delay']},"
        f"bgwriter_lru_maxpages={settings['bgwriter_lru_maxpages']},"
        f"bgwriter_lru_multiplier={settings['bgwriter_lru_multiplier']:g},"
        f"checkpoint_timeout={settings['checkpoint_timeout']}"
    )


def measure(server: Server, workload: Workload, frames: int, quiet: bool, transactions: int) -> dict:
    """One run: what the server counted, and the capture."""
    server.restore()
    settings = [f"shared_buffers={frames}", *workload.options]
    server.start(*settings, *ALWAYS, *(QUIET if quiet else []))
    name = f"{workload.name}-{frames}-{'quiet' if quiet else 'stock'}"
    trace = server.directory / f"{name}.parquet"
    session = Session(server)
    before = session.counters()
    capture = captures.start("postgres", server.pid(), trace)
    before |= session.background()
    run_benchmark(server, workload, transactions)
    background = session.background()
    capture.send_signal(signal.SIGINT)
    _, errors = capture.communicate(timeout=600)
    if capture.returncode:
        sys.exit(f"{name}: {errors}")
    after = session.counters() | background
    session.close()
    server.stop()
    facts = json.loads(trace.with_suffix(".json").read_text())
    counted = {key: after[key] - before[key] for key in after}
    new = facts["extensions"]
    if server.major >= 16:
        pages_read = counted["reads"]
    else:
        # Up to 15 a new page counts as read by its backend, and as written when the file grows.
        pages_read = counted["reads"] - new
        counted["backends"] -= new
    writes = counted["backends"] + counted["cleaner"] + counted["checkpoints"]
    return {
        "workload": workload.name,
        "frames": frames,
        "quiet": quiet,
        "reads": pages_read,
        "writes": writes,
        "cleaner": counted["cleaner"],
        "checkpoints": counted["checkpoints"],
        "new": new,
        "references": facts["references"],
        "rings": facts["ring_requests"],
        "resident": facts["resident_references"],
        "lost": facts["lost"],
        "policy": policy_of(facts, quiet),
        "trace": trace.name,
        "major": server.major,
        "database_pages": facts["pages"],
    }


def predict(server: Server, cell: dict, frames: int, policy: str) -> tuple[int, int]:
    """Reads and writes that a policy predicts for a cell's capture at a size."""
    return captures.predict(server.directory / cell["trace"], policy, frames, cell["resident"], cell["new"])


def with_predictions(server: Server, cells: list[dict]) -> None:
    for cell in cells:
        if "predicted" in cell:
            continue
        cell["predicted"] = predict(server, cell, cell["frames"], cell["policy"])
        cell["lru"] = predict(server, cell, cell["frames"], "lru")
        if cell["quiet"]:
            others = [other for other in cells if other["workload"] == cell["workload"] and other["quiet"]]
            cell["elsewhere"] = {
                str(other["frames"]): predict(server, cell, other["frames"], cell["policy"])
                for other in others
                if other["frames"] != cell["frames"]
            }


def better(server: Server, cell: dict) -> list[dict]:
    """The bills of other policies on a captured trace, and the bound."""
    policies = f"{cell['policy']},lru,ccf-lru,ebb"
    command = [str(EBBPOOL), "compare", str(server.directory / cell["trace"]), "--policies", policies]
    command += ["--frames", str(cell["frames"]), "--asymmetry", ASYMMETRY, "--warmup", str(cell["resident"]), "--bound", "--format", "json", "--no-cache"]
    # Pages that a policy leaves dirty at the end of so short a run are writes, too.
    command += ["--at-end", "flush"]
    return json.loads(subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL))


def accuracy(cells: list[dict]) -> str:
    header = ["workload", "shared_buffers", "reads counted", "postgres", "lru", "writes counted", "postgres", "lru"]
    rows = []
    for cell in cells:
        (reads, writes), (lru_reads, lru_writes) = cell["predicted"], cell["lru"]
        rows.append(
            [
                cell["workload"],
                f"{cell['frames']:,}",
                f"{cell['reads']:,}",
                shown(difference(reads, cell["reads"])),
                shown(difference(lru_reads, cell["reads"])),
                f"{cell['writes']:,}",
                shown(difference(writes, cell["writes"])),
                shown(difference(lru_writes, cell["writes"])),
            ]
        )
    return table(header, rows)


def summary(cells: list[dict], goal_reads: float, goal_writes: float) -> str:
    def worst(which: int, key: str, goal: float) -> str:
        found = [difference(cell["predicted"][which], cell[key]) for cell in cells]
        sizes = [abs(value) for value in found if value is not None]
        if not sizes:
            return f"{key}: no cell with {LEAST:,}"
        within = sum(size <= goal for size in sizes)
        return (
            f"{key}: median {statistics.median(sizes):.2f} %, worst {max(sizes):.2f} %, "
            f"{within} of {len(sizes)} cells within {goal:g} %"
        )

    lost = sum(cell["lost"] for cell in cells)
    return f"{worst(0, 'reads', goal_reads)}; {worst(1, 'writes', goal_writes)}; {lost} events lost."


def elsewhere(cells: list[dict]) -> str:
    quiet = {(cell["workload"], str(cell["frames"])): cell for cell in cells if cell["quiet"]}
    rows = []
    for workload in dict.fromkeys(cell["workload"] for cell in cells):
        found: dict[str, list[float]] = {"reads": [], "writes": []}
        for (name, _), cell in quiet.items():
            if name != workload:
                continue
            for frames, (reads, writes) in cell["elsewhere"].items():
                real = quiet[(workload, frames)]
                for key, value in (("reads", reads), ("writes", writes)):
                    off = difference(value, real[key])
                    if off is not None:
                        found[key].append(abs(off))
        cells_of = [
            part
            for sizes in found.values()
            for part in (
                [f"{statistics.median(sizes):.2f} %", f"{max(sizes):.2f} %"] if sizes else ["", ""]
            )
        ]
        rows.append([workload, str(len(found["reads"])), *cells_of])
    return table(["workload", "pairs", "reads, median", "worst", "writes, median", "worst"], rows)


def policies(cells: list[dict]) -> str:
    rows = []
    for cell in cells:
        if "better" not in cell:
            continue
        bills = {entry["policy"].split(":")[0]: entry for entry in cell["better"]}
        now = bills["postgres"]["cost"]
        bound = bills["ebb"].get("lower_bound")
        row = [cell["workload"], f"{cell['frames']:,}", f"{now:.4f}"]
        row += [f"{100 * (bills[name]['cost'] / now - 1):+.1f} %" for name in ("lru", "ccf-lru", "ebb")]
        row.append("" if bound is None else f"{100 * (bound / now - 1):+.1f} %")
        rows.append(row)
    return table(["workload", "shared_buffers", "clock sweep's bill", "lru", "ccf-lru", "ebb", "bound"], rows)


def write(path: Path, results: dict) -> None:
    cells = results["cells"]
    quiet = [cell for cell in cells if cell["quiet"]]
    stock = [cell for cell in cells if not cell["quiet"]]
    blocks = {
        "setting": f"PostgreSQL {cells[0]['major']}, {results['date']}, 8 clients of pgbench"
        + (", with `--quick`: a tenth of the transactions, two sizes each." if results.get("quick") else "."),
        "quiet": summary(quiet, 0.5, 1.0) + "\n\n" + accuracy(quiet),
        "stock": summary(stock, 2.0, 3.0) + "\n\n" + accuracy(stock),
        "elsewhere": elsewhere(cells),
        "policies": policies(quiet),
    }
    for name, block in blocks.items():
        write_block(path, name, block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the transactions, two sizes")
    parser.add_argument("--workloads", default=",".join(workload.name for workload in WORKLOADS))
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.chown(directory, "postgres")
    path = directory / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"cells": []}
    server = Server(directory)
    done = {(cell["workload"], cell["frames"], cell["quiet"]) for cell in results["cells"]}
    for workload in WORKLOADS:
        if workload.name not in arguments.workloads.split(","):
            continue
        sizes = workload.sizes[1:3] if arguments.quick else workload.sizes
        transactions = workload.transactions // (10 if arguments.quick else 1)
        missing = [
            (frames, quiet)
            for quiet in (True, False)
            for frames in sizes
            if (workload.name, frames, quiet) not in done
        ]
        if missing:
            server.make(workload)
        for frames, quiet in missing:
            cell = measure(server, workload, frames, quiet, transactions)
            results["cells"].append(cell)
            results["date"] = time.strftime("%Y-%m-%d")
            results["quick"] = arguments.quick
            path.write_text(json.dumps(results, indent=1))
            print(json.dumps(cell), flush=True)
    with_predictions(server, results["cells"])
    path.write_text(json.dumps(results, indent=1))
    for cell in results["cells"]:
        if cell["quiet"] and "better" not in cell:
            cell["better"] = better(server, cell)
            path.write_text(json.dumps(results, indent=1))
    print(accuracy(results["cells"]))
    if arguments.write:
        write(arguments.write, results)


if __name__ == "__main__":
    main()
