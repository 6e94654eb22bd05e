"""Measures the Python package against its bars: `python python/rivals/bars.py [NAME …]`, after `pip install .[notebooks]
pyarrow`. Without names it measures all. Times of a machine with other work are too long; none of them is a test."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import ebbpool

#: 10 million references of TPC-C, written once.
TRACE = Path(tempfile.gettempdir()) / "ebbpool-bars.u32"
#: 14 policies, 4 sizes, 4 asymmetries: 224 results.
SWEEP: Any = (str(TRACE), None, ["0.75%", "1.5%", "3%", "6%"], [1, 8, 32, 128])


def trace() -> str:
    if not TRACE.exists():
        ebbpool.Trace("tpcc:warehouses=10,refs=10000000").write(TRACE)
    return str(TRACE)


def cpu() -> float:
    """Processor time of this process and of its children that have ended, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def least(runs: int, work: Callable[[], object]) -> tuple[float, float]:
    """The least time and the least processor time of some runs, in seconds."""
    found = []
    for _ in range(runs):
        start, used = time.perf_counter(), cpu()
        work()
        found.append((time.perf_counter() - start, cpu() - used))
    return min(times for times, _ in found), min(times for _, times in found)


class Lru:
    """Least recently used first."""

    name = "python-lru"

    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()
        self.hit_moves = self.order.move_to_end

    def hit(self, frame: int, write: bool) -> None:
        self.hit_moves(frame)

    def victim(self) -> int:
        return next(iter(self.order))

    def admit(self, frame: int, page: int, write: bool) -> None:
        self.order[frame] = None

    def evicted(self, frame: int) -> None:
        del self.order[frame]


def compiled() -> ebbpool.Compiled:
    """LRU by Numba: the next and the previous frame of each, around a head."""
    import numba
    import numpy

    types = numba.types
    state = types.CPointer(types.int32)

    @numba.njit(inline="always")
    def unlink(at: Any, frame: int) -> None:
        following, before = at[2 * frame], at[2 * frame + 1]
        at[2 * before] = following
        at[2 * following + 1] = before

    @numba.njit(inline="always")
    def append(at: Any, frame: int) -> None:
        before = at[1]
        at[2 * before] = frame
        at[2 * frame + 1] = before
        at[2 * frame] = 0
        at[1] = frame

    # The head is 0, and frame f is f + 1.
    @numba.cfunc(types.void(state, types.uint32, types.uint8))
    def hit(at: Any, frame: int, write: int) -> None:
        unlink(at, frame + 1)
        append(at, frame + 1)

    @numba.cfunc(types.uint32(state))
    def victim(at: Any) -> int:
        return at[0] - 1

    @numba.cfunc(types.void(state, types.uint32, types.uint64, types.uint8))
    def admit(at: Any, frame: int, page: int, write: int) -> None:
        append(at, frame + 1)

    @numba.cfunc(types.void(state, types.uint32))
    def evicted(at: Any, frame: int) -> None:
        unlink(at, frame + 1)

    def memory(frames: int) -> Any:
        return numpy.zeros(2 * frames + 2, dtype=numpy.int32)

    return ebbpool.Compiled("numba-lru", state=memory, hit=hit, victim=victim, admit=admit, evicted=evicted)


def policies() -> None:
    """A policy in Python runs at 8 million references a second or more, one of Numba within 1.5 times of ours."""
    path, mine = trace(), compiled()
    references = ebbpool.Trace(path)._native.stated()[2] or 0
    counted = {}
    for name, policy in (("lru", "lru"), ("numba-lru", mine), ("python-lru", Lru)):
        answers = []

        def work(policy: Any = policy) -> None:
            answers.append(ebbpool.run(path, policy, "3%").result)

        times, used = least(5, work)
        counted[name] = (answers[0].reads, answers[0].writes)
        rate = references / times / 1e6
        print(f"{name}: {1e9 * times / references:.1f} ns a reference, {rate:.1f} million a second, {1e9 * used / references:.1f} ns CPU")
    assert len(set(counted.values())) == 1, counted


INTERRUPTED = """
import os, signal, sys, threading, time
import ebbpool
policies, frames = eval(sys.argv[2]), eval(sys.argv[3])
sent = []
def send():
    time.sleep(float(sys.argv[4]))
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=send, daemon=True).start()
try:
    ebbpool.compare(sys.argv[1], policies, frames, [1, 8, 32, 128], cache=False)
    print("finished before the signal")
except KeyboardInterrupt:
    print(f"{time.perf_counter() - sent[0]:.3f} s")
"""


