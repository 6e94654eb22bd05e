"""The layout of reports, narrow and wide, light and dark. Needs EBBPOOL, the path of the command, and Chromium."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import LOOKS, WHOLE, Browser, layout_problems

TRACE = "zipf:pages=2000,refs=60000,write-alpha=1.2,write=0.3"
OTHER = "uniform:pages=900,refs=20000,write=0.4,seed=7"
FLASH = "flash:slc-mt29f4g08aaa,blocks=64,precondition=steady"
PAGES = ("--page-size", "8192")
FEW = ("--policies", "lru,cflru:window=1,fd-buffer,ebb")


def sizes(count, largest=16):
    """That many sizes in per cent."""
    return ("--frames", ",".join(f"{largest * (at + 1) / count:.4g}%" for at in range(count)))


# What the command is, and its arguments.
REPORTS = {
    "one-size": ("compare", TRACE, *sizes(1, 3)),
    "fifteen-sizes": ("compare", TRACE, *PAGES, *sizes(15)),
    "two-traces": ("compare", TRACE, OTHER, *PAGES),
    "all-policies-eight-sizes": ("compare", TRACE, *PAGES, *sizes(8), "--policies", "all"),
    "bound": ("compare", TRACE, "--bound", "--asymmetry", "8", *sizes(4), *FEW),
    "changing": ("compare", TRACE, *sizes(2), "--asymmetry", "rm1:base=25,8,rm2", "--policies", "lru,cflru,casa"),
    "sd-card": ("compare", TRACE, *PAGES, "--device", "sd-a1", "--rate", "200", *sizes(4), *FEW),
    "price": ("compare", TRACE, *PAGES, "--device", "s3-standard", *sizes(3), *FEW),
    "advice-with-all-figures": (
        *("advise", TRACE, *PAGES, "--server", "postgresql", "--frames", "512KiB", "--memory-budget", "4MiB"),
        *("--device", "sd-a1", "--duration", "2h", "--life", "5y"),
    ),
    "curve-with-a-target": ("curve", TRACE, *PAGES, "--policies", "lru,cflru,ebb", "--target", "writes -50%"),
}
# Of the same kinds, with other numbers of charts.
if WHOLE:
    REPORTS |= {
        "four-sizes": ("compare", TRACE, *PAGES),
        "eight-sizes": ("compare", TRACE, *PAGES, *sizes(8)),
        "all-policies": ("compare", TRACE, *PAGES, "--policies", "all,fd-buffer:group=64,interval=auto"),
        "sizes-in-bytes": ("compare", TRACE, *PAGES, "--frames", "256KiB,1MiB,300", *FEW),
        "sd-card-without-a-rate": ("compare", TRACE, "--device", "sd-a1", *sizes(3), *FEW),
        "flash": ("compare", TRACE, "--device", FLASH, "--rate", "500", *sizes(3), *FEW),
        "curve": ("curve", TRACE, "--policies", "lru,cflru"),
        "advice": ("advise", TRACE, "--asymmetry", "8"),
    }


class LayoutTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def test_nothing_overlaps_or_leaves_its_box(self):
        for name, arguments in REPORTS.items():
            with self.subTest(name):
                path = Path(self.folder.name) / f"{name}.html"
                form = "json" if arguments[0] == "advise" else "csv"
                command = [os.environ["EBBPOOL"], *arguments, "--format", form, "--report", path]
                subprocess.run(command, check=True, capture_output=True)
                for widths, schemes in LOOKS:
                    self.assertEqual(layout_problems(self.browser, path, widths, schemes), [])
                self.assertEqual(self.browser.console(), [])

    def test_the_check_finds_what_it_looks_for(self):
        svg = "<svg width=100 height=60 viewBox='0 0 100 60'>"
        for body, problem in (
            ("<p style='margin:0'>first</p><p style='margin:-12px 0 0'>second</p>", "overlap"),
            (f"{svg}<text x=5 y=30>one</text><text x=8 y=34>two</text></svg>", "overlap"),
            (f"{svg}<text x=80 y=30>beyond</text></svg>", "goes beyond the edge"),
            ("<table style='table-layout:fixed;width:40px'><td>unbreakable</table>", "wider than its td"),
            ("<p style='width:30px;overflow-wrap:anywhere'>letters</p>", "broken between its letters"),
            ("<p style='color:#eee'>pale</p>", "hardly differs"),
            ("<p style='width:2000px'>wide</p>", "scrolls sideways"),
        ):
            page = Path(self.folder.name) / "bad.html"
            page.write_text(f"<!doctype html><meta charset=utf-8><title>bad</title>{body}")
            found = layout_problems(self.browser, page, widths=(400,), schemes=("light",))
            self.assertTrue(any(problem in one for one in found), (body, found))
        good = Path(self.folder.name) / "good.html"
        slanted = "".join(
            f"<text font-size=12 transform='translate({10 + 20 * at} 50) rotate(-45)'>label {at}</text>" for at in range(3)
        )
        good.write_text(f"<!doctype html><title>good</title><p>fine</p>{svg}{slanted}</svg>")
        self.assertEqual(layout_problems(self.browser, good), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
