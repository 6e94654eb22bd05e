"""The command: `python -m ebbpool`."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command with the arguments of this process, and returns its exit code."""
    from . import _ebbpool

    return _ebbpool.main(["ebbpool", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