def interrupt() -> None:
    """Ctrl-C stops within 0.2 s with few cells and 2 s with many."""
    dear = ["ebb", "auto", "fd-buffer", "lrfu", "dulo", "lru-k", "cfdc"]
    few = (["lru", "cflru", "arc"], ["3%"])
    many = (dear, [f"{share}%" for share in (0.5, 1, 2, 3, 4, 6, 8, 10)])
    long = "zipf:pages=200000,refs=300000000"
    for name, (policies, sizes), wait in (("3 cells", few, 2), ("many dear cells", many, 5)):
        for _ in range(3):
            words = [sys.executable, "-c", INTERRUPTED, long, repr(policies), repr(sizes), str(wait)]
            print(f"{name}:", subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


MEMORY = """
import resource, sys
import ebbpool
kind = sys.argv[1]
if kind == "function":
    import numpy, pyarrow
    schema = pyarrow.schema([("page", pyarrow.uint64()), ("write", pyarrow.bool_())])
    def batches():
        random = numpy.random.default_rng(1)
        for _ in range(100):
            pages = random.integers(0, 100_000, 1_000_000, dtype=numpy.uint64)
            yield pyarrow.record_batch([pyarrow.array(pages), pyarrow.array(pages % 3 == 0)], schema=schema)
    source = lambda: pyarrow.RecordBatchReader.from_batches(schema, batches())
else:
    source = "zipf:pages=100000,refs=100000000" if kind == "generator" else sys.argv[2]
row = ebbpool.run(source, "lru", 5000).result
print(f"{row.references} references, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
"""


def memory() -> None:
    """10^8 references stay within 200 MB."""
    parts = Path(tempfile.gettempdir()) / "ebbpool-bars-long.u32"
    if not parts.exists():
        ebbpool.Trace("zipf:pages=100000,refs=100000000").write(parts)
    for kind in ("generator", "file", "function"):
        words = [sys.executable, "-c", MEMORY, kind, str(parts)]
        print(f"{kind}:", subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
    parts.unlink()


ALONE = """
import sys
import ebbpool
print(ebbpool.compare(*eval(sys.argv[1]), cache=False, threads=1).to_json())
"""


def alone() -> tuple[float, str]:
    """The processor time of the sweep in one process, and its results."""
    before = cpu()
    finished = subprocess.run([sys.executable, "-c", ALONE, repr(SWEEP)], capture_output=True, text=True, check=True)
    return cpu() - before, finished.stdout.strip()


def workers() -> None:
    """Two workers need at most 10 % more processor time than one process."""
    trace()
    one, expected = alone()
    print(f"one process: {one:.1f} s CPU")

    def processes() -> str:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            return ebbpool.compare(*SWEEP, cache=False, executor=pool).to_json()

    def dask() -> str:
        import dask.distributed as distributed

        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                return ebbpool.compare(*SWEEP, cache=False, executor=client).to_json()

    for name, work in (("two processes", processes), ("two Dask workers", dask)):
        before = cpu()
        found = work()
        used = cpu() - before
        same = "the same" if found.strip() == expected else "OTHER"
        print(f"{name}: {used:.1f} s CPU, {100 * (used / one - 1):+.1f} %, {same} results")


def killed() -> None:
    """A Dask worker that is killed after a quarter of the work changes nothing."""
    import dask.distributed as distributed

    trace()
    _, expected = alone()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            first = next(iter(client.run(os.getpid).values()))
            at: list[float] = []

            def kill(share: float) -> None:
                if share >= 0.25 and not at:
                    at.append(share)
                    os.kill(first, signal.SIGKILL)

            found = ebbpool.compare(*SWEEP, cache=False, executor=client, progress=kill).to_json()
    print(f"killed at {100 * at[0]:.0f} %: {'the same' if found.strip() == expected else 'OTHER'} results")


def results() -> None:
    """All results are those of the command."""
    command = shutil.which("ebbpool", path=str(Path(sys.executable).parent)) or "ebbpool"
    words = [command, "compare", trace(), "--no-cache", "--format", "json"]
    theirs = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    ours = ebbpool.compare(*SWEEP, cache=False)
    details = json.loads(ours.to_json())
    print(f"{sum(one == other for one, other in zip(details, theirs))} of {len(theirs)} results equal the command's JSON")


def polars() -> None:
    """A million references from Polars take less than 5 ms more than from a file."""
    import polars as pl

    table = pl.DataFrame({"page": pl.Series(range(1_000_000)) * 7919 % 50_000})
    table = table.with_columns(write=pl.col("page") % 3 == 0)
    words, columns = Path(tempfile.gettempdir()) / "ebbpool-bars-short.u32", Path(tempfile.gettempdir()) / "ebbpool-bars-short.parquet"
    ebbpool.Trace(table).write(words)
    ebbpool.Trace(table).write(columns)
    times: dict[str, list[float]] = {"polars": [], ".u32": [], ".parquet": []}
    for _ in range(15):
        for name, source in (("polars", table), (".u32", words), (".parquet", columns)):
            start = time.perf_counter()
            ebbpool.compare(source, "lru", 1500, 8, cache=False)
            times[name].append(1e3 * (time.perf_counter() - start))
    for name, some in times.items():
        print(f"{name}: {min(some):.1f} ms at least, {statistics.median(some):.1f} ms in the middle")
    words.unlink()
    columns.unlink()


BARS = (policies, interrupt, memory, workers, killed, results, polars)


def main() -> None:
    names = sys.argv[1:]
    for bar in BARS:
        if not names or bar.__name__ in names:
            print(f"== {bar.__name__}: {textwrap.shorten(bar.__doc__ or '', 200)}", flush=True)
            bar()


if __name__ == "__main__":
    main()
