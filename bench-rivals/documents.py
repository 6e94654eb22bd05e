"""Tables of the benchmarks, and the blocks of the documents that they fill."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown; all columns but the first are numbers."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def write_block(page: Path, name: str, text: str) -> None:
    """Fills the block `<!-- figures: NAME -->` … `<!-- end -->` of a document."""
    content = page.read_text()
    pattern = re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(content):
        sys.exit(f"{page} has no block '<!-- figures: {name} -->'")
    page.write_text(pattern.sub(lambda block: block[1] + text + "\n" + block[2], content))
