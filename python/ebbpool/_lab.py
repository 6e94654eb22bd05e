"""The questions to the lab."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from typing import Any

from . import _ebbpool
from ._arguments import a_list, a_text, counting, number, numbers, shown, sizes, text_if_given, text_or_none, threads_or_none
from ._comparison import Comparison, Curve, Run
from ._errors import UsageError
from ._executor import bound_with, compare_with, curve_with
from ._store import results_of
from ._table import Table
from ._trace import trace_of, traces_of
from ._types import Asymmetry, PolicyLike, Size, TraceLike, Watch

#: The memory sizes of `compare` and `bound` if none are given.
FRAMES = ("0.75%", "1.5%", "3%", "6%")


def policies_of(policies: Any) -> list[Any] | None:
    """Names and policies of the caller in a list; a text may have several names, separated by commas."""
    if policies is None:
        return None
    given = a_list(policies) if not (callable(policies) or hasattr(policies, "_addresses")) else [policies]
    if not given:
        raise UsageError("policies=: the list is empty; name some, such as 'lru'")
    return given


def compare(
    trace: TraceLike | Sequence[TraceLike] | None = None,
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    frames: Size | Sequence[Size] = FRAMES,
    asymmetry: Asymmetry | Sequence[Asymmetry] | None = None,
    *,
    device: str | None = None,
    rate: float | str | None = None,
    warmup: int | str = 0,
    at_end: str = "flush",
    checkpoints: int | str | None = None,
    cluster_size: int = 16,
    bound: bool = False,
    report: bool = False,
    threads: int | None = None,
    executor: Any = None,
    cache: bool | str | os.PathLike[str] | MutableMapping[str, bytes] = True,
    progress: Watch = None,
) -> Comparison:
    """Compares policies over memory sizes and asymmetries.

    * `trace`: one trace, or a list of several; without one, the sample that ships with Ebbpool
    * `policies`: names and classes; without any, the online policies of five papers and `ebb`. Those that are not names
      follow the others in the result
    * `frames`: memory sizes: frames, or texts in per cent of the database's pages or in bytes
    * `asymmetry`: costs of a page write in page reads; 1, 8, 32 and 128 if there is no device
    * `device`: a device that serves reads and writes, in place of asymmetries: a name of `devices()`, the path of a profile,
      or a simulated one, `flash:…`
    * `rate`: references that arrive per second at the device
    * `warmup`: references at the start that are not counted, or per cent of all as a text
    * `at_end`: `"flush"` if the pages that are dirty at the end are written and counted, or `"free"`
    * `checkpoints`: when all dirty pages are written: references (`20000`), references that write (`"writes=20000"`), a time by the
      times of the trace (`"5min"`), or several of them in one text
    * `cluster_size`: pages per cluster when cluster switches are counted
    * `bound`: also computes the bill that no policy can undercut
    * `report`: also describes the trace, for `Comparison.report`
    * `threads`: worker threads; one per core if not given. Results do not depend on it
    * `executor`: computes elsewhere: a `concurrent.futures.Executor`, a Dask `Client`, or the module `ray`
    * `cache`: where results are stored and found again: True for the directory of the command, False for nowhere, another
      directory, or a mapping from texts to bytes. Results of policies in Python are not stored
    * `progress`: a function of the share done, True or False

    >>> answer = compare("zipf:pages=2000,refs=20000", ["lru", "cflru", "ebb"], frames="3%", asymmetry=32)
    >>> len(answer), answer.best().policy
    (3, 'ebb')
    """
    traces = traces_of(trace)
    if asymmetry is None:
        asymmetries = numbers("asymmetry", () if device is not None else (1, 8, 32, 128))
    elif not (asymmetries := numbers("asymmetry", asymmetry)):
        raise UsageError("asymmetry=: the list is empty; name some, such as 32")
    request = {
        "policies": policies_of(policies),
        "frames": sizes("frames", frames),
        "asymmetry": asymmetries,
        "device": text_if_given("device", device),
        "counting": counting(warmup, at_end, cluster_size, rate, checkpoints),
        "bound": bool(bound),
        "report": bool(report),
    }
    threads = threads_or_none(threads)
    results = results_of(cache)
    with shown(progress, traces[0].name) as show:
        if executor is not None:
            return Comparison(compare_with(executor, traces, request, results, threads, show))
        natives = [one._native for one in traces]
        return Comparison(_ebbpool.compare(natives, request, results.native, threads=threads, progress=show))


def run(
    trace: TraceLike | None,
    policy: PolicyLike,
    frames: Size,
    *,
    asymmetry: Asymmetry | None = None,
    device: str | None = None,
    rate: float | str | None = None,
    warmup: int | str = 0,
    at_end: str = "flush",
    checkpoints: int | str | None = None,
    cluster_size: int = 16,
    events: bool = False,
    series: bool = False,
    progress: Watch = None,
) -> Run:
    """Runs one policy over one trace. Without `asymmetry` and device, R is 32.

    With `events` the result has every write-back and eviction, with `series` the state every 1,000 references.

    >>> run("zipf:pages=1000,refs=20000", "lru", 100).result.hits
    9922
    """
    one = trace_of(trace)
    count = counting(warmup, at_end, cluster_size, rate, checkpoints)
    asymmetries = [] if asymmetry is None else numbers("asymmetry", [asymmetry])
    (size,) = _one(sizes("frames", frames), "frames")
    with shown(progress, one.name) as show:
        if not isinstance(policy, str):
            if not (callable(policy) or hasattr(policy, "_addresses")):
                raise UsageError(f"policy=: {policy!r} is neither a name nor a class of policies; give one of them")
            if events or series:
                raise UsageError("events=, series=: only policies by name record them")
            request = {
                "policies": policies_of([policy]),
                "frames": [size],
                "asymmetry": asymmetries,
                "device": text_if_given("device", device),
                "counting": count,
                "bound": False,
                "report": False,
            }
            nowhere = _ebbpool.Results.nowhere()
            compared = _ebbpool.compare([one._native], request, nowhere, threads=1, progress=show)
            rows = compared.json().strip().removeprefix("[").removesuffix("]")
            return Run(compared.table(), rows, compared.notes, None, None)
        request = {
            "policy": policy,
            "frames": size,
            "asymmetry": asymmetries,
            "device": text_if_given("device", device),
            "counting": count,
            "events": bool(events),
            "series": bool(series),
        }
        table, text, event_lines, series_lines, notes = _ebbpool.run(one._native, request, show)
        return Run(table, text, notes, event_lines, series_lines)


def _one(given: list[str], name: str) -> list[str]:
    if len(given) != 1:
        raise UsageError(f"{name}=: give one, not {len(given)}")
    return given


def curve(
    trace: TraceLike | None = None,
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    *,
    frames: Size | Sequence[Size] = (),
    asymmetry: float | str = 32,
    sample: float | None = None,
    target: str | None = None,
    baseline: str = "lru@3%",
    clean_pools: Size | None = None,
    warmup: int | str = 0,
    at_end: str = "flush",
    checkpoints: int | str | None = None,
    report: bool = False,
    threads: int | None = None,
    executor: Any = None,
    cache: bool | str | os.PathLike[str] | MutableMapping[str, bytes] = True,
    progress: Watch = None,
) -> Curve:
    """Reads, writes and bill against memory size, and the memory that a target needs.

    * `policies`: names and classes. Classes follow the names in the result. They run over all pages, unless they have a true
      attribute `miniature`: it says that over a sample of the pages, with frames in proportion, the policy's bill is in
      proportion too, so that its parameters are shares of its frames, and that the stated errors hold
    * `frames`: memory sizes; without any, all referenced pages, half of them, a quarter, and so on
    * `sample`: the share of the pages that is sampled at large sizes, above 0 and up to 1, which is exact
    * `target`: what should be reached, such as `"writes -50%"` or `"bill 1.5"`
    * `baseline`: the policy and memory that a target in per cent refers to
    * `clean_pools`: a memory size, for which fd-static is computed with every size of its clean pool

    The other arguments are those of `compare`.

    >>> study = curve("zipf:pages=1000,refs=20000", ["lru", "cflru"], frames=[50, 100])
    >>> [(row.policy, row.frames) for row in study]
    [('lru', 50), ('lru', 100), ('cflru', 50), ('cflru', 100)]
    """
    one = trace_of(trace)
    policy, _, size = a_text("baseline", baseline).rpartition("@")
    clean = None if clean_pools is None else _one(sizes("clean_pools", clean_pools), "clean_pools")[0]
    request = {
        "policies": policies_of(policies),
        "frames": sizes("frames", frames),
        "asymmetry": number("asymmetry", asymmetry),
        "sample": None if sample is None else float(number("sample", sample)),
        "target": text_if_given("target", target),
        "baseline": (policy.strip() or "lru", size),
        "clean_pools": clean,
        "warmup": str(warmup),
        "at_end": a_text("at_end", at_end),
        "checkpoints": text_or_none(checkpoints),
        "report": bool(report),
    }
    results = results_of(cache)
    threads = threads_or_none(threads)
    with shown(progress, one.name) as show:
        if executor is not None:
            return Curve(curve_with(executor, one, request, results, threads, show))
        study = _ebbpool.curve(one._native, request, results.native, threads=threads, progress=show)
    assert study is not None, "only stored=True has no answer"
    return Curve(study)


def bound(
    trace: TraceLike | None,
    frames: Size | Sequence[Size],
    asymmetry: float | Sequence[float] = 32,
    *,
    at_end: str = "flush",
    threads: int | None = None,
    executor: Any = None,
    cache: bool | str | os.PathLike[str] | MutableMapping[str, bytes] = True,
    progress: Watch = None,
) -> Table:
    """A lower bound that no policy's bill can undercut, and the bill of a clairvoyant policy, for each asymmetry and size.

    >>> (answer,) = bound("zipf:pages=1000,refs=5000", 50)
    >>> answer.lower_bound <= answer.heuristic
    True
    """
    one = trace_of(trace)
    arguments = (sizes("frames", frames), numbers("asymmetry", asymmetry), a_text("at_end", at_end))
    results = results_of(cache)
    threads = threads_or_none(threads)
    with shown(progress, one.name) as show:
        if executor is not None:
            return Table(*bound_with(executor, one, arguments, results, threads, show))
        answer = _ebbpool.bound(one._native, *arguments, results.native, threads=threads, progress=show)
    assert answer is not None, "only stored=True has no answer"
    return Table(*answer)
