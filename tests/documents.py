"""Tables of the benchmarks, and the blocks of the documents that they fill."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown; all columns but the first are numbers."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def has_block(page: Path, name: str) -> bool:
    return page.exists() and f"<!-- figures: {name} -->" in page.read_text()


def command(program: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace, names: tuple[str, ...]) -> str:
    """The command that makes a block again: a program in the folder `rivals` of a wing, with those arguments of these names that are not the default."""
    words = ["sudo", program, "DIRECTORY"]
    for name in names:
        value = getattr(arguments, name)
        if value != parser.get_default(name):
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join([*words, "--write", str(arguments.write)])


def write_block(page: Path, name: str, text: str) -> None:
    """Fills the block `<!-- figures: NAME -->` … `<!-- end -->` of a document."""
    content = page.read_text()
    pattern = re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(content):
        sys.exit(f"{page} has no block '<!-- figures: {name} -->'")
    page.write_text(pattern.sub(lambda block: block[1] + text + "\n" + block[2], content))
