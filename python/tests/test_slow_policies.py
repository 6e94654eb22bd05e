"""Ctrl-C while a policy of the caller runs, in a process of its own each time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

#: What an idle machine needs: 50 ms until the signal is seen, and the rest for a thread to get the interpreter.
WITHIN = 0.2
#: A busy machine gets more, but much less than the calls would take.
BUSY = float(os.environ.get("EBBPOOL_BUSY_SECONDS", "2"))

BEGINNING = """
import signal, sys, threading, time
import ebbpool

begun = threading.Event()

class Queue:
    def __init__(self, frames):
        self.order = []
        begun.set()
    def admit(self, frame, page, write): self.order.append(frame)
    def victim(self): return self.order.pop(0)

def interrupted(ask, *policies):
    sent = []
    begun.clear()
    def send():
        begun.wait()
        time.sleep(0.5)
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)
    threading.Thread(target=send).start()
    try:
        ask(*policies)
    except KeyboardInterrupt:
        print("seconds", time.monotonic() - sent[0], flush=True)
    else:
        print("no KeyboardInterrupt", flush=True)

def compare(*policies):
    ebbpool.compare("zipf:pages=300,refs=50000", list(policies), [10, 20], 8, cache=False)
"""


def run(code: str, limit: float = 60) -> list[float]:
    """The seconds from each signal to its exception."""
    words = [sys.executable, "-X", "faulthandler", "-c", BEGINNING + textwrap.dedent(code)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no KeyboardInterrupt" not in ended.stdout, ended.stdout
    return [float(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("seconds")]


def soon(code: str, count: int = 1) -> None:
    seconds = run(code)
    assert len(seconds) == count and max(seconds) < BUSY, f"{seconds}; on an idle machine {WITHIN} s"


def test_a_slow_policy_stops_after_the_call_that_runs() -> None:
    soon(
        """
        class Slow(Queue):
            def hit(self, frame, write): time.sleep(0.01)
            def miss(self, page, write): time.sleep(0.01)
        interrupted(compare, Slow)
        """
    )


def test_a_call_without_an_end_is_ended() -> None:
    soon(
        """
        class Endless(Queue):
            def victim(self):
                while True: pass
        class Constructed(Queue):
            def __init__(self, frames):
                begun.set()
                while True: pass
        class Companions(Queue):
            def cleaned_with(self, frame):
                while True: pass
        for policy in (Endless, Constructed, Companions):
            interrupted(compare, policy)
        interrupted(lambda: ebbpool.curve("zipf:pages=300,refs=50000", [Endless], frames=[10], cache=False))
        interrupted(lambda: ebbpool.replay("zipf:pages=300,refs=50000", [Endless], 10, asymmetry=8, progress=False))
        """,
        5,
    )


def test_a_policy_that_asks_the_lab_itself_is_ended() -> None:
    soon(
        """
        class Endless(Queue):
            def victim(self):
                while True: pass
        class Asking(Queue):
            def victim(self):
                compare(Endless)
                return super().victim()
        class Long(Queue):
            def victim(self):
                ebbpool.compare("zipf:pages=200000,refs=300000000", ["lru", "lrfu"], 20000, 8, cache=False)
                return super().victim()
        interrupted(compare, Asking)
        interrupted(compare, Long)
        """,
        2,
    )


def test_one_exception_that_is_caught_is_followed_by_another() -> None:
    seconds = run(
        """
        class Stubborn(Queue):
            def victim(self):
                for _ in range(2):
                    try:
                        # Python 3.11 takes an exception at the head of a loop for one of the line before it.
                        turns = 0
                        while True: turns += 1
                    except BaseException: pass
                while True: pass
        interrupted(compare, Stubborn)
        """
    )
    assert len(seconds) == 1 and 2 < seconds[0] < 2 + 5 * BUSY


def test_the_work_goes_on_afterwards() -> None:
    soon(
        """
        class Endless(Queue):
            def victim(self):
                while True: pass
        interrupted(compare, "lru", Endless)
        # No exception is left over for another thread or another call.
        for _ in range(20): compare(Queue, "lru")
        """
    )


def test_an_exception_of_the_function_for_progress_ends_a_call_too() -> None:
    lines = run(
        """
        class Endless(Queue):
            calls = 0
            def victim(self):
                Endless.calls += 1
                # In the second chunk of references, so that progress is reported meanwhile.
                while Endless.calls > 300000: pass
                return super().victim()
        def progress(share):
            if Endless.calls > 0:
                raise LookupError("no bar")
        try:
            ebbpool.compare("zipf:pages=3000,refs=2000000", [Endless], [10], 8, cache=False, progress=progress)
        except LookupError:
            print("seconds", 0)
        """
    )
    assert lines == [0]


def test_results_of_others_are_counted_as_done() -> None:
    code = """
    class Endless(Queue):
        def victim(self):
            while True: pass
    def ask():
        try:
            compare("lru", "fifo", Endless)
        except KeyboardInterrupt as raised:
            assert raised.__notes__ == ["4 results are done; with a cache the same call continues"], raised.__notes__
            raise
    interrupted(ask)
    """
    soon(code)


def test_a_policy_of_c_functions_stops_after_the_call_that_runs() -> None:
    soon(
        """
        import ctypes
        at = [0]
        def next_victim(state):
            at[0] += 1
            return (at[0] - 1) % 10
        slow = ebbpool.Compiled(
            "slow",
            state=lambda frames: begun.set() or bytearray(8),
            victim=ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)(next_victim),
            hit=ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint8)(lambda *_: time.sleep(0.01)),
        )
        interrupted(lambda: ebbpool.compare("zipf:pages=300,refs=50000", [slow], [10], 8, cache=False))
        """
    )
