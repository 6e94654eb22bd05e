"""Ctrl-C, exceptions in functions for progress, and other threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from policies import Lru

import ebbpool

LONG = "zipf:pages=200000,refs=300000000"


@pytest.fixture(autouse=True)
def python_takes_the_signal() -> Iterator[None]:
    """A shell starts programs in the background with the signal ignored, and Python leaves that as it is."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(policies: Any, sizes: Any, asymmetry: Any, **options: Any) -> tuple[float, KeyboardInterrupt]:
    """The seconds from the signal to the exception, and the exception."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1.0, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt) as raised:
        ebbpool.compare(LONG, policies, sizes, asymmetry, **options)
    timer.join()
    return time.monotonic() - sent[0], raised.value


def test_ctrl_c_stops_few_cells_and_many() -> None:
    # The bars are 0.2 s and 2 s on an idle machine; a test on a busy one allows more, but not a whole trace.
    few, _ = interrupted(["lru", "lrfu", "fd-buffer"], [20000], 32, cache=False)
    assert few < 5
    many, _ = interrupted("all", ["1%", "2%"], [8, 32], cache=False)
    assert many < 20


def test_ctrl_c_stops_a_policy_in_python() -> None:
    stopped, _ = interrupted(Lru, [20000], 32)
    assert stopped < 10


def test_finished_results_are_stored_when_ctrl_c_comes() -> None:
    store: dict[str, bytes] = {}

    def stop(share: float) -> None:
        if share > 0.7:
            raise KeyboardInterrupt

    # So long a trace that results are stored after every four.
    question: Any = ("zipf:pages=2000,refs=26000000", ["lru", "fifo", "clock"], [50, 100])
    with pytest.raises(KeyboardInterrupt) as raised:
        ebbpool.compare(*question, 8, cache=store, threads=1, progress=stop)
    finished = sum(b"counts" in value for value in store.values())
    assert finished == 4
    assert raised.value.__notes__ == [f"{finished} results are done; with a cache the same call continues"]
    again = ebbpool.compare(*question, 8, cache=store)
    assert again.notes == [f"{question[0]}: {finished} of 6 results were computed before"]
    assert len(again) == 6


def test_an_exception_of_the_function_for_progress_is_raised() -> None:
    def broken(share: float) -> None:
        raise LookupError("no bar")

    with pytest.raises(LookupError, match="no bar"):
        ebbpool.compare(LONG, "lru", 20000, 8, progress=broken)


def test_other_threads_of_python_work_during_a_simulation() -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    ebbpool.compare("zipf:pages=200000,refs=5000000", ["lru", "lirs"], 20000, 8, cache=False)
    done.set()
    thread.join()
    assert ticks > 10


def test_a_simulation_in_a_thread_leaves_signals_to_the_main_thread() -> None:
    answers: list[ebbpool.Comparison] = []
    thread = threading.Thread(target=lambda: answers.append(ebbpool.compare("zipf:pages=100,refs=1000", "lru", 10, 8)))
    thread.start()
    thread.join()
    assert len(answers[0]) == 1


def test_ctrl_c_stops_a_slow_stream_of_the_caller() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    schema = pyarrow.schema([("page", pyarrow.uint64()), ("write", pyarrow.bool_())])
    supplied = 0

    def stream() -> Any:
        def batches() -> Any:
            nonlocal supplied
            for _ in range(400):
                supplied += 1
                time.sleep(0.02)
                yield pyarrow.record_batch([pyarrow.array([1, 2]).cast("uint64"), pyarrow.array([True, False])], schema=schema)

        return pyarrow.RecordBatchReader.from_batches(schema, batches())

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ebbpool.compare(stream, "lru", 10, 8, cache=False)
    timer.join()
    # The work ended long before the stream.
    assert supplied < 400
