#!/usr/bin/env python3
"""Measures what a capture costs PostgreSQL: processor time of the server per transaction without and with it, in pairs.

    cargo build --release --features all
    sudo python3 capture/rivals/postgres/overhead.py DIRECTORY [--pairs 40] [--beside PROGRAM] [--write docs/capture.md]

Transactions per second say little on a machine with few processors or other work, so they are not compared. Run it on an
idle machine nevertheless. `--beside` measures another build of ebbpool in turn with this one, by the same server.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[3] / "tests")]

import captures
from documents import table, write_block
from validate import Server, WORKLOADS

#: Name, options of pgbench, and transactions of each of 8 clients.
LOADS = [("SELECT only", ["-S"], 8000), ("TPC-B", [], 1500)]


def processor_time(pid: int) -> float:
    """Seconds of the postmaster's children that have ended: every backend of a finished pgbench."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / 100


def run(server: Server, options: list[str], transactions: int) -> float:
    """Microseconds of processor time per transaction."""
    before = processor_time(server.pid())
    server.client("pgbench", "-n", "-c", "8", "-j", "2", "-t", str(transactions), *options, "bench")
    # The postmaster asks for the ends of its children a little later.
    time.sleep(0.5)
    return 1e6 * (processor_time(server.pid()) - before) / (8 * transactions)


def captured(server: Server, program: Path, options: list[str], transactions: int) -> float:
    """The same while `program` captures the server."""
    trace = server.directory / "overhead.parquet"
    captures.EBBPOOL = program
    capture = captures.start("postgres", server.pid(), trace)
    found = run(server, options, transactions)
    capture.send_signal(signal.SIGINT)
    _, errors = capture.communicate(timeout=600)
    if capture.returncode:
        sys.exit(f"the capture failed: {errors}")
    lost = json.loads(trace.with_suffix(".json").read_text())["lost"]
    if lost:
        sys.exit(f"{lost} events were lost")
    return found


def rounds(server: Server, programs: list[Path], load: tuple[list[str], int], count: int) -> list[list[float]]:
    """For each round the time without a capture, and with one by each program. The order turns, so that none is always first."""
    options, transactions = load
    run(server, options, transactions)
    found = []
    for at in range(count):
        times = [0.0] * (1 + len(programs))
        for turn in range(len(times)):
            of = (at + turn) % len(times)
            times[of] = run(server, *load) if of == 0 else captured(server, programs[of - 1], *load)
        found.append(times)
        print(f"{times[0]:.1f} us without, {' and '.join(f'{time:.1f}' for time in times[1:])} us with", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--beside", type=Path, metavar="PROGRAM")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.chown(directory, "postgres")
    server = Server(directory)
    server.make(WORKLOADS[0])
    server.restore()
    server.start("shared_buffers=128MB", "max_wal_size=10GB")
    programs = [captures.EBBPOOL] + ([arguments.beside.resolve()] if arguments.beside else [])
    rows = []
    for name, options, transactions in LOADS:
        found = rounds(server, programs, (options, transactions), arguments.pairs)
        for at, program in enumerate(programs, 1):
            shares = sorted(100 * (times[at] / times[0] - 1) for times in found)
            row = [
                name,
                str(len(found)),
                f"{statistics.median(times[0] for times in found):.1f} µs",
                f"{statistics.median(times[at] for times in found):.1f} µs",
                f"{statistics.median(shares):+.1f} %",
                f"{shares[0]:+.1f} to {shares[-1]:+.1f} %",
            ]
            if at == 1:
                rows.append(row)
            else:
                print(f"by {program}: " + ", ".join(row))
    server.stop()
    header = ["pgbench -c 8", "pairs", "a transaction without", "with a capture", "median of pairs", "all pairs"]
    text = (
        f"Processor time of PostgreSQL {server.major} per transaction, by "
        "`sudo python3 capture/rivals/postgres/overhead.py DIRECTORY --write docs/capture.md`:\n\n" + table(header, rows)
    )
    print(text)
    if arguments.write:
        write_block(arguments.write, "overhead", text)


if __name__ == "__main__":
    main()
