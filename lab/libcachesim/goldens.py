#!/usr/bin/env python3
"""Counts the misses of libCacheSim's policies on the traces of traces.txt.

    goldens.py --write    writes the counts to goldens.tsv
    goldens.py            fails if goldens.tsv has other counts

The environment variable EBBPOOL names the ebbpool program, which produces the traces.
"""

import argparse
import difflib
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
GOLDENS = HERE / "goldens.tsv"
FRAMES = [100, 500, 2000]

# Ebbpool's policies that libCacheSim also has, in Ebbpool's spelling. libCacheSim's LRU-K is not in the list,
# because it drops a page's history when it evicts the page.
POLICIES = {
    "fifo": (lcs.FIFO, {}),
    "lru": (lcs.LRU, {}),
    "clock": (lcs.Clock, {}),
    "gclock:init=0,max=3": (lcs.Clock, {"init_freq": 0, "n_bit_counter": 2}),
    "gclock:init=1,max=7": (lcs.Clock, {"init_freq": 1, "n_bit_counter": 3}),
    "2q": (lcs.TwoQ, {}),
    "arc": (lcs.ARC, {}),
    "lirs": (lcs.LIRS, {}),
    "s3-fifo": (lcs.S3FIFO, {}),
    "sieve": (lcs.Sieve, {}),
    "w-tinylfu": (lcs.WTinyLFU, {}),
    "belady": (lcs.Belady, {}),
}

# The exponent of the initial size of libCacheSim's hash table: 2 to this power buckets.
HASH_POWER = 16

# libCacheSim's oracleGeneral: time, object, size, position of the next request to the object.
REQUEST = struct.Struct("<IQIq")


def traces():
    """The names and parts in traces.txt."""
    for line in (HERE / "traces.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *parts = line.split()
            yield name, parts


def pages(parts, directory):
    """The pages that the trace references, in order."""
    words = Path(directory) / "trace.u32"
    command = [os.environ["EBBPOOL"], "trace", "convert", *parts, str(words)]
    if len(parts) > 1:
        command.append("--concat")
    subprocess.run(command, check=True, capture_output=True)
    references = array("I", words.read_bytes())
    if sys.byteorder == "big":
        references.byteswap()
    return [word >> 1 for word in references]


def write_oracle_general(trace, path):
    """Writes the trace as objects of one byte, each with the position of its next request."""
    next_use = [0] * len(trace)
    next_position = {}
    for position in reversed(range(len(trace))):
        next_use[position] = next_position.get(trace[position], -1)
        next_position[trace[position]] = position
    with open(path, "wb") as out:
        for position, page in enumerate(trace):
            out.write(REQUEST.pack(position, page + 1, 1, next_use[position]))


def count():
    """The lines of goldens.tsv."""
    yield f"# Misses of libCacheSim {version('libcachesim')}; written by goldens.py --write."
    yield "trace\tpolicy\tframes\treferences\tmisses"
    with tempfile.TemporaryDirectory() as directory:
        for name, parts in traces():
            trace = pages(parts, directory)
            path = os.path.join(directory, "trace.oracleGeneral")
            write_oracle_general(trace, path)
            reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE)
            for policy, (cache, parameters) in POLICIES.items():
                for frames in FRAMES:
                    simulated = cache(frames, hashpower=HASH_POWER, **parameters)
                    miss_ratio, _ = simulated.process_trace(reader)
                    misses = round(miss_ratio * len(trace))
                    yield f"{name}\t{policy}\t{frames}\t{len(trace)}\t{misses}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write goldens.tsv")
    write = parser.parse_args().write
    counted = list(count())
    missing = {name for name, _ in traces()} ^ {line.split("\t")[0] for line in counted[2:]}
    if len(counted) <= 2 or missing:
        sys.exit(f"goldens.py has counted nothing of {', '.join(missing) or 'any trace; see traces.txt'}")
    if write:
        GOLDENS.write_text("\n".join(counted) + "\n")
        return
    expected = GOLDENS.read_text().splitlines()
    differing = list(
        difflib.unified_diff(expected, counted, "goldens.tsv", "libCacheSim", lineterm="", n=0)
    )
    if differing:
        sys.exit("\n".join(["goldens.tsv differs from libCacheSim's counts:", *differing]))
    print(f"libCacheSim {version('libcachesim')} still has the {len(expected) - 2} counts of goldens.tsv")


if __name__ == "__main__":
    main()
