#!/usr/bin/env python3
"""Compares what Ebbpool predicts for MySQL with what MySQL counts, and writes the tables of docs/validation.md.

For each workload and each size of innodb_buffer_pool_size it starts a fresh copy of a server with a cold pool, captures the run
with `ebbpool capture mysql`, runs the captured references through the lab's policy `innodb`, and reads the server's own counters
before and after. Run it as root, with MySQL's packages from Debian sid or Ubuntu installed and a release build of Ebbpool:

    cargo build --release --features all
    sudo apt install mysql-server
    sudo python3 capture/rivals/mysql/validate.py DIRECTORY [--root CHROOT] [--write docs/validation.md]

With `--root` the programs of MySQL are those of another root directory, such as debootstrap makes. DIRECTORY is then a
directory below that root, and takes some 3 GB. DIRECTORY/results.json stores the results: a second call measures only what is
missing, and `--write` alone writes the tables again.
"""

from __future__ import annotations

import argparse
import atexit
import bisect
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[3] / "tests")]

import captures
from captures import difference, shown
from documents import table, write_block

#: Rows of the table, of some 220 bytes, as sysbench's.
ROWS = 1_000_000
CLIENTS = 4
#: Pages are written only to make room: nothing is flushed because of the redo log's age, or of the share of dirty pages.
QUIET = [
    "innodb_adaptive_flushing=OFF",
    "innodb_max_dirty_pages_pct=99.99",
    "innodb_max_dirty_pages_pct_lwm=0",
    "innodb_redo_log_capacity=4G",
    "innodb_idle_flush_pct=0",
]
#: Of every run: no read-ahead, whose pages no request names, and no pages of an earlier run.
ALWAYS = [
    "innodb_read_ahead_threshold=0",
    "innodb_buffer_pool_chunk_size=1M",
    "innodb_buffer_pool_load_at_startup=OFF",
    "innodb_buffer_pool_dump_at_shutdown=OFF",
    "innodb_flush_log_at_trx_commit=0",
    "innodb_doublewrite=OFF",
    "performance_schema=OFF",
    "skip-log-bin",
    "skip-networking",
    "mysqlx=OFF",
    "secure-file-priv=NULL",
]
COUNTERS = [
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_read_ahead",
    "Innodb_pages_read",
    "Innodb_pages_created",
    "Innodb_pages_written",
    "Innodb_buffer_pool_pages_total",
    "Innodb_buffer_pool_pages_misc",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_wait_free",
]


@dataclass
class Workload:
    """Statements of each client, and the sizes of the pool in MiB."""

    name: str
    transactions: int
    sizes: list[int]


WORKLOADS = [
    Workload("select", 120_000, [64, 128]),
    Workload("zipf", 120_000, [64, 128]),
]


class Zipf:
    """Numbers from 1 to ROWS by a Zipf distribution, whose popular ones are spread over the table."""

    def __init__(self, exponent: float) -> None:
        self.sums = list(itertools.accumulate(rank**-exponent for rank in range(1, ROWS + 1)))
        self.numbers = list(range(1, ROWS + 1))
        random.Random(7).shuffle(self.numbers)

    def draw(self, source: random.Random) -> int:
        return self.numbers[bisect.bisect_left(self.sums, source.random() * self.sums[-1])]


def statements(workload: Workload, zipf: Zipf, seed: int, transactions: int) -> Iterator[str]:
    """The statements of one client."""
    source = random.Random(seed)
    for _ in range(transactions):
        row = zipf.draw(source)
        if workload.name == "zipf" and source.random() < 0.2:
            yield f"update sbtest1 set c = repeat('u', 120) where id = {row};"
        else:
            yield f"select c from sbtest1 where id = {row};"


