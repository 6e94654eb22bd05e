"""Ebbpool: which page replacement policy makes the I/O bill smallest when a write costs more than a read?

>>> import ebbpool
>>> answer = ebbpool.compare("zipf:pages=2000,refs=20000", policies=["lru", "cflru", "ebb"], frames=["3%"], asymmetry=[32])
>>> answer.best().policy
'ebb'

A trace is a path, a generator, a table of Polars, pandas, pyarrow or DuckDB, a pair of arrays, or a function that streams.
A result is a table: `polars.DataFrame(answer)`, `answer.to_pandas()`, or rows. A policy is a name, a class of yours, or
functions that Numba compiles. `executor=` computes on a cluster that you have.
"""

from . import sqlite as sqlite
from ._ebbpool import VERSION as __version__
from ._catalogue import device, devices, generators, policies, policy
from ._comparison import Comparison, Curve, Run
from ._errors import EbbpoolError, Interrupted, PolicyError, TraceError, TraceFileError, UsageError
from ._lab import bound, compare, curve, run
from ._operator import Advice, Diff, Reproduction, advise, diff, experiments, replay, reproduce
from ._policy import Compiled
from ._table import Row, Table
from ._trace import Trace, generate, sample
from ._types import Policy, PolicyLike, SupportsArrowStream, TraceLike

__all__ = [
    "Advice",
    "Comparison",
    "Compiled",
    "Curve",
    "Diff",
    "EbbpoolError",
    "Interrupted",
    "Policy",
    "PolicyError",
    "PolicyLike",
    "Reproduction",
    "Row",
    "Run",
    "SupportsArrowStream",
    "Table",
    "Trace",
    "TraceError",
    "TraceFileError",
    "TraceLike",
    "UsageError",
    "__version__",
    "advise",
    "bound",
    "compare",
    "curve",
    "device",
    "devices",
    "diff",
    "experiments",
    "generate",
    "generators",
    "policies",
    "policy",
    "replay",
    "reproduce",
    "run",
    "sample",
]
