"""Policies in Python for tests."""

from __future__ import annotations

from collections import OrderedDict


class Lru:
    """Least recently used first."""

    name = "python-lru"

    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def hit(self, frame: int, write: bool) -> None:
        self.order.move_to_end(frame)

    def victim(self) -> int:
        return next(iter(self.order))

    def admit(self, frame: int, page: int, write: bool) -> None:
        self.order[frame] = None

    def evicted(self, frame: int) -> None:
        del self.order[frame]


class Cflru:
    """A clean page among the least recently used half first (Park et al. 2006, with a window of half)."""

    name = "python-cflru"
    miniature = True

    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, bool] = OrderedDict()
        self.window = frames // 2

    def hit(self, frame: int, write: bool) -> None:
        self.order[frame] |= write
        self.order.move_to_end(frame)

    def victim(self) -> int:
        for position, (frame, dirty) in enumerate(self.order.items()):
            if position == self.window:
                break
            if not dirty:
                return frame
        return next(iter(self.order))

    def admit(self, frame: int, page: int, write: bool) -> None:
        self.order[frame] = write

    def evicted(self, frame: int) -> None:
        del self.order[frame]

    def cleaned(self, frame: int) -> None:
        self.order[frame] = False


class Clustered(Lru):
    """LRU that writes the dirty pages of the victim's cluster of 64 pages together with it."""

    name = "python-clustered"
    #: How often a page was cleaned that the policy knows to be clean.
    written_clean = 0

    def __init__(self, frames: int) -> None:
        super().__init__(frames)
        self.pages: dict[int, int] = {}
        self.dirty: set[int] = set()

    def hit(self, frame: int, write: bool) -> None:
        super().hit(frame, write)
        if write:
            self.dirty.add(frame)

    def admit(self, frame: int, page: int, write: bool) -> None:
        super().admit(frame, page, write)
        self.pages[frame] = page
        if write:
            self.dirty.add(frame)

    def evicted(self, frame: int) -> None:
        super().evicted(frame)
        del self.pages[frame]
        self.dirty.discard(frame)

    def cleaned(self, frame: int) -> None:
        Clustered.written_clean += frame not in self.dirty
        self.dirty.discard(frame)

    def cleaned_with(self, frame: int) -> list[int]:
        if frame not in self.dirty:
            return []
        cluster = self.pages[frame] // 64
        return [other for other in sorted(self.dirty) if other != frame and self.pages[other] // 64 == cluster]


class Costly(Lru):
    """LRU that notes the costs that it gets."""

    name = "python-costly"
    seen: list[tuple[float, float]] = []

    def costs(self, read: float, write: float) -> None:
        Costly.seen.append((read, write))