class Server:
    """A server that runs as the user mysql; its socket is in its directory."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory, self.root = directory, root
        self.inside = Path("/") / directory.relative_to(root)
        self.data = directory / "data"
        self.template = directory / "template"
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    def command(self, program: str, *words: str) -> list[str]:
        # `no-defaults` must be first.
        base = [] if self.root == Path("/") else ["chroot", str(self.root)]
        return [*base, program, "--no-defaults", *words]

    def server_words(self, *settings: str) -> list[str]:
        options = [f"--{setting}" for setting in settings]
        return [f"--datadir={self.inside / 'data'}", "--user=mysql", f"--socket={self.inside / 'socket'}", *options]

    def start(self, *settings: str) -> None:
        self.begin(*settings)
        self.wait()

    def begin(self, *settings: str) -> None:
        log = (self.directory / "server.log").open("ab")
        words = self.server_words(*settings, f"pid-file={self.inside / 'pid'}", "lc-messages=en_US")
        self.process = subprocess.Popen(self.command("mysqld", *words), stdout=log, stderr=log)

    def stop_at_data(self) -> int:
        """Stops the process when it has gone to its data directory, before it reads a page; its number."""
        assert self.process
        while self.process.poll() is None:
            if os.path.realpath(f"/proc/{self.process.pid}/cwd") == str(self.data):
                os.kill(self.process.pid, signal.SIGSTOP)
                return self.process.pid
            time.sleep(0.0005)
        sys.exit(f"mysqld ended; see {self.directory / 'server.log'}")

    def wait(self) -> None:
        """Waits until the server answers."""
        assert self.process
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"mysqld ended; see {self.directory / 'server.log'}")
            if self.run_client("select 1;", check=False).strip() == "1":
                return
            time.sleep(0.2)
        sys.exit("mysqld does not answer")

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.process = None

    def client(self) -> list[str]:
        return self.command("mysql", f"--socket={self.inside / 'socket'}", "--user=root", "--batch", "--skip-column-names")

    def run_client(self, sql: str, database: str = "", check: bool = True) -> str:
        done = subprocess.run([*self.client(), database], input=sql, capture_output=True, text=True)
        if check and done.returncode:
            sys.exit(f"{sql[:200]}: {done.stderr}")
        return done.stdout

    def version(self) -> str:
        found = subprocess.check_output(self.command("mysqld", "--version"), text=True)
        return found.split("Ver ")[1].split()[0]

    def make(self) -> None:
        """Makes the database, of which each run gets a copy."""
        if self.template.exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)
        words = self.server_words("initialize-insecure", "innodb_redo_log_capacity=1G")
        done = subprocess.run(self.command("mysqld", *words), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        self.start("innodb_buffer_pool_size=512M", "innodb_redo_log_capacity=1G", *ALWAYS)
        self.run_client(
            f"""create database bench; use bench;
            create table sbtest1 (id int primary key, k int not null, c char(120) not null, pad char(60) not null, key k_1 (k))
                character set latin1 stats_auto_recalc=0;
            set session cte_max_recursion_depth = {ROWS + 1};
            insert into sbtest1 with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
                select i, i * 7919 % {ROWS}, repeat('c', 120), repeat('p', 60) from n;
            set global innodb_fast_shutdown = 0;"""
        )
        # A slow shutdown purges and writes all, so that a run does not begin with the work of this one.
        self.stop()
        self.data.rename(self.template)

    def restore(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        # With sparse files and owners.
        subprocess.run(["cp", "-a", str(self.template), str(self.data)], check=True)


class Session:
    """A session that asks for counters and stays open."""

    def __init__(self, server: Server) -> None:
        command = [*server.client(), "--unbuffered"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def counters(self) -> dict[str, int]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("show global status like 'Innodb%';\nselect 'end', 'end';\n")
        self.process.stdin.flush()
        found: dict[str, int] = {}
        for line in self.process.stdout:
            name, value = line.rstrip("\n").split("\t")
            if name == "end":
                return found
            if name in COUNTERS:
                found[name] = int(value)
        sys.exit("mysql ended")

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def run_clients(server: Server, files: list[Path]) -> None:
    processes = []
    for path in files:
        with path.open("rb") as text:
            command = [*server.client(), "bench"]
            processes.append(subprocess.Popen(command, stdin=text, stdout=subprocess.DEVNULL))
    if any(process.wait() for process in processes):
        sys.exit("a client failed")


def make_statements(directory: Path, workload: Workload, share: float, phase: int) -> list[Path]:
    """One file for each client; those of the first phase are a third."""
    files = [directory / f"{workload.name}-{phase}-{client}.sql" for client in range(CLIENTS)]
    if not all(path.exists() for path in files):
        zipf = Zipf(0.9)
        for client, path in enumerate(files):
            transactions = int(workload.transactions * share)
            lines = statements(workload, zipf, 100 * phase + client, transactions)
            path.write_text("\n".join(lines) + "\n")
    return files


def measure(server: Server, workload: Workload, mebibytes: int, quiet: bool, share: float) -> dict:
    """One run: what the server counted once its pool was full, and the capture."""
    server.restore()
    name = f"{workload.name}-{mebibytes}-{'quiet' if quiet else 'stock'}"
    trace = server.directory / f"{name}.parquet"
    phases = [make_statements(server.directory, workload, share / 3, 1), make_statements(server.directory, workload, share, 2)]
    # A trace does not have what the pool had when it began, so it begins with the server.
    server.begin(f"innodb_buffer_pool_size={mebibytes}M", *ALWAYS, *(QUIET if quiet else []))
    pid = server.stop_at_data()
    capture = captures.start("mysql", pid, trace)
    os.kill(pid, signal.SIGCONT)
    server.wait()
    session = Session(server)
    session.counters()
    run_clients(server, phases[0])
    before = session.counters()
    run_clients(server, phases[1])
    after = session.counters()
    capture.send_signal(signal.SIGINT)
    _, errors = capture.communicate(timeout=600)
    if capture.returncode:
        sys.exit(f"{name}: {errors}")
    session.close()
    server.stop()
    facts = json.loads(trace.with_suffix(".json").read_text())
    counted = {key: after[key] - before[key] for key in after}
    requests = "Innodb_buffer_pool_read_requests"
    return {
        "workload": workload.name,
        "mebibytes": mebibytes,
        "quiet": quiet,
        # The pool has frames that no page gets: locks and the hash index have them.
        "frames": after["Innodb_buffer_pool_pages_total"] - after["Innodb_buffer_pool_pages_misc"],
        "warmup": before[requests],
        "requests": after[requests],
        "references": facts["references"],
        "reads": counted["Innodb_pages_read"],
        "writes": counted["Innodb_pages_written"],
        "created": counted["Innodb_pages_created"],
        "counted": counted,
        "after": after,
        "lost": facts["lost"],
        "trace": trace.name,
    }


def predict(server: Server, cell: dict, policy: str) -> tuple[int, int]:
    """Reads and writes that a policy predicts for a cell's capture."""
    return captures.predict(server.directory / cell["trace"], policy, cell["frames"], cell["warmup"], cell["created"])


