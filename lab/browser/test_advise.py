"""The page of an advice. Needs EBBPOOL, the path of the command, and Chromium."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser, layout_problems

TRACE = "zipf:pages=2000,refs=60000,write-alpha=1.2,write=0.3"
OF_A_SERVER = (
    *("--page-size", "8192", "--server", "postgresql", "--frames", "512KiB", "--memory-budget", "4MiB"),
    *("--device", "sd-a1", "--duration", "2h", "--life", "5y"),
)

# Texts of tables and commands, as far as they can be seen, whose boxes go beyond the window.
CUT = """
return [...document.querySelectorAll(".stack span, .commands span, .tile p, .answer, .note")]
  .filter((part) => {
    const box = part.getBoundingClientRect();
    return box.width > 0 && (box.left < 0 || box.right > document.documentElement.clientWidth);
  })
  .map((part) => part.textContent);
"""


class AdviceTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def advise(self, name, *arguments):
        path = Path(self.folder.name) / f"{name}.html"
        command = [os.environ["EBBPOOL"], "advise", *arguments, "--no-cache", "--report", path]
        subprocess.run(command, check=True, capture_output=True)
        return path

    def texts(self, selector):
        return [found.text for found in self.browser.find(selector)]

    def test_the_page_has_what_an_operator_shows(self):
        page = self.advise("server", TRACE, *OF_A_SERVER)
        self.browser.open(page)
        self.assertEqual(self.browser.console(), [])
        self.assertEqual(self.browser.requests(), [])
        self.assertEqual(self.browser.driver.title, f"Advice on {TRACE} - Ebbpool")
        self.assertRegex(self.texts(".answer")[0], r"^Set shared_buffers = \d+MB \(now 512kB\): reads -\d+ %")
        tiles = self.texts(".tile h2")
        for name in ("page reads a second", "page writes a second", "written a day", "life of the device"):
            self.assertIn(name, tiles)
        self.assertTrue(all("now " in text for text in self.texts(".tile .now")))
        series = self.texts("figure .broad [data-series]")
        for mark in ("now: shared_buffers = 512kB", "then: shared_buffers = "):
            self.assertTrue(any(text.startswith(mark) for text in series), (mark, series))
        self.assertEqual(self.texts(".mark"), ["now", "then"])
        self.assertGreater(len(self.texts(".warnings [role=note]")), 0)
        origin = self.texts(".origin")[0]
        self.assertRegex(origin, r"ebbpool \d+\.\d+\.\d+ on \d{4}-\d\d-\d\d \d\d:\d\d UTC with ebbpool advise")

    def test_nothing_is_cut_on_a_narrow_screen(self):
        page = self.advise("narrow", TRACE, *OF_A_SERVER)
        for scheme in ("light", "dark"):
            self.browser.open(page, 400, scheme)
            self.assertEqual(self.browser.run(CUT), [])
            self.assertTrue(self.browser.one("figure .narrow svg").is_displayed())
            self.assertFalse(self.browser.one("figure .broad svg").is_displayed())
            rows = self.browser.find(".stack tbody tr:first-child td")
            self.assertTrue(all(cell.is_displayed() for cell in rows))

    def test_below_a_cache_the_page_is_about_the_writes_of_the_device(self):
        trace = Path(self.folder.name) / "disk.spc"
        lines = (f"0,{8 * (at * at % 1013)},4096,{'wr'[at % 2]},{at / 100}\n" for at in range(9000))
        trace.write_text("".join(lines))
        page = self.advise("disk", trace, "--page-size", "4096", "--device", "sd-a1")
        self.browser.open(page)
        self.assertIn("its writes are those of the device", self.texts(".answer")[0])
        self.assertIn("without a cache", self.texts("figure .broad [data-series]"))
        self.assertEqual(self.texts(".mark"), ["then"])
        self.assertEqual(layout_problems(self.browser, page), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
