"""Zoom, files and series alone: in the report, and in the pictures of other pages. Needs EBBPOOL and Chromium."""

import csv
import io
import json
import os
import re
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from browser import Browser, downloaded, layout_problems
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

REPORT = next(Path(__file__).parents[1].glob("*/src/report"))
TRACE = "zipf:pages=2000,refs=60000,write-alpha=1.2,write=0.3"
SVG = "{http://www.w3.org/2000/svg}"

# A picture as the pages of experiments have them.
PICTURE = """
<figure><figcaption>Misses of two</figcaption>
<svg class="figure" viewBox="0 0 400 200" width="400" height="200">
  <rect width="400" height="200" fill="#eef"/>
  <g data-series="one"><path d="M20 150L380 50" stroke="#0067b1" fill="none"/></g>
  <g data-series="two"><path d="M20 50L380 150" stroke="#c2470a" fill="none"/></g>
  <g data-series="one"><text x="20" y="190">one</text></g>
  <g data-series="two"><text x="80" y="190">two</text></g>
</svg>
<script type="text/csv">series,x,y
one,1,2
two,1,3
</script></figure>
"""


class ToolsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.folder_path = Path(cls.folder.name)
        cls.page = cls.folder_path / "tools.html"
        command = [os.environ["EBBPOOL"], "compare", TRACE, "--page-size", "8192", "--format", "json", "--report", cls.page]
        done = subprocess.run(command, check=True, capture_output=True)
        cls.results = json.loads(done.stdout)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.cdp("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": cls.folder.name})

    def saved(self, name, click):
        """The bytes of the file of that name which a click saves."""
        path = self.folder_path / name
        path.unlink(missing_ok=True)
        click()
        self.assertTrue(downloaded(path), name)
        return path.read_bytes()

    def chart(self, index):
        chart = self.browser.find(".chart")[index]
        self.browser.run("arguments[0].scrollIntoView({ block: 'center' })", chart)
        self.browser.settle()
        return chart

    def button(self, chart, text):
        figure = chart.find_element("xpath", "..")
        buttons = figure.find_elements("css selector", ".figure-tools button")
        return next(button for button in buttons if button.get_property("textContent") == text)

    def ticks(self, chart):
        """The numbers of the vertical axis."""
        return self.browser.run(
            "return [...arguments[0].querySelectorAll(':scope > svg > text[text-anchor=end]')].map((text) => text.textContent)",
            chart,
        )

    def drag(self, element, begin, end):
        """Drags from one share of an element's width and height to another."""
        box = self.browser.run("return arguments[0].getBoundingClientRect().toJSON()", element)
        at = lambda share: {"x": box["x"] + share[0] * box["width"], "y": box["y"] + share[1] * box["height"]}
        mouse = lambda kind, share, **more: self.browser.cdp("Input.dispatchMouseEvent", {"type": kind, **at(share), **more})
        pressed = {"button": "left", "buttons": 1, "clickCount": 1}
        middle = tuple((a + b) / 2 for a, b in zip(begin, end))
        mouse("mouseMoved", begin)
        mouse("mousePressed", begin, **pressed)
        mouse("mouseMoved", middle, button="left", buttons=1)
        mouse("mouseMoved", end, button="left", buttons=1)
        mouse("mouseReleased", end, button="left", clickCount=1)
        self.browser.settle()

    def test_a_dragged_rectangle_is_enlarged(self):
        browser = self.browser
        browser.open(self.page)
        chart = self.chart(0)
        whole = self.ticks(chart)
        self.assertEqual(whole[0], "0")
        choice = lambda: [option.text for option in browser.find(".part:first-of-type option:checked")]
        chosen = choice()
        # A chart that is drawn anew has new elements.
        over = lambda: chart.find_element("css selector", ".over")
        self.drag(over(), (0.3, 0.1), (0.7, 0.5))
        part = self.ticks(chart)
        self.assertNotEqual(part, whole)
        self.assertGreater(float(part[0]), 0)
        figure = chart.find_element("xpath", "..")
        self.assertIn("Vertical axis from", figure.find_element("css selector", ".cut").text)
        # The end of a drag chooses nothing.
        self.assertEqual(choice(), chosen)
        self.assertEqual(browser.layout_problems(), [])
        ActionChains(browser.driver).double_click(over()).perform()
        browser.settle()
        self.assertEqual(self.ticks(chart), whole)
        # A flat drag enlarges along one axis.
        self.drag(over(), (0.3, 0.5), (0.7, 0.505))
        self.assertEqual(self.ticks(chart), whole)
        self.assertTrue(self.button(chart, "Reset").is_displayed())
        self.button(chart, "Reset").click()
        self.assertFalse(self.button(chart, "Reset").is_displayed())
        self.assertEqual(browser.console(), [])

    def test_keys_buttons_and_the_wheel_zoom(self):
        browser = self.browser
        browser.open(self.page)
        keys = lambda *some: ActionChains(browser.driver).send_keys(*some).perform()
        for index in (0, 4, 5):
            chart = self.chart(index)
            whole = self.ticks(chart)
            browser.run("arguments[0].focus()", chart)
            keys("+", "+")
            closer = self.ticks(chart)
            self.assertNotEqual(closer, whole)
            ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_UP).key_up(Keys.SHIFT).perform()
            self.assertNotEqual(self.ticks(chart), closer)
            keys("0")
            self.assertEqual(self.ticks(chart), whole)
            for button in ("+", "+", "−", "Reset"):
                self.button(chart, button).click()
            self.assertEqual(self.ticks(chart), whole)
            box = browser.run("return arguments[0].querySelector('.over').getBoundingClientRect().toJSON()", chart)
            wheel = {"type": "mouseWheel", "x": box["x"] + 40, "y": box["y"] + 40, "deltaX": 0, "deltaY": -100}
            browser.cdp("Input.dispatchMouseEvent", {**wheel, "modifiers": 2})
            browser.settle()
            self.assertNotEqual(self.ticks(chart), whole)
            self.button(chart, "Reset").click()
            self.assertEqual(self.ticks(chart), whole)
        self.assertEqual(browser.console(), [])

    def test_axes_begin_at_zero_or_say_so(self):
        browser = self.browser
        browser.open(self.page)
        charts = browser.find(".chart")
        for index in range(len(charts)):
            chart = self.chart(index)
            remark = chart.find_element("xpath", "..").find_element("css selector", ".cut").get_property("textContent")
            first = self.ticks(chart)[0]
            self.assertTrue(first.startswith(("0", "−")) and float(re.sub("[^0-9.]", "", first)) == 0 or "ertical" in remark, (index, first, remark))
        # The reader may have them begin there.
        for index in range(len(charts)):
            chart = self.chart(index)
            button = self.button(chart, "From 0")
            if not button.is_displayed():
                continue
            button.click()
            browser.settle()
            self.assertEqual(button.get_attribute("aria-pressed"), "true")
            remark = chart.find_element("xpath", "..").find_element("css selector", ".cut")
            self.assertEqual(remark.get_property("textContent"), "")
            break
        else:
            self.fail("no axis of this report is cut")

    def test_a_chart_is_saved_with_its_legend_and_numbers(self):
        browser = self.browser
        browser.open(self.page)
        chart = self.chart(2)
        name = "bill-against-memory-at-r-32"
        svg = self.saved(f"{name}.svg", self.button(chart, "SVG").click)
        root = xml.fromstring(svg)
        texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        self.assertIn("Bill against memory at R = 32", texts)
        self.assertIn("lru", texts)
        self.assertIn("memory: share, bytes, frames", texts)
        # Every style is in the file: it has no classes, and no colours by name of the page's.
        self.assertNotIn(b"class=", svg)
        self.assertNotIn(b"var(--", svg)
        self.assertNotIn(b"light-dark", svg)
        page = self.folder_path / f"{name}.svg"
        self.assertEqual(layout_problems(browser, page, widths=(1400,), schemes=("light",)), [])
        browser.open(self.page)
        chart = self.chart(2)
        png = self.saved(f"{name}.png", self.button(chart, "PNG").click)
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", png[16:24])
        self.assertEqual((width, height), tuple(2 * int(float(root.get(side))) for side in ("width", "height")))
        self.assertGreater(len(png), 10_000)
        rows = list(csv.DictReader(io.StringIO(self.saved(f"{name}.csv", self.button(chart, "CSV").click).decode())))
        expected = {(row["policy"], row["frames"]): row for row in self.results if row["asymmetry"] == 32}
        self.assertEqual(len(rows), len(expected))
        for row in rows:
            result = expected[row["policy"], int(row["frames"])]
            self.assertEqual(float(row["page reads per reference"]), result["cost"])
            self.assertEqual(int(row["bytes"]), 8192 * result["frames"])
            self.assertEqual((int(row["reads"]), int(row["writes"])), (result["reads"], result["writes"]))
        self.assertEqual(browser.console(), [])

    def test_a_report_says_where_it_is_from(self):
        browser = self.browser
        browser.open(self.page)
        origin = browser.one("footer .origin").text
        self.assertRegex(origin, r"^Made by ebbpool \d+\.\d+\.\d+ on \d{4}-\d\d-\d\d \d\d:\d\d UTC with ebbpool compare zipf:")

    def picture_page(self):
        """A page with a picture and the tools, as another page embeds them."""
        script = "".join((REPORT / name).read_text() for name in ("script/elements.js", "figure/saving.js", "figure/zooming.js", "figure/static.js"))
        style = "figure{margin:0}svg.figure{max-width:100%;height:auto}:root{--rule:#ccc;--paper:#fff;--quiet:#555;--text:#111;--focus:#00f}" + (REPORT / "figure/figure.css").read_text()
        page = self.folder_path / "picture.html"
        page.write_text(
            f"<!doctype html><meta charset=utf-8><title>p</title><style>{style}</style><body>{PICTURE}"
            f'<script>(() => {{"use strict";{script}}})();</script>'
        )
        return page

    def test_a_picture_of_another_page_has_the_tools(self):
        browser = self.browser
        page = self.picture_page()
        browser.open(page)
        self.assertEqual(layout_problems(browser, page), [])
        browser.open(page)
        pale = lambda: browser.run("return [...document.querySelectorAll('.pale')].map((node) => node.dataset.series)")
        entry = browser.find("svg [role=button]")[0]
        entry.click()
        self.assertEqual(pale(), ["two", "two"])
        self.assertEqual(entry.get_attribute("aria-pressed"), "true")
        entry.send_keys(Keys.ENTER)
        self.assertEqual(pale(), [])
        view = lambda: browser.one("svg.figure").get_dom_attribute("viewBox")
        whole = view()
        self.drag(browser.one("svg.figure"), (0.25, 0.25), (0.5, 0.5))
        x, y, width, height = map(float, view().split())
        for value, expected in ((x, 100), (y, 50), (width, 100), (height, 50)):
            self.assertAlmostEqual(value, expected, delta=2)
        self.assertEqual(pale(), [])
        browser.run("document.querySelector('svg.figure').focus()")
        ActionChains(browser.driver).send_keys("0").perform()
        self.assertEqual([float(part) for part in view().split()], [float(part) for part in whole.split()])
        button = lambda text: next(one for one in browser.find(".figure-tools button") if one.get_property("textContent") == text)
        self.assertEqual(self.saved("misses-of-two.csv", button("CSV").click), b"series,x,y\none,1,2\ntwo,1,3\n")
        xml.fromstring(self.saved("misses-of-two.svg", button("SVG").click))
        self.assertEqual(self.saved("misses-of-two.png", button("PNG").click)[:4], b"\x89PNG")
        self.assertEqual(browser.console(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