def policy_of(cell: dict) -> str:
    return "innodb:max_dirty_pages_pct=100" if cell["quiet"] else "innodb"


def accuracy(cells: list[dict]) -> str:
    header = ["workload", "MiB", "requests counted", "captured", "reads counted", "innodb", "lru", "writes counted"]
    rows = []
    for cell in cells:
        row = [cell["workload"], f"{cell['mebibytes']}", f"{cell['requests']:,}"]
        row += [shown(difference(cell["references"], cell["requests"]))]
        for which, key in enumerate(("reads", "writes")):
            row.append(f"{cell[key]:,}")
            row += [shown(difference(cell[policy][which], cell[key])) for policy in ("innodb", "lru")]
        rows.append(row)
    return table([*header, "innodb", "lru"], rows)


def summary(cells: list[dict]) -> str:
    parts = []
    for which, key in enumerate(("reads", "writes")):
        found = [difference(cell["innodb"][which], cell[key]) for cell in cells]
        sizes = sorted(abs(value) for value in found if value is not None)
        if sizes:
            within = sum(size <= 1.0 for size in sizes)
            parts.append(f"{key}: worst {sizes[-1]:.2f} %, {within} of {len(sizes)} cells within 1 %")
    return "; ".join([*parts, f"{sum(cell['lost'] for cell in cells)} events lost"]) + "."


def write(path: Path, results: dict) -> None:
    parts = [f"MySQL {results['version']}, {results['date']}, {CLIENTS} clients."]
    for quiet, title in ((True, "Nothing is written but to make room:"), (False, "The server's defaults:")):
        cells = [cell for cell in results["cells"] if cell["quiet"] == quiet]
        if cells:
            parts += [f"{title} {summary(cells)}", accuracy(cells)]
    write_block(path, "mysql", "\n\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="CHROOT")
    parser.add_argument("--workloads", default=",".join(workload.name for workload in WORKLOADS))
    parser.add_argument("--share", type=float, default=1.0, help="the share of the transactions that are run")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    directory, root = arguments.directory.resolve(), arguments.root.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    users = (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
    owner = next((user for user in users if user[0] == "mysql"), None)
    if owner is None:
        sys.exit(f"{root} has no user mysql; install mysql-server")
    os.chown(directory, int(owner[2]), int(owner[3]))
    path = directory / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"cells": []}
    server = Server(directory, root)
    results["version"] = server.version()
    done = {(cell["workload"], cell["mebibytes"], cell["quiet"]) for cell in results["cells"]}
    for workload in WORKLOADS:
        if workload.name not in arguments.workloads.split(","):
            continue
        for quiet, mebibytes in itertools.product((True, False), workload.sizes):
            if (workload.name, mebibytes, quiet) in done:
                continue
            server.make()
            cell = measure(server, workload, mebibytes, quiet, arguments.share)
            results["cells"].append(cell)
            results["date"] = time.strftime("%Y-%m-%d")
            path.write_text(json.dumps(results, indent=1))
            print(json.dumps(cell), flush=True)
    for cell in results["cells"]:
        cell["innodb"] = predict(server, cell, policy_of(cell))
        cell["lru"] = predict(server, cell, "lru")
    path.write_text(json.dumps(results, indent=1))
    print(accuracy(results["cells"]))
    if arguments.write:
        write(arguments.write, results)


if __name__ == "__main__":
    main()
