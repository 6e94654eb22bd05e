"""The command: `python -m ebbpool`. Beyond the options of `ebbpool`, its `compare` takes `--dask ADDRESS`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from contextlib import ExitStack
from typing import Any

from . import _ebbpool
from ._errors import EbbpoolError

#: The option that names a Dask scheduler.
DASK = "--dask"


def main() -> int:
    """Runs the command with the arguments of this process, and returns its exit code."""
    words = sys.argv[1:]
    with ExitStack() as until_the_end:
        if words[:1] == ["compare"] and any(word == DASK or word.startswith(f"{DASK}=") for word in words):
            try:
                words = ["compare", *computed_elsewhere(words[1:], until_the_end)]
            except EbbpoolError as error:
                print(f"ebbpool: error: {error}", file=sys.stderr)
                return 2 if isinstance(error, ValueError) else 1
        return _ebbpool.main(["ebbpool", *words])


def computed_elsewhere(words: list[str], until_the_end: ExitStack) -> list[str]:
    """Has workers compute the results that the words of `ebbpool compare` ask for, and stores them. Returns the words without
    the address: the command itself then finds everything in its store, and prints it. With `--no-cache` the store is an empty
    directory, which is removed at the end."""
    from ._lab import FRAMES, compare
    from ._trace import Trace, concat_as_the_command
    from ._types import TraceLike

    distributed: Any = importlib.import_module("dask.distributed")

    parser = argparse.ArgumentParser(prog="ebbpool compare", add_help=False, allow_abbrev=False)
    parser.add_argument(DASK, metavar="ADDRESS", required=True)
    rest = parser.parse_known_args(words)[1]
    parser.add_argument("traces", nargs="*")
    for name in ("--policies", "--asymmetry", "--frames"):
        parser.add_argument(name, action="append")
    for name in ("--device", "--rate", "--checkpoints", "--trace-format", "--columns", "--page-size"):
        parser.add_argument(name)
    for name in ("--threads", "--format", "--report"):
        parser.add_argument(name)
    parser.add_argument("--warmup", default="0")
    parser.add_argument("--at-end", default="flush")
    for name, default in (("--cluster-size", 16), ("--skip", 0), ("--skip-bad-lines", 0), ("--limit", None)):
        parser.add_argument(name, type=int, default=default)
    for name in ("--bound", "--concat", "--no-cache", "--below-cache", "--above-cache", "--whole-writes", "--apart"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args(words)
    if given.no_cache:
        # The command has to find the results of the workers, in a store without earlier ones.
        os.environ["EBBPOOL_CACHE"] = until_the_end.enter_context(tempfile.TemporaryDirectory())
        rest.remove("--no-cache")
    reading = {
        "format": given.trace_format,
        "columns": given.columns,
        "page_size": given.page_size,
        "skip": given.skip,
        "limit": given.limit,
        "skip_bad_lines": given.skip_bad_lines,
        "below_cache": given.below_cache if given.below_cache or given.above_cache else None,
        "whole_writes": given.whole_writes,
        "apart": given.apart,
    }
    traces: list[TraceLike]
    if given.concat and given.traces:
        traces = [concat_as_the_command(given.traces, **reading)]
    else:
        traces = [Trace(name, **reading) for name in given.traces or [None]]
    with distributed.Client(given.dask) as client:
        compare(
            traces,
            given.policies,
            given.frames or FRAMES,
            given.asymmetry,
            device=given.device,
            rate=given.rate,
            warmup=given.warmup,
            at_end=given.at_end,
            checkpoints=given.checkpoints,
            cluster_size=given.cluster_size,
            bound=given.bound,
            executor=client,
        )
    return rest


if __name__ == "__main__":
    sys.exit(main())
