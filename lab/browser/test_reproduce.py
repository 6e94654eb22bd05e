"""The page of `ebbpool reproduce` in a browser. Needs EBBPOOL, the path of the command, and Chromium."""

import csv
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import unquote, urlparse

from browser import LOOKS, Browser, layout_problems, wait_for
from selenium.webdriver.common.keys import Keys

# Quick ones with bars, lines, long names, several panels, courses over time, and no figure at all.
EXPERIMENTS = [
    "cikm-table1",
    "cikm-table2",
    "cikm-equation4",
    "cikm-fig2",
    "cikm-fig11",
    "adlru-fig11",
    "ppe-fig2-flash",
    "cfdc-fig3",
]
VISIBLE = """
const shown = (node) => node.checkVisibility({ visibilityProperty: true });
return [...document.querySelectorAll(arguments[0])].filter(shown).map((node) => node.id || node.textContent.trim());
"""
COLOURS = """
return [...document.querySelectorAll("svg.figure")].filter((svg) => svg.checkVisibility()).map((svg) => {
  const colour = (node) => getComputedStyle(node).color;
  const entries = [...svg.querySelectorAll("[data-series]")].filter((node) => node.querySelector("text"));
  return {
    paper: colour(svg.querySelector(".paper")),
    series: entries.map((entry) => [entry.dataset.series, colour(entry.firstElementChild)]),
  };
});
"""


class ReproduceTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        command = [os.environ["EBBPOOL"], "reproduce", *EXPERIMENTS, "--no-cache", "--out", cls.folder]
        subprocess.run(command, check=True, capture_output=True)
        cls.page = cls.folder / "index.html"
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def visible(self, selector):
        return self.browser.run(VISIBLE, selector)

    def choose(self, value):
        self.browser.one(f"#filter input[value={value}]").send_keys(Keys.SPACE)
        self.browser.settle()

    def test_texts_have_room_at_all_widths_light_and_dark(self):
        for widths, schemes in LOOKS:
            self.assertEqual(layout_problems(self.browser, self.page, widths, schemes), [])

    def test_files_of_figures_have_room_for_their_texts(self):
        problems = []
        for picture in sorted(self.folder.glob("*.svg")):
            problems += layout_problems(self.browser, picture, widths=(1400,))
        self.assertEqual([problem for problem in problems if "sideways" not in problem], [])

    def test_figures_follow_the_appearance_and_their_series_differ(self):
        papers = {}
        for scheme in ("light", "dark"):
            self.browser.open(self.page, 1400, scheme)
            figures = self.browser.run(COLOURS)
            self.assertGreaterEqual(len(figures), 9)
            papers[scheme] = {figure["paper"] for figure in figures}
            for figure in figures:
                colours = [colour for _, colour in figure["series"]]
                self.assertEqual(len(set(colours)), len(colours), figure)
        self.assertEqual(len(papers["light"]), 1)
        self.assertEqual(len(papers["dark"]), 1)
        self.assertNotEqual(papers["light"], papers["dark"])

    def test_figures_are_beside_their_claims(self):
        self.browser.open(self.page, 1400)
        box = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
        figure, claim = (self.browser.run(box, f"#cikm-fig2 {part}") for part in ("figure", ".claims li"))
        self.assertGreater(claim["left"], figure["right"])
        self.assertLess(claim["top"], figure["bottom"])
        self.browser.open(self.page, 400)
        figure, claim = (self.browser.run(box, f"#cikm-fig2 {part}") for part in ("figure", ".claims li"))
        self.assertGreater(claim["top"], figure["bottom"])
        self.assertGreater(claim["width"], 360)

    def test_contents_lead_to_every_experiment(self):
        self.browser.open(self.page, 1400)
        self.assertEqual(self.visible("main > section"), EXPERIMENTS)
        links = self.browser.find("#contents a")
        self.assertEqual([link.get_attribute("href").partition("#")[2] for link in links], EXPERIMENTS)
        links[-1].click()
        top = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
        self.assertTrue(wait_for(lambda: 0 <= self.browser.run(top, EXPERIMENTS[-1]) < 900))

    def test_filters_by_paper_and_by_verdict_with_the_keyboard(self):
        self.browser.open(self.page, 1400)
        claims = self.visible(".claims > li")
        self.choose("adlru")
        self.assertEqual(self.visible("main > section"), ["adlru-fig11"])
        self.assertEqual(len(self.visible("#contents li")), 1)
        self.choose("cikm")
        self.assertEqual(len(self.visible("main > section")), 6)
        self.choose("not")
        some = self.visible("main > section")
        self.assertIn("cikm-fig2", some)
        self.assertTrue(2 <= len(some) < 6, some)
        verdicts = self.visible(".claims > li .verdict")
        self.assertEqual(set(verdicts), {"does not hold"})
        self.assertEqual(self.browser.one("#shown").text, f"Shown: {len(verdicts)} claims of {len(some)} experiments.")
        self.browser.one("#filter button[type=reset]").send_keys(Keys.ENTER)
        self.assertTrue(wait_for(lambda: self.visible(".claims > li") == claims))
        # A link to an experiment that the filter hides shows it.
        self.choose("cfdc")
        self.assertEqual(self.visible("main > section"), ["cfdc-fig3"])
        self.browser.run("location.hash = 'cikm-table2'")
        self.assertTrue(wait_for(lambda: "cikm-table2" in self.visible("main > section")))

    def test_without_scripts_everything_is_in_sight(self):
        self.browser.cdp("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            self.browser.driver.get(self.page.as_uri())
            sections = self.browser.find("main > section")
            self.assertEqual([section.get_attribute("id") for section in sections], EXPERIMENTS)
            self.assertTrue(all(section.is_displayed() for section in sections))
            self.assertFalse(self.browser.one("#filter").is_displayed())
        finally:
            self.browser.cdp("Emulation.setScriptExecutionDisabled", {"value": False})

    def test_links_give_each_figure_as_svg_and_its_data_as_csv(self):
        self.browser.open(self.page, 1400)
        figures = self.browser.find("figure")
        self.assertGreaterEqual(len(figures), 9)
        for figure in figures:
            links = figure.find_elements("css selector", "a[download]")
            picture, data = (Path(unquote(urlparse(link.get_attribute("href")).path)) for link in links)
            root = ElementTree.parse(picture).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            rows = list(csv.reader(data.read_text().splitlines()))
            self.assertGreater(len(rows), 2)
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})
            # The figure's own numbers are in the page.
            script = figure.find_element("css selector", "script[type='text/csv']")
            own = list(csv.reader(script.get_attribute("textContent").splitlines()))
            self.assertIn("series", own[0])
            self.assertGreater(len(own), 2)

    def test_figures_have_tools(self):
        self.browser.open(self.page, 1400)
        figure = "#cikm-equation4 .broad"
        view = lambda: self.browser.one(f"{figure} svg.figure").get_dom_attribute("viewBox")
        whole = view()
        self.browser.one(f"{figure} .figure-tools button").click()
        self.assertNotEqual(view(), whole)
        # The entries of the legend are the only stops of the Tab key in a picture.
        entries = self.browser.find(f"{figure} svg [tabindex='0']")
        self.assertEqual([entry.get_attribute("data-series") for entry in entries], ["as printed", "exact", "best static"])
        entries[1].send_keys(Keys.ENTER)
        pale = self.browser.find(f"{figure} .pale")
        self.assertEqual({node.get_attribute("data-series") for node in pale}, {"as printed", "best static"})
        names = [button.text for button in self.browser.find(f"{figure} .figure-tools .save ~ button")]
        self.assertEqual(names, ["SVG", "PNG", "CSV"])
        self.assertEqual(self.browser.console(), [])

    def test_no_backtick_is_in_sight(self):
        self.browser.open(self.page, 1400)
        self.assertNotIn("`", self.browser.run("return document.body.innerText"))
        self.assertTrue(self.browser.find(".claims code"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
