"""A card to write to: a fresh ext4 on a loop device, and what the kernel counts on it; and SQLite with and without the library."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("EBBPOOL_SQLITE_LIBRARY", ROOT / "target/release/libebbpool_sqlite.so"))
SECTOR = 512


@dataclass
class Card:
    """A mounted file system on its own block device."""

    device: str
    mount: Path

    def written(self) -> dict[str, int]:
        """Bytes, write requests and flush requests since the device was made."""
        fields = Path(f"/sys/block/{Path(self.device).name}/stat").read_text().split()
        return {"bytes": int(fields[6]) * SECTOR, "requests": int(fields[4]), "flushes": int(fields[15])}

    def flush(self) -> None:
        """Writes what the page cache has, as the kernel does on its own in the end."""
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(self.mount, os.O_RDONLY)
        try:
            if libc.syncfs(descriptor) != 0:
                raise OSError(ctypes.get_errno(), "syncfs")
        finally:
            os.close(descriptor)


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def fresh_card(directory: Path, mebibytes: int = 1024) -> Iterator[Card]:
    """A new ext4 on a loop device over a file in `directory`, mounted; needs root.

    All tables of inodes and the journal are written at once: otherwise the kernel writes 32 MiB of them in the midst of a
    run.
    """
    image, mount = directory / f"card-{os.getpid()}.img", directory / f"card-{os.getpid()}"
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    mount.mkdir(exist_ok=True)
    device = run("losetup", "--find", "--show", image)
    try:
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
        run("mount", "-o", "noatime", device, mount)
        try:
            yield Card(device, mount)
        finally:
            run("umount", mount)
    finally:
        run("losetup", "-d", device)
        image.unlink()
        mount.rmdir()


def temporary_files_in(directory: Path) -> None:
    """Has SQLite put its temporary files there. It reads SQLITE_TMPDIR only once, when Python imports it."""
    database = sqlite3.connect(":memory:")
    database.execute(f"PRAGMA temp_store_directory = '{directory}'")
    database.close()


def load_library(library: Path = LIBRARY) -> None:
    """Loads the library into this process: then databases may be opened with `vfs=ebbpool`.

    The connection that loads it may be closed: SQLite never unloads it. `PRAGMA ebbpool_clock` works from then on.
    """
    os.environ["EBBPOOL_SQLITE_CLOCK"] = "1"
    if not library.exists():
        sys.exit(f"{library} is missing: cargo build --release -p ebbpool-sqlite")
    database = sqlite3.connect(":memory:")
    if not hasattr(database, "enable_load_extension"):
        sys.exit(f"the sqlite3 module of {sys.executable} cannot load extensions; that of Debian's /usr/bin/python3 can")
    database.enable_load_extension(True)
    database.load_extension(str(library.with_suffix("")))
    database.close()


def open_database(path: Path, options: str | None, **others: object) -> sqlite3.Connection:
    """Opens a database with plain SQLite, or with the library's options such as `window=5&log=wal`."""
    name = f"file:{path}" if options is None else f"file:{path}?vfs=ebbpool&{options}"
    return sqlite3.connect(name, uri=True, isolation_level=None, **others)  # type: ignore[call-overload]


def checked(path: Path, pragma: str = "integrity_check") -> None:
    """Has plain SQLite judge a database that nothing has open."""
    left = [path.name + suffix for suffix in ("-wal", "-journal", "-ebb", "-shm") if Path(f"{path}{suffix}").exists()]
    if left:
        sys.exit(f"after a clean close {', '.join(left)} is left")
    database = sqlite3.connect(path)
    answer = database.execute(f"PRAGMA {pragma}").fetchall()
    database.close()
    if answer != [("ok",)]:
        sys.exit(f"{path}: {pragma}: {answer[:5]}")
