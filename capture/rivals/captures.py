"""Captures of servers, what the lab predicts from them, and how far that is from what a server counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EBBPOOL = Path(os.environ.get("EBBPOOL", ROOT / "target/release/ebbpool"))
#: Cells with fewer counted reads or writes than this are too small for a share.
LEAST = 1000


def start(source: str, of: int | str, output: Path, program: Path = EBBPOOL) -> subprocess.Popen[str]:
    """Starts `ebbpool capture SOURCE` on a process or a device, and waits until it captures. It ends for no cost."""
    command = [str(program), "capture", source, *(["--pid", str(of)] if isinstance(of, int) else [of])]
    command += ["--seconds", "3000", "--references", "100M", "--at-most", "1000%", "-o", str(output)]
    command += [] if of == "--module" else ["--ring", "256MiB"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            if line.startswith("captures for"):
                # The probes are attached some tens of milliseconds later.
                time.sleep(1.0)
                return process
            said.append(line)
    except BaseException:
        process.kill()
        process.wait()
        raise
    sys.exit(f"the capture has not begun: {''.join(said)}")


def predict(trace: Path, policy: str, frames: int, warmup: int, new_pages: int) -> tuple[int, int]:
    """Reads and writes that a policy of the lab makes of a trace behind its first `warmup` references. A server does not read
    the `new_pages`, which a policy counts as misses."""
    command = [str(EBBPOOL), "run", str(trace), "--policy", policy, "--frames", str(frames), "--format", "json"]
    # The server's counters have only the writes that it has made.
    command += ["--warmup", str(warmup), "--at-end", "free"]
    found = json.loads(subprocess.check_output(command, text=True))
    return found["misses"] - new_pages, found["writes"]


def difference(found: int, counted: int) -> float | None:
    """Percent by which a prediction differs; None where too little was counted."""
    return 100.0 * (found / counted - 1.0) if counted >= LEAST else None


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return "0.00 %" if abs(value) < 0.005 else f"{value:+.2f} %"
