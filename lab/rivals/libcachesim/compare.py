#!/usr/bin/env python3
"""Compares CPU time and memory of libCacheSim's policies with Ebbpool's on the same references.

    cargo build --release
    lab/rivals/libcachesim/compare.py
    lab/rivals/libcachesim/compare.py --rounds 1 --references 2000000 lru sieve

Prints Markdown. The trace is made by `ebbpool trace generate`; Ebbpool reads it as 32-bit words,
libCacheSim as its own binary format oracleGeneral. The two take turns, each run in a process of its
own. Of Ebbpool the whole process is charged, of libCacheSim only the simulation: not Python's start.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
GOLDENS = ROOT / "lab" / "libcachesim"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
EBBPOOL = Path(os.environ.get("EBBPOOL", TARGET / "release" / "ebbpool"))

SPEED_TRACE = "zipf:pages=1000000,refs={},read-alpha=1,write=0.3"
SPEED_FRAMES = 100_000
# Enough references to more pages than frames that all frames of the larger size are used.
MEMORY_TRACE = "uniform:pages=2000000,refs=4000000,write=0.3"
MEMORY_FRAMES = (500_000, 1_000_000)

# 2 to the power of this many buckets: libCacheSim is fastest with it here. Its default is 24,
# with which it is slower by a third.
HASH_POWER = 20

READER_ALONE = "reader alone"


def cpu_seconds(usage):
    return usage.ru_utime + usage.ru_stime


def peak_bytes(usage):
    return usage.ru_maxrss * 1024


def libcachesim_once(policy, trace, frames):
    """Runs in a process of its own, and prints CPU seconds, miss ratio and peak memory as JSON."""
    import libcachesim as lcs
    from goldens import POLICIES

    start = cpu_seconds(resource.getrusage(resource.RUSAGE_SELF))
    reader = lcs.TraceReader(str(trace), lcs.TraceType.ORACLE_GENERAL_TRACE)
    # Nothing fits into a cache of size 0, which is why nothing is looked up either.
    cache, parameters = (lcs.FIFO, {}) if policy == READER_ALONE else POLICIES[policy]
    size = 0 if policy == READER_ALONE else frames
    simulated = cache(size, hashpower=HASH_POWER, **parameters)
    miss_ratio, _ = simulated.process_trace(reader)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([cpu_seconds(usage) - start, miss_ratio, peak_bytes(usage)]))


def run(command):
    """What a command printed, and what resources it used."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        errors.seek(0)
        if status != 0:
            sys.exit(f"failed: {' '.join(map(str, command))}\n{errors.read().decode()}")
        return out.read().decode(), usage


def libcachesim(policy, traces, frames):
    """CPU seconds, miss ratio and peak memory of libCacheSim."""
    command = [sys.executable, __file__, "--once", policy, traces["oracleGeneral"], str(frames)]
    # It writes warnings to standard output too.
    return json.loads(run(command)[0].splitlines()[-1])


def ebbpool(policy, trace, frames):
    """CPU seconds, miss ratio and peak memory of Ebbpool."""
    command = [EBBPOOL, "run", trace, "--policy", policy, "--frames", str(frames)]
    out, usage = run([*command, "--format", "json"])
    result = json.loads(out)
    return cpu_seconds(usage), result["misses"] / result["references"], peak_bytes(usage)


def write_traces(spec, words, oracle_general):
    """Writes the references of a generator as 32-bit words and as oracleGeneral."""
    import numpy as np

    run([EBBPOOL, "trace", "generate", spec, words])
    pages = np.fromfile(words, dtype="<u4") >> 1
    count = len(pages)
    # By page, then by position: the next use of a reference is its neighbour, if that is the page's.
    order = np.argsort(pages, kind="stable")
    same = pages[order[1:]] == pages[order[:-1]]
    next_use = np.full(count, -1, dtype="<i8")
    next_use[order[:-1][same]] = order[1:][same]
    record = [("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")]
    records = np.zeros(count, dtype=record)
    records["time"] = np.arange(count)
    records["object"] = pages.astype("<u8") + 1
    records["size"] = 1
    records["next"] = next_use
    records.tofile(oracle_general)


def make_traces(spec, directory):
    """Where the references of a generator lie, by format."""
    traces = {"words": directory / "trace.u32", "oracleGeneral": directory / "trace.oracleGeneral"}
    # The peak memory of a process is never below what its parent had when it began, so this one has
    # to stay small.
    writer = multiprocessing.Process(target=write_traces, args=(spec, *traces.values()))
    writer.start()
    writer.join()
    if writer.exitcode != 0:
        sys.exit(f"no trace of {spec} could be written to {directory}")
    return traces


