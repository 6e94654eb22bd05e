"""Arguments of functions as the native half takes them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any, Iterator

from . import _ebbpool
from ._errors import UsageError
from ._types import Watch


def a_list(given: Any) -> list[Any]:
    """The items of a list, or the only one. A text is one item, and commas divide it later."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        return [given]
    return list(given)


def sizes(name: str, given: Any) -> list[str]:
    """Memory sizes as texts."""
    return [text for item in a_list(given) for text in _size(name, item)]


def _size(name: str, item: Any) -> list[str]:
    if isinstance(item, str):
        return [text.strip() for text in item.split(",")]
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise UsageError(
            f"{name}=: {item!r} is not a memory size; give frames as a whole number, or a text: per cent, such as '3%', or "
            "bytes, such as '128MiB'"
        )
    return [str(item.__index__())]


def numbers(name: str, given: Any) -> list[str]:
    """Asymmetries as texts: numbers, or spellings of changes, of which a text may have several."""
    texts = [_ebbpool.split_list(item) if isinstance(item, str) else [number(name, item)] for item in a_list(given)]
    return [text for some in texts for text in some]


def number(name: str, item: Any) -> str:
    """A number as the shortest text that stands for it; a text remains."""
    if isinstance(item, str):
        return item.strip()
    if isinstance(item, bool):
        raise UsageError(f"{name}=: {item!r} is not a number")
    try:
        value = float(item)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name}=: {item!r} is not a number") from None
    return str(int(value)) if value.is_integer() else repr(value)


def text_or_none(item: Any) -> str | None:
    """A number or a text as a text."""
    return None if item is None else str(item)


def a_text(name: str, item: Any) -> str:
    """A text, which the native half reads."""
    if not isinstance(item, str):
        raise UsageError(f"{name}=: {item!r} is not a text")
    return item


def text_if_given(name: str, item: Any) -> str | None:
    """The same, or None."""
    return None if item is None else a_text(name, item)


def whole(name: str, item: Any, least: int = 0) -> int:
    """A whole number."""
    if isinstance(item, bool) or not hasattr(item, "__index__") or item.__index__() < least:
        raise UsageError(f"{name}=: {item!r} is not a whole number from {least} up")
    return int(item.__index__())


def counting(
    warmup: int | str, at_end: str, cluster_size: int, rate: float | str | None, checkpoints: int | str | None = None
) -> dict[str, Any]:
    """How references are counted."""
    if isinstance(warmup, float):
        raise UsageError(f"warmup=: {warmup!r} is neither a number of references nor per cent as a text, such as '10%'")
    return {
        "warmup": str(warmup),
        "at_end": a_text("at_end", at_end),
        "cluster_size": whole("cluster_size", cluster_size, 1),
        "rate": None if rate is None else number("rate", rate),
        "checkpoints": text_or_none(checkpoints),
    }


def threads_or_none(threads: int | None) -> int | None:
    """A number of threads."""
    return None if threads is None else whole("threads", threads, 1)


def path_of(given: str | os.PathLike[str]) -> str:
    """A path as a text."""
    return os.fspath(given)


def _in_a_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    try:
        return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
    except AttributeError:
        return False


def _in_a_notebook_with_widgets() -> bool:
    return _in_a_notebook() and importlib.util.find_spec("ipywidgets") is not None


@contextmanager
def shown(progress: Watch, name: str) -> Iterator[Callable[[float], None] | None]:
    """The function to call with the share done, for the time of one piece of work."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty() and not _in_a_notebook_with_widgets()):
        yield None
        return
    try:
        # tqdm.auto warns in a notebook without widgets, above each cell.
        if _in_a_notebook_with_widgets():
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        if progress:
            raise UsageError("progress=True needs tqdm; install it, or give a function of the share done") from None
        yield None
        return
    bar = tqdm(total=1.0, desc=name, leave=False, bar_format="{desc}: {percentage:3.0f}% {bar} {remaining} left")

    def show(share: float) -> None:
        bar.n = share
        bar.refresh()

    try:
        yield show
    finally:
        bar.close()
