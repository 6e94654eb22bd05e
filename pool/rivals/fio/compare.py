#!/usr/bin/env python3
"""Compares random 4 KiB reads of `ebbpool device measure` with fio's, on the same file.

    cargo build --release --features all
    pool/rivals/fio/compare.py DIRECTORY
    pool/rivals/fio/compare.py DIRECTORY --engine threads --seconds 5 --rounds 5

Makes a file in DIRECTORY, which has to be on the device to be measured, and removes it afterwards. The
two take turns, with the same engine, direct I/O and queue depth; what counts is the median. Prints
Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
EBBPOOL = Path(os.environ.get("EBBPOOL", TARGET / "release" / "ebbpool"))

# fio's threads engine takes one request at a time for each job.
FIO = {
    "uring": lambda depth: ["--ioengine=io_uring", f"--iodepth={depth}"],
    "threads": lambda depth: ["--ioengine=psync", "--thread", f"--numjobs={depth}", "--group_reporting"],
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def fio(file, arguments, depth):
    job = ["--name=reads", f"--filename={file}", "--rw=randread", "--bs=4k", "--direct=1"]
    # As ebbpool does: any page may come at any time, without a map of those that have.
    job += ["--norandommap", "--randrepeat=0", "--time_based", f"--runtime={arguments.seconds}"]
    output = run(["fio", "--output-format=json", *job, *FIO[arguments.engine](depth)])
    return json.loads(output)["jobs"][0]["read"]["iops"]


def ebbpool(file, arguments):
    """Reads a second by queue depth."""
    flags = ["--read-only", "--format", "json", "--engine", arguments.engine]
    output = run([EBBPOOL, "device", "measure", file, *flags, "--seconds", str(arguments.seconds)])
    measured = json.loads(output)
    if not measured["direct"]:
        sys.exit(f"no direct I/O here: {measured['storage']}")
    wanted = lambda row: row["order"] == "random" and (row["batch"] is None or row["queue_depth"] == 1)
    return {row["queue_depth"]: row["pages_per_second"] for row in measured["measurements"] if wanted(row)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--engine", choices=FIO, default="uring")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024, help="of the file, in MiB")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 32])
    arguments = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir=arguments.directory, prefix="fio-compare-") as file:
        for _ in range(arguments.size):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        ours, theirs = [], {depth: [] for depth in arguments.depths}
        for _ in range(arguments.rounds):
            ours.append(ebbpool(file.name, arguments))
            for depth in arguments.depths:
                theirs[depth].append(fio(file.name, arguments, depth))
    print(f"| queue depth | ebbpool, reads/s | {run(['fio', '--version']).strip()}, reads/s | ebbpool / fio |")
    print("| ---: | ---: | ---: | ---: |")
    for depth in arguments.depths:
        our = statistics.median(round[depth] for round in ours)
        their = statistics.median(theirs[depth])
        print(f"| {depth} | {our:.0f} | {their:.0f} | {our / their:.2f} |")


if __name__ == "__main__":
    main()