def speed(policies, references, rounds, directory):
    spec = SPEED_TRACE.format(references)
    traces = make_traces(spec, directory)
    # Round by round, so that what else the machine does hits all policies alike.
    theirs = {policy: [] for policy in [READER_ALONE, *policies]}
    ours = {policy: [] for policy in policies}
    ours_from_theirs = []
    misses = {}
    for number in range(rounds):
        for policy in theirs:
            print(f"round {number + 1} of {rounds}: {policy}", file=sys.stderr)
            seconds, their_ratio, _ = libcachesim(policy, traces, SPEED_FRAMES)
            theirs[policy].append(references / seconds / 1e6)
            if policy == READER_ALONE:
                continue
            seconds, our_ratio, _ = ebbpool(policy, traces["words"], SPEED_FRAMES)
            ours[policy].append(references / seconds / 1e6)
            misses[policy] = (their_ratio, our_ratio)
        seconds, _, _ = ebbpool("lru", traces["oracleGeneral"], SPEED_FRAMES)
        ours_from_theirs.append(references / seconds / 1e6)

    print(f"{spec}, {SPEED_FRAMES} frames, {rounds} rounds, medians")
    print()
    print("| policy | libCacheSim, M refs/CPU s | Ebbpool, M refs/CPU s | ratio "
          "| misses, libCacheSim | misses, Ebbpool |")
    print("| --- | --- | --- | --- | --- | --- |")
    rate = statistics.median
    for policy in policies:
        their_rate, our_rate = rate(theirs[policy]), rate(ours[policy])
        their_ratio, our_ratio = misses[policy]
        print(f"| {policy} | {their_rate:.1f} | {our_rate:.1f} | {our_rate / their_rate:.1f} "
              f"| {their_ratio:.3%} | {our_ratio:.3%} |")
    print()
    print(f"libCacheSim's reader alone: {rate(theirs[READER_ALONE]):.0f} million references a CPU "
          f"second. Ebbpool's lru reading libCacheSim's file: {rate(ours_from_theirs):.1f}.")


def memory(policies, directory):
    traces = make_traces(MEMORY_TRACE, directory)
    small, large = MEMORY_FRAMES

    def per_frame(simulator, policy, trace):
        at_small, at_large = (simulator(policy, trace, frames)[2] for frames in MEMORY_FRAMES)
        return (at_large - at_small) / (large - small)

    print(f"{MEMORY_TRACE}: peak memory with {large} frames less that with {small}, per frame")
    print()
    print("| policy | libCacheSim, bytes a frame | Ebbpool, bytes a frame |")
    print("| --- | --- | --- |")
    for policy in policies:
        print(f"memory: {policy}", file=sys.stderr)
        theirs = per_frame(libcachesim, policy, traces)
        ours = per_frame(ebbpool, policy, traces["words"])
        print(f"| {policy} | {theirs:.0f} | {ours:.0f} |", flush=True)


def in_environment():
    """Goes on in an environment that has libCacheSim, made when it is not there."""
    environment = TARGET / "libcachesim"
    requirements = GOLDENS / "requirements.txt"
    made_with = environment / "requirements.txt"
    if not made_with.exists() or made_with.read_bytes() != requirements.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        pip = [environment / "bin" / "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--only-binary", ":all:", "-r", requirements], check=True)
        made_with.write_bytes(requirements.read_bytes())
    python = environment / "bin" / "python"
    os.execv(python, [python, __file__, *sys.argv[1:]])


def main():
    if importlib.util.find_spec("libcachesim") is None:
        in_environment()
    sys.path.insert(0, str(GOLDENS))
    if sys.argv[1:2] == ["--once"]:
        policy, trace, frames = sys.argv[2:]
        return libcachesim_once(policy, trace, int(frames))

    from goldens import POLICIES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY", help="default: all of both")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--references", type=int, default=20_000_000, help="default: 20000000")
    arguments = parser.parse_args()
    policies = arguments.policies or list(POLICIES)
    unknown = [policy for policy in policies if policy not in POLICIES]
    if unknown:
        parser.error(f"not of both: {' '.join(unknown)}; there are: {' '.join(POLICIES)}")
    if not EBBPOOL.exists():
        sys.exit(f"there is no {EBBPOOL}; run: cargo build --release")
    with tempfile.TemporaryDirectory() as directory:
        speed(policies, arguments.references, arguments.rounds, Path(directory))
    print()
    with tempfile.TemporaryDirectory() as directory:
        memory(policies, Path(directory))
    print()
    print(f"{platform.platform()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
