"""A cache of a dictionary whose victims an Ebbpool policy chooses, through ctypes.

The dictionary stands for a slow store. The cache has a fixed number of frames, and a page table of its own; the policy says
which page to evict. The same shape serves a buffer manager in any language.

    python page_store.py PATH_OF_LIBEBBPOOL.SO [POLICY]
"""

import ctypes
import random
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_uint32, c_uint64, c_void_p

READ, WRITE = 0, 1  # EBBPOOL_READ, EBBPOOL_WRITE
ABI_VERSION = 1  # EBBPOOL_ABI_VERSION of the header that this file was written for


class Eviction(Structure):
    """struct ebbpool_eviction"""

    _fields_ = [
        ("frame", c_uint32),
        ("together_count", c_uint32),
        ("also_evicted_count", c_uint32),
        ("block_pages", c_uint32),
        ("together", POINTER(c_uint32)),
        ("also_evicted", POINTER(c_uint32)),
    ]


MayEvict = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint32)

SIGNATURES = {
    "ebbpool_check_abi": [c_uint32],
    "ebbpool_policy_new": [c_char_p, c_uint32, POINTER(c_void_p)],
    "ebbpool_policy_destroy": [c_void_p],
    "ebbpool_policy_costs": [c_void_p, c_double, c_double],
    "ebbpool_policy_hit": [c_void_p, c_uint32, c_uint32],
    "ebbpool_policy_miss": [c_void_p, c_uint64, c_uint32, c_uint32, POINTER(c_int32)],
    "ebbpool_policy_victim": [c_void_p, MayEvict, c_void_p, c_uint32, POINTER(Eviction)],
    "ebbpool_policy_cleaned": [c_void_p, c_uint32],
    "ebbpool_policy_evicted": [c_void_p, c_uint32],
    "ebbpool_policy_admit": [c_void_p, c_uint32],
}


class EbbpoolError(Exception):
    """A call has failed; the text is that of the library."""


class Library:
    """The functions of libebbpool, which raise EbbpoolError in place of returning a status."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        library.ebbpool_error_message.restype = c_char_p
        for name, arguments in SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = c_int32
            setattr(self, name.removeprefix("ebbpool_"), self._raising(function, library))
        self.check_abi(ABI_VERSION)

    @staticmethod
    def _raising(function, library):
        def call(*arguments):
            if function(*arguments) != 0:
                raise EbbpoolError(library.ebbpool_error_message().decode())

        return call


class Cache:
    """At most `frames` entries of a dictionary, which a policy selects."""

    def __init__(self, library, store, frames, policy, write_cost):
        self.library, self.store = library, store
        self.policy = c_void_p()
        library.policy_new(policy.encode(), frames, byref(self.policy))
        library.policy_costs(self.policy, 1.0, write_cost)
        self.frame_of = {}  # the page table: key -> frame
        self.entries = [None] * frames  # [key, value, dirty]
        self.empty = list(range(frames))
        self.hits = self.reads = self.writes = 0

    def close(self):
        """Writes what is dirty, and releases the policy."""
        for frame in self.frame_of.values():
            self._write(frame)
        self.library.policy_destroy(self.policy)

    def get(self, key):
        return self.entries[self._find(key, READ)][1]

    def put(self, key, value):
        entry = self.entries[self._find(key, WRITE)]
        entry[1], entry[2] = value, True

    def _find(self, key, access):
        """The frame of a key, after the policy was notified of the reference."""
        frame = self.frame_of.get(key)
        if frame is not None:
            self.hits += 1
            self.library.policy_hit(self.policy, frame, access)
            return frame
        evict_first = c_int32()
        self.library.policy_miss(self.policy, key, 0, access, byref(evict_first))
        if evict_first.value:
            self._evict()
        frame = self.empty.pop()
        self.reads += 1
        self.entries[frame] = [key, self.store.get(key), False]
        self.frame_of[key] = frame
        self.library.policy_admit(self.policy, frame)
        return frame

    def _evict(self):
        plan = Eviction()
        # No entry is fixed, since one thread uses the cache: so there is no function that says which may be evicted.
        self.library.policy_victim(self.policy, MayEvict(), None, 16, byref(plan))
        # The lists are valid until the next call for the policy only.
        together = plan.together[: plan.together_count]
        evicted = [plan.frame, *plan.also_evicted[: plan.also_evicted_count]]
        for frame in together:
            self._write(frame)
            self.library.policy_cleaned(self.policy, frame)
        for frame in evicted:
            self._write(frame)
            del self.frame_of[self.entries[frame][0]]
            self.entries[frame] = None
            self.library.policy_evicted(self.policy, frame)
            self.empty.append(frame)

    def _write(self, frame):
        key, value, dirty = self.entries[frame]
        if dirty:
            self.writes += 1
            self.store[key] = value
            self.entries[frame][2] = False


def main(path, policy="cflru:window=0.5"):
    library = Library(path)
    try:
        Cache(library, {}, 10, "no-such-policy", 8.0)
    except EbbpoolError as error:
        print(f"refused: {str(error).split(';')[0]}")
    store, expected = {}, {}
    cache = Cache(library, store, 100, policy, write_cost=8.0)
    choose = random.Random(1)
    for step in range(20_000):
        key = min(int(choose.paretovariate(0.6)), 1000)
        if choose.random() < 0.3:
            cache.put(key, step)
            expected[key] = step
        else:
            assert cache.get(key) == expected.get(key), "the latest value"
    cache.close()
    assert {key: store.get(key) for key in expected} == expected, "everything is written"
    print(f"{policy}: {cache.hits} hits, {cache.reads} reads, {cache.writes} writes")


if __name__ == "__main__":
    main(*sys.argv[1:])
