"""Policies of C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ._errors import UsageError


#: The base of the functions that `ctypes.CFUNCTYPE` makes.
_C_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]


class Compiled:
    """A policy of C functions, such as those that `numba.cfunc` makes; it runs nearly as fast as the built-in ones.

    `state(frames)` makes the memory of one run: an array of NumPy, whose address each function gets first. The
    functions are objects with an `address` (Numba's) or functions of ctypes, and must have exactly these signatures,
    because nothing can check them:

    | function | signature for Numba | called |
    | --- | --- | --- |
    | `victim` | `uint32(state)` | for the frame to evict |
    | `admit` | `void(state, uint32 frame, uint64 page, uint8 write)` | when a page has been read into a frame |
    | `evicted` | `void(state, uint32 frame)` | when a page has left a frame |
    | `hit` | `void(state, uint32 frame, uint8 write)` | when a resident page is referenced |
    | `page_class` | `void(state, uint32 number)` | before `miss`, with the page's class, if the trace has classes |
    | `miss` | `void(state, uint64 page, uint8 write)` | when another page is referenced, first |
    | `cleaned` | `void(state, uint32 frame)` | when a page was written and stays |
    """

    def __init__(
        self,
        name: str,
        *,
        state: Callable[[int], Any],
        victim: Any,
        admit: Any = None,
        evicted: Any = None,
        hit: Any = None,
        page_class: Any = None,
        miss: Any = None,
        cleaned: Any = None,
    ) -> None:
        #: The name in results.
        self.name = name
        #: True if `curve` may run the policy over a sample of the pages.
        self.miniature = False
        self._state = state
        self._functions = {
            "hit": hit,
            "page_class": page_class,
            "miss": miss,
            "victim": victim,
            "admit": admit,
            "evicted": evicted,
            "cleaned": cleaned,
        }
        # An error here names the function, and one later would not.
        self._located = {function: _address(function, given) for function, given in self._functions.items()}
        if self._located["victim"] is None:
            raise UsageError("victim=: a policy has a function that returns the frame to evict")

    def _addresses(self, frames: int) -> dict[str, Any]:
        owner = self._state(frames)
        view = memoryview(owner)
        if view.readonly or not view.c_contiguous or view.nbytes == 0:
            raise UsageError(f"state=: the memory of policy {self.name} must be a writable array without gaps")
        address = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B")))
        return {"state": address, "owner": (self, owner), **self._located}

    def __repr__(self) -> str:
        return f"Compiled({self.name!r})"


def _address(name: str, function: Any) -> int | None:
    if function is None:
        return None
    address = getattr(function, "address", None)
    if address is None and isinstance(function, _C_FUNCTION):
        address = ctypes.cast(function, ctypes.c_void_p).value
    if not isinstance(address, int) or address == 0:
        raise UsageError(f"{name}=: {function!r} is not a C function; give one of numba.cfunc or of ctypes")
    return address
