"""Where results are stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import Any

from . import _ebbpool
from ._errors import UsageError


class ResultStore:
    """A place for results: nowhere, a directory, or a mapping."""

    def __init__(self, native: _ebbpool.Results, stores: bool) -> None:
        self.native = native
        #: True if what is put in can be found again.
        self.stores = stores


def results_of(cache: Any) -> ResultStore:
    """The place that the argument `cache` names."""
    if cache is True:
        return ResultStore(_ebbpool.Results.directory(None), True)
    if cache is False or cache is None:
        return ResultStore(_ebbpool.Results.nowhere(), False)
    if isinstance(cache, (str, os.PathLike)):
        return ResultStore(_ebbpool.Results.directory(os.fspath(cache)), True)
    if hasattr(cache, "__getitem__") and hasattr(cache, "__setitem__"):
        return ResultStore(_ebbpool.Results.mapping(cache), True)
    raise UsageError(
        f"cache=: {type(cache).__name__} is not a place for results; give True, False, a directory, or a mapping from texts "
        "to bytes, such as a dict or fsspec.get_mapper(URL)"
    )


class Recording(MutableMapping[str, bytes]):
    """A mapping above another one, which notes what is new and does not change the other."""

    def __init__(self, below: MutableMapping[str, bytes] | None = None) -> None:
        self.new: dict[str, bytes] = {}
        self._below = below if below is not None else {}

    def __getitem__(self, key: str) -> bytes:
        found = self.new.get(key)
        return found if found is not None else self._below[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.new[key] = value

    def __delitem__(self, key: str) -> None:
        del self.new[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._below, **self.new})

    def __len__(self) -> int:
        return len({**self._below, **self.new})


class Layered(MutableMapping[str, bytes]):
    """Values in memory above a place for results, which gets them as well."""

    def __init__(self, below: ResultStore) -> None:
        self.values_here: dict[str, bytes] = {}
        self._below = below

    def __getitem__(self, key: str) -> bytes:
        found = self.values_here.get(key)
        if found is None:
            found = self._below.native.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        self.values_here[key] = value
        self._below.native.put(key, value)

    def __delitem__(self, key: str) -> None:
        del self.values_here[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_here)

    def __len__(self) -> int:
        return len(self.values_here)
