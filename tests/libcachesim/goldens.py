#!/usr/bin/env python3
"""Counts the misses of libCacheSim's policies on the traces of traces.txt.

    goldens.py --write    writes the counts to goldens.csv
    goldens.py            fails if goldens.csv has other counts

EBBPOOL names the program that makes the traces.
"""

import argparse
import csv
import io
import os
import struct
import subprocess
import sys
import tempfile
from array import array
from importlib.metadata import version
from pathlib import Path

import libcachesim as lcs

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens.csv"
FRAMES = [100, 500, 2000]

# Ebbpool's spelling of what libCacheSim's policies do with the parameters given here.
POLICIES = {
    "fifo": lcs.FIFO,
    "lru": lcs.LRU,
    "clock": lcs.Clock,
    "gclock:init=0,max=3": lambda frames: lcs.Clock(frames, init_freq=0, n_bit_counter=2),
    "gclock:init=1,max=7": lambda frames: lcs.Clock(frames, init_freq=1, n_bit_counter=3),
    "lru-k": lcs.LRUK,
    "2q": lcs.TwoQ,
    "arc": lcs.ARC,
    "lirs": lcs.LIRS,
    "s3-fifo": lcs.S3FIFO,
    "sieve": lcs.Sieve,
    "w-tinylfu": lcs.WTinyLFU,
    "belady": lcs.Belady,
}

# libCacheSim's oracleGeneral: time, object, size, position of the next request to the object.
REQUEST = struct.Struct("<IQIq")


def traces():
    """The names and parts in traces.txt."""
    for line in (HERE / "traces.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *parts = line.split()
            yield name, parts


def pages(parts, directory):
    """The pages that the trace refers to, in order."""
    words = Path(directory) / "trace.u32"
    command = [os.environ["EBBPOOL"], "trace", "convert", *parts, str(words)]
    if len(parts) > 1:
        command.append("--concat")
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    references = array("I", words.read_bytes())
    if sys.byteorder == "big":
        references.byteswap()
    return [word >> 1 for word in references]


def write_oracle_general(trace, path):
    """Writes the trace as objects of one byte that each know when they are requested next."""
    next_use = [0] * len(trace)
    seen = {}
    for position in reversed(range(len(trace))):
        next_use[position] = seen.get(trace[position], -1)
        seen[trace[position]] = position
    with open(path, "wb") as out:
        for position, page in enumerate(trace):
            out.write(REQUEST.pack(position, page + 1, 1, next_use[position]))


def count():
    """goldens.csv, as text."""
    text = io.StringIO()
    text.write(f"# Misses of libCacheSim {version('libcachesim')}; made by goldens.py --write.\n")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trace", "policy", "frames", "references", "misses"])
    with tempfile.TemporaryDirectory() as directory:
        for name, parts in traces():
            trace = pages(parts, directory)
            path = os.path.join(directory, "trace.oracleGeneral")
            write_oracle_general(trace, path)
            for policy, cache in POLICIES.items():
                for frames in FRAMES:
                    reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE)
                    miss_ratio, _ = cache(frames).process_trace(reader)
                    misses = round(miss_ratio * len(trace))
                    table.writerow([name, policy, frames, len(trace), misses])
    return text.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write goldens.csv")
    counted = count() if True else None
    if parser.parse_args().write:
        GOLDENS.write_text(counted)
        return
    kept = GOLDENS.read_text().splitlines()
    differing = [line for line in counted.splitlines() if line not in kept]
    if differing or len(kept) != len(counted.splitlines()):
        sys.exit("goldens.csv is not what libCacheSim counts:\n" + "\n".join(differing))
    print(f"{len(kept) - 2} counts of libCacheSim {version('libcachesim')} are as in goldens.csv")


if __name__ == "__main__":
    main()
