"""The report in a browser. Needs EBBPOOL, the path of the command, and Chromium."""

import csv
import io
import json
import math
import os
import re
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser, downloaded, wait_for
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

LONG = "fd-buffer:group=64,interval=auto"
HOSTILE = "</script><script>window.hostile=1</script><img src=x onerror=window.hostile=1>\"'&{{style}}"
SMALL = "zipf:pages=3000,refs=60000,write-alpha=1.2,write=0.3"
HALF_WRITES = "zipf:pages=3000,refs=60000,write=0.5"
FLASH = "flash:slc-mt29f4g08aaa,blocks=64,precondition=steady"
DATA = '<script type="application/json" id="data">'
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"


def report(folder, name, *arguments, command="compare"):
    """Writes a report; gives its path and the results that went to standard output."""
    path = Path(folder) / f"{name}.html"
    command = [os.environ["EBBPOOL"], command, *arguments, "--format", "json", "--report", path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"report: {path}" in done.stderr, done.stderr
    return path, json.loads(done.stdout)


def changed(path, name, change):
    """The report with its data passed through `change`."""
    before, rest = path.read_text().split(DATA)
    data, after = rest.split("</script>", 1)
    data = json.loads(data)
    change(data)
    embedded = json.dumps(data).replace("<", "\\u003c")
    other = path.with_name(name)
    other.write_text(before + DATA + embedded + "</script>" + after)
    return other


def written_bill(cost):
    return f"{cost:.4f}" if cost < 10 else f"{cost:.2f}"


def number(text):
    """The number that a cell of the table shows, or its text."""
    found = re.match(r"[+−]?[\d,.]+", text)
    if not found or re.search("[a-z]", text.split("(")[0]):
        return text
    return float(found[0].replace(",", "").replace("−", "-").replace("+", ""))


class ReportTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        folder = cls.folder.name
        cls.sample, cls.results = report(folder, "sample")
        cls.many, _ = report(
            folder,
            "many",
            "zipf:pages=3000,refs=60000,write-alpha=1.2,write=0.3,seed=11",
            "uniform:pages=2000,refs=30000,write=0.3",
            SMALL,
            "--policies",
            f"all,{LONG},cflru:window=0.25",
        )
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def quiet(self):
        """Nothing was complained of and nothing was loaded."""
        self.assertEqual(self.browser.console(), [])
        self.assertEqual(self.browser.requests(), [])

    def entry(self, policy):
        return self.control(policy, ".entry")

    def colours(self):
        """The colour of each policy."""
        entries = self.browser.run(
            "return [...document.querySelectorAll('#legend li')].map((item) =>"
            "  [item.querySelector('.entry').textContent, getComputedStyle(item.querySelector('line')).stroke])"
        )
        return dict(entries)

    def unmarked(self):
        """Nothing is pointed at or has the focus."""
        self.browser.away()
        self.browser.run("document.activeElement.blur()")
        self.browser.settle()

    def control(self, policy, name):
        """A control of a policy in the list beside its name."""
        control = self.browser.run(
            "const [policy, name] = arguments;"
            "const item = [...document.querySelectorAll('#legend li')].find((item) => item.querySelector('.entry').textContent === policy);"
            "return item.querySelector(name)",
            policy,
            name,
        )
        self.assertIsNotNone(control)
        return control

    def unfold(self, part):
        """Shows the numbers of the first chart in a part of the page; the chart makes their table after the click."""
        part.find_element("css selector", "summary").click()
        table = "details[open] tbody tr"
        self.assertTrue(wait_for(lambda: part.find_elements("css selector", table)), "no table of numbers")
        self.browser.settle()

    def drawn(self):
        """No chart is blank."""
        browser = self.browser
        pixels = browser.pixels()
        self.assertEqual(len(pixels), len(browser.find(".chart")))
        for chart, drawn in enumerate(pixels):
            self.assertGreater(drawn, 1000, f"pixels drawn on chart {chart}")

    def test_sample_is_drawn_and_loads_nothing(self):
        self.assertLess(self.sample.stat().st_size, 1_000_000)
        browser = self.browser
        browser.open(self.sample)
        self.quiet()
        self.assertEqual(len(browser.find(".chart")), 4 + 1 + 2 + 2)
        self.drawn()
        policies = {row["policy"] for row in self.results}
        self.assertEqual({entry.text for entry in browser.find("#legend .entry")}, policies)
        # What is marked lies over the others, so that all of it is seen.
        for entry in browser.find("#legend .entry"):
            browser.run("arguments[0].focus()", entry)
            browser.settle()
            for chart, pixels in enumerate(browser.pixels(entry.text)[:6]):
                self.assertGreater(pixels, 20, f"pixels of {entry.text} in chart {chart}")

    def test_policies_of_one_colour_differ_in_dash_or_shape(self):
        browser = self.browser
        browser.open(self.many)
        looks = browser.run(
            "return JSON.parse(document.getElementById('data').textContent).marks.map((mark) => JSON.stringify(mark))"
        )
        self.assertEqual(len(looks), len(set(looks)))
        self.assertGreaterEqual(len(looks), 15)
        # Those in colour differ in colour, too; the others are grey.
        colours = self.colours()
        bright = [colour for policy, colour in colours.items() if colour != colours["fifo"]]
        self.assertEqual(len(bright), 6)
        self.assertEqual(len(set(bright)), 6)

    def test_legend_hides_isolates_and_colours(self):
        browser = self.browser
        browser.open(self.sample)
        self.unmarked()
        whole = browser.pixels("lru")
        self.control("lru", ".hide").click()
        self.unmarked()
        self.assertEqual(sum(browser.pixels("lru")), 0)
        self.assertNotIn("lru", [name.text for name in browser.find(".ranking tbody th")])
        self.control("lru", ".hide").click()
        self.unmarked()
        self.assertEqual(browser.pixels("lru"), whole)
        # A click on a name leaves that policy alone: the others are pale.
        self.entry("cfdc").click()
        self.unmarked()
        self.assertEqual(self.entry("cfdc").get_attribute("aria-pressed"), "true")
        self.assertEqual(sum(browser.pixels("lru")), 0)
        self.assertTrue(all(browser.pixels("cfdc")[:6]))
        self.entry("cfdc").click()
        self.unmarked()
        self.assertEqual(browser.pixels("lru"), whole)
        # Pointing marks as long as it lasts.
        ActionChains(browser.driver).move_to_element(self.entry("cfdc")).perform()
        browser.settle()
        self.assertEqual(sum(browser.pixels("lru")), 0)
        browser.away()
        self.assertEqual(browser.pixels("lru"), whole)
        # A click on a mark makes a grey line one in colour, and the other way round.
        grey = self.colours()["fifo"]
        self.control("fifo", ".colour").click()
        self.unmarked()
        self.assertNotEqual(self.colours()["fifo"], grey)
        self.assertEqual(len(set(self.colours().values())), 6 + 1 + 1)
        self.assertTrue(all(browser.pixels("fifo")[:6]))
        self.control("lru", ".colour").click()
        self.unmarked()
        self.assertEqual(self.colours()["lru"], grey)
        self.quiet()

    def test_six_lines_are_in_colour(self):
        browser = self.browser
        browser.open(self.many)
        browser.away()
        colours = self.colours()
        grey = max(set(colours.values()), key=list(colours.values()).count)
        bright = {policy for policy, colour in colours.items() if colour != grey}
        self.assertEqual(len(bright), 6)
        self.assertLessEqual({"lru", "ebb"}, bright)
        first = browser.run("return [...document.querySelectorAll('#legend .entry')].slice(0, 6).map((one) => one.textContent)")
        self.assertEqual(set(first), bright)
        # The policy to take is one of them.
        recommended = {name.text for name in browser.find(".answer b")}
        self.assertGreater(len(recommended), 0)
        self.assertLessEqual(recommended, bright)

    def tip(self):
        """The policy and the lines of the box that is open."""
        tips = self.browser.run(
            "return [...document.querySelectorAll('.tip')].filter((tip) => tip.checkVisibility())"
            ".map((tip) => ['.named', 'dt', 'dd'].map((part) =>"
            "  [...tip.querySelectorAll(part)].map((one) => one.textContent)))"
        )
        self.assertEqual(len(tips), 1)
        [[policy], names, values] = tips[0]
        return policy, dict(zip(names, values))

    def check_tip(self):
        policy, lines = self.tip()
        frames = int(re.search(r"([\d,]+) frames", lines["memory"])[1].replace(",", ""))
        row = next(
            row
            for row in self.results
            if (row["policy"], row["frames"], row["asymmetry"]) == (policy, frames, int(lines["R"]))
        )
        self.assertEqual(lines["bill"], written_bill(row["cost"]))
        self.assertEqual(lines["reads"], f"{row['reads']:,}")
        self.assertEqual(lines["writes"], f"{row['writes']:,}")
        self.assertEqual(lines["hit ratio"], f"{100 * row['hit_ratio']:.1f} %")
        return policy, frames

    def test_pointing_shows_the_numbers(self):
        browser = self.browser
        browser.open(self.sample)
        for index, points in [(0, 4), (3, 4), (4, 6)]:
            chart = browser.find(".chart")[index]
            browser.run("arguments[0].scrollIntoView({ block: 'center' })", chart)
            browser.settle()
            over = chart.find_element("css selector", ".over")
            box = browser.run("return arguments[0].getBoundingClientRect().toJSON()", over)
            seen = set()
            for step in range(1, 40):
                for height in (0.2, 0.4, 0.6, 0.8):
                    browser.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] * height)
                    if not browser.run("return arguments[0].querySelector('.tip').hidden", chart):
                        seen.add(self.check_tip())
                if len(seen) >= points:
                    break
            self.assertGreaterEqual(len(seen), points, f"points found in chart {index}")
        browser.away()
        self.assertFalse(any(tip.is_displayed() for tip in browser.find(".tip")))
        self.quiet()

    def test_the_box_leaves_its_point_in_sight(self):
        browser = self.browser
        keys = lambda key: ActionChains(browser.driver).send_keys(key).perform()
        for width in (1280, 400):
            browser.open(self.sample, width)
            for chart in (2, 4, 8):
                browser.run("document.querySelectorAll('.chart')[arguments[0]].focus()", chart)
                for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.END):
                    keys(key)
                    [at, box] = browser.run(
                        "const chart = document.activeElement;"
                        "return ['.cursor', '.tip'].map((one) => chart.querySelector(one).getBoundingClientRect().toJSON())"
                    )
                    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
                    inside = box["left"] < x < box["right"] and box["top"] < y < box["bottom"]
                    self.assertFalse(inside, (width, chart, key))
                    self.assertTrue(0 <= box["left"] and box["right"] <= width, (width, chart, key))
        self.quiet()

    def test_marks_stand_where_the_axes_say(self):
        browser = self.browser
        for width in (1280, 400):
            browser.open(self.sample, width)
            grid, marks = browser.run(
                "const chart = document.querySelectorAll('.chart')[2];"
                "const place = (mark) => { const { e, f } = mark.transform.baseVal[0].matrix; return [e, f]; };"
                "return [chart.querySelector('.grid').getAttribute('d'),"
                "  [...chart.querySelectorAll('.line [transform]')].map(place)];"
            )
            lines = {
                axis: [float(at) for at in re.findall(pattern, grid)]
                for axis, pattern in (("x", r"M([\d.]+) 0V"), ("y", r"M0 ([\d.]+)H"))
            }
            texts = [text["text"] for text in browser.chart_texts()[2]["texts"]]
            heights = [float(text) for text in texts[: len(lines["y"])]]
            sizes = [int(text.replace(",", "")) for text in texts if re.fullmatch(r"[\d,]{5,}", text)]
            self.assertEqual(sizes, [2026, 4053, 8107, 16215])
            self.assertGreater(len(heights), 2)
            along = lambda value, ticks, places: places[0] + (value - ticks[0]) * (places[-1] - places[0]) / (
                ticks[-1] - ticks[0]
            )
            logarithms = [math.log(size) for size in sizes]
            rows = [row for row in self.results if row["asymmetry"] == 32]
            self.assertEqual(len(marks), len(rows))
            for row in rows:
                x = along(math.log(row["frames"]), logarithms, lines["x"])
                y = along(row["cost"], heights, lines["y"])
                away = min(math.hypot(x - mark[0], y - mark[1]) for mark in marks)
                self.assertLess(away, 0.1, row["policy"])

    def test_axes_have_round_numbers(self):
        browser = self.browser
        browser.open(self.sample)
        across = lambda chart: browser.run(
            "return [...document.querySelectorAll('.chart')[arguments[0]]"
            ".querySelectorAll(':scope > svg > text:not([text-anchor=end], [transform])')].map((text) => text.textContent)",
            chart,
        )
        self.assertEqual(
            across(4)[-6:], ["0.30", "0.35", "0.40", "0.45", "0.50", "page reads per reference"]
        )
        self.assertEqual(across(5), ["0", "0.2 M", "0.4 M", "0.6 M", "0.8 M", "1.0 M", "references served"])
        self.assertEqual(across(7), ["0.1 %", "1 %", "10 %", "100 %"])

    def test_points_of_the_trace_s_own_curves(self):
        browser = self.browser
        browser.open(self.sample)
        keys = lambda key: ActionChains(browser.driver).send_keys(key).perform()
        browser.run("document.querySelectorAll('.chart')[8].focus()")
        keys(Keys.ARROW_RIGHT)
        keys(Keys.END)
        said = "hottest pages, of the trace's 100 %, pages 49,604, share of references 100.0 %"
        self.assertEqual(browser.one("#announcer").text, said)
        self.assertEqual(len([tip for tip in browser.find(".tip") if tip.is_displayed()]), 1)
        self.quiet()

    def test_keyboard_reaches_everything(self):
        browser = self.browser
        browser.open(self.sample)
        keys = lambda key: ActionChains(browser.driver).send_keys(key).perform()
        reached = []
        for _ in range(60):
            keys(Keys.TAB)
            here = browser.driver.switch_to.active_element
            outline = browser.run("return getComputedStyle(arguments[0]).outlineStyle", here)
            self.assertNotEqual(outline, "none", f"no visible focus: {here.get_attribute('outerHTML')[:80]}")
            reached += (here.get_attribute("class") or here.tag_name).split()
        for kind in ("skip", "entry", "best", "select", "input", "chart"):
            self.assertIn(kind, reached)
        # The legend: Enter leaves a policy alone, H hides it, C gives it a colour.
        fifo = self.entry("fifo")
        item = lambda: fifo.find_element("xpath", "..").get_attribute("class").split()
        browser.run("arguments[0].focus()", fifo)
        for key, name in ((Keys.ENTER, "pinned"), ("h", "off"), ("c", "grey")):
            before = name in item()
            keys(key)
            self.assertNotEqual(name in item(), before, name)
            keys(key)
            self.assertEqual(name in item(), before, name)
        # A chart: arrows go from point to point and say so, Enter chooses.
        browser.run("document.querySelectorAll('.chart')[0].focus()")
        keys(Keys.ARROW_RIGHT)
        first = self.check_tip()
        keys(Keys.END)
        last = self.check_tip()
        self.assertEqual((first[0], last[0]), ("fifo", "fifo"))
        self.assertLess(first[1], last[1])
        self.assertIn("fifo: memory 6 % (16,215 frames, 127 MiB)", browser.one("#announcer").text)
        keys(Keys.ARROW_DOWN)
        self.assertNotEqual(self.check_tip()[0], "fifo")
        keys(Keys.ENTER)
        chosen = [option.text for option in browser.find(".part:first-of-type select option:checked")]
        self.assertEqual(chosen, ["6 % (16,215 frames, 127 MiB)", "1"])
        keys(Keys.ESCAPE)
        self.assertFalse(any(tip.is_displayed() for tip in browser.find(".tip")))
        self.quiet()

    def test_choosing_a_field_of_the_map(self):
        browser = self.browser
        browser.open(self.sample)
        at = lambda asymmetry, frames: [
            row for row in self.results if (row["asymmetry"], row["frames"]) == (asymmetry, frames)
        ]
        fields = browser.find(".best")
        self.assertEqual(len(fields), 16)
        expected = [
            min(at(asymmetry, frames), key=lambda row: row["cost"])
            for asymmetry in (1, 8, 32, 128)
            for frames in (2026, 4053, 8107, 16215)
        ]
        for field, best in zip(fields, expected):
            self.assertEqual(field.text.splitlines()[0], best["policy"])
        fields[-1].click()
        ranked = sorted(at(128, 16215), key=lambda row: row["cost"])
        rows = [row.text.split() for row in browser.find(".ranking tbody tr")]
        self.assertEqual([row[0] for row in rows], [row["policy"] for row in ranked])
        self.assertEqual([row[1] for row in rows], [written_bill(row["cost"]) for row in ranked])
        self.quiet()

    def test_table_sorts_by_each_column(self):
        browser = self.browser
        browser.open(self.sample)
        heads = browser.find(".results thead button")
        self.assertEqual(len(heads), 9)
        for index, head in enumerate(heads):
            for direction, press in (("ascending", head.click), ("descending", lambda: head.send_keys(Keys.ENTER))):
                press()
                sorted_by = browser.find("[aria-sort]")
                self.assertEqual([th.get_attribute("aria-sort") for th in sorted_by], [direction])
                texts = browser.run(
                    "return [...document.querySelectorAll('.results tbody tr')]"
                    ".map((row) => row.children[arguments[0]].textContent)",
                    index,
                )
                self.assertEqual(len(texts), len(self.results))
                values = [number(text) for text in texts]
                if index == 1:
                    values = [int(re.search(r"([\d,]+) frames", text)[1].replace(",", "")) for text in texts]
                if index > 1:
                    self.assertTrue(all(isinstance(value, float) for value in values), texts[:3])
                self.assertEqual(values, sorted(values, reverse=direction == "descending"))
                if index in (0, 7):
                    self.assertGreater(len(set(values)), 10)
        self.quiet()

    def check_csv(self, text):
        rows = list(csv.DictReader(io.StringIO(text)))
        expected = {(row["policy"], row["frames"], row["asymmetry"]): row for row in self.results}
        self.assertEqual(len(rows), len(expected))
        for row in rows:
            result = expected[row["policy"], int(row["frames"]), int(row["asymmetry"])]
            self.assertEqual(int(row["reads"]), result["reads"])
            self.assertEqual(int(row["writes"]), result["writes"])
            self.assertEqual(int(row["dirty_left"]), result["dirty_left"])
            self.assertEqual(float(row["cost"]), result["cost"])
            self.assertAlmostEqual(float(row["hit_ratio"]), result["hit_ratio"], places=12)

    def test_copying_yields_the_csv_with_and_without_a_clipboard_interface(self):
        browser = self.browser
        for before in (None, NO_CLIPBOARD):
            browser.open(self.sample, before=before)
            self.assertEqual(browser.run("return typeof navigator.clipboard"), "undefined" if before else "object")
            browser.one(".all .controls button").click()
            said = lambda: browser.one(".answer-to-copy").text
            self.assertEqual(wait_for(said), "Copied")
            browser.run(
                "const field = document.createElement('textarea'); field.id = 'pasted';"
                "document.body.append(field); field.focus();"
            )
            ActionChains(browser.driver).key_down(Keys.CONTROL).send_keys("v").key_up(Keys.CONTROL).perform()
            pasted = wait_for(lambda: browser.one("#pasted").get_property("value"))
            self.check_csv(pasted)
            self.quiet()

    def test_download_is_the_csv(self):
        browser = self.browser
        browser.open(self.sample)
        browser.cdp("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.folder.name})
        browser.find(".all .controls button")[1].click()
        path = Path(self.folder.name) / "ebbpool.csv"
        self.assertTrue(downloaded(path))
        self.check_csv(path.read_text())

    def test_no_text_lies_over_another(self):
        browser = self.browser
        for path in (self.sample, self.many):
            for width in (1280, 800, 400):
                browser.open(path, width)
                self.assertEqual(browser.overlaps(), [], f"{path.name} at {width}")
                for chart in browser.chart_texts():
                    self.assertGreater(len(chart["texts"]), 6)
                wide = browser.run("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width)
                self.quiet()

    def test_dark_follows_the_system_and_the_switch(self):
        browser = self.browser
        light = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((part) => part > 200)"
        browser.open(self.sample, scheme="dark")
        self.assertFalse(browser.run(light))
        self.assertTrue(browser.pixels("lru")[4], "charts are drawn in the dark colours")
        switch = browser.one("#appearance")
        switch.click()
        self.assertEqual(switch.text, "Appearance: light")
        self.assertTrue(browser.run(light))
        browser.settle()
        self.assertTrue(browser.pixels("lru")[4], "charts are drawn in the light colours")
        switch.click()
        self.assertEqual(switch.text, "Appearance: dark")
        self.assertFalse(browser.run(light))
        self.quiet()

    def test_prints_light_and_without_controls(self):
        browser = self.browser
        browser.open(self.sample, scheme="dark")
        browser.run("dispatchEvent(new Event('beforeprint'))")
        browser.media("dark", "print")
        browser.settle()
        for selector in ("#appearance", ".controls > :not(.on-paper)", "details", ".tip"):
            self.assertFalse(any(found.is_displayed() for found in browser.find(selector)), selector)
        self.assertTrue(browser.pixels("lru")[4], "charts are drawn in the light colours")
        self.assertEqual(browser.one(".on-paper").text, "At 3 % (8,107 frames, 63.3 MiB) and R = 32")
        ink = browser.run("return getComputedStyle(document.querySelector('h2')).color")
        self.assertTrue(all(int(part) < 130 for part in re.findall(r"\d+", ink)[:3]), ink)
        inside = browser.run(
            "const page = document.querySelector('.page').getBoundingClientRect();"
            "return [...document.querySelectorAll('.chart > svg')].every((chart) =>"
            "  chart.getBoundingClientRect().right <= page.right) && page.width"
        )
        self.assertEqual(inside, 700, "charts are no wider than the paper")
        browser.run("dispatchEvent(new Event('afterprint'))")
        browser.media("dark")
        browser.settle()
        self.assertFalse(browser.run("return document.documentElement.hasAttribute('data-printing')"))
        # The real thing raises its own events.
        pdf = browser.cdp("Page.printToPDF", {})["data"]
        self.assertGreater(len(pdf), 50_000)
        self.quiet()

    def test_hostile_names_are_inert(self):
        folder = Path(self.folder.name)
        references = [7 * at % 50 << 1 | (at % 3 == 0) for at in range(5000)]
        trace = folder / "hostile.u32"
        trace.write_bytes(struct.pack(f"<{len(references)}I", *references))
        details = {"name": HOSTILE, "page_size": 4096, "database_pages": 100}
        trace.with_suffix(".json").write_text(json.dumps(details))
        path, _ = report(folder, "hostile", str(trace), "--frames", "10,20")

        def rename(data):
            policies = data["traces"][0]["policies"]
            policies[0] = HOSTILE
            policies[1] = "__proto__"

        browser = self.browser
        for page in (path, changed(path, "hostile-policy.html", rename)):
            browser.open(page)
            self.quiet()
            self.assertIsNone(browser.run("return window.hostile ?? null"))
            self.assertEqual(browser.find("img"), [])
            self.assertEqual(browser.one(".trace h2").text, HOSTILE)
            self.drawn()
        names = {entry.get_property("textContent") for entry in browser.find("#legend .entry")}
        self.assertLessEqual({HOSTILE, "__proto__"}, names)

    def test_script_that_is_not_the_report_s_does_not_run(self):
        text = self.sample.read_text().replace("</main>", "</main><script>window.hostile=1</script>")
        other = self.sample.with_name("injected.html")
        other.write_text(text)
        self.browser.open(other)
        self.assertIsNone(self.browser.run("return window.hostile ?? null"))
        self.assertIn("Content Security Policy", "".join(self.browser.console()))

    def test_one_of_each(self):
        one = ("--frames", "300", "--asymmetry", "8", "--policies")
        path, rows = report(self.folder.name, "one", SMALL, *one, "fd-buffer")
        browser = self.browser
        browser.open(path)
        self.quiet()
        self.drawn()
        self.assertEqual(browser.overlaps(), [])
        self.assertTrue(all(browser.pixels("fd-buffer")[:4]))
        self.assertEqual(browser.one(".best").text.split(), ["fd-buffer", written_bill(rows[0]["cost"])])

    def test_three_traces(self):
        browser = self.browser
        browser.open(self.many)
        self.quiet()
        self.assertEqual(len(browser.find(".trace")), 3)
        self.assertEqual(len(browser.find(".chart")), 3 * (4 + 1 + 2 + 2))
        self.drawn()
        # The page begins with what holds for all of them, the best policy first.
        summary = browser.one("#results > section:first-child")
        self.assertEqual(summary.get_attribute("id"), "all-traces")
        rows = summary.find_elements("css selector", "tbody tr")
        best = rows[0].find_element("css selector", "th").text
        self.assertTrue(summary.find_element("css selector", ".answer").text.startswith(f"{best} is the "))
        self.assertEqual(summary.find_element("css selector", ".answer b").text, best)
        # A choice is one trace's own.
        choice = lambda: [
            [option.text for option in trace.find_elements("css selector", ".part:first-of-type option:checked")]
            for trace in browser.find(".trace")
        ]
        before = choice()
        browser.find(".trace")[1].find_elements("css selector", ".best")[0].click()
        after = choice()
        self.assertEqual((before[0], before[2]), (after[0], after[2]))
        self.assertNotEqual(before[1], after[1])

    def test_missing_results_are_left_out(self):
        def thin(data):
            trace = data["traces"][0]
            lru = trace["policies"].index("lru")
            chosen = trace["sizes"].index(next(size for size in trace["sizes"] if size["text"] == "3%"))
            results = [result for at, result in enumerate(trace["results"]) if at % 3 and result[0] != lru]
            # Nothing at all at one size and asymmetry; no time line for some.
            results = [result for result in results if (result[1], result[2]) != (0, 0)]
            trace["results"] = [[*result[:6], None if at % 5 == 0 else result[6]] for at, result in enumerate(results)]
            trace["results"] = [result for result in trace["results"] if (result[1], result[2]) != (chosen, 1)]

        def empty(data):
            data["traces"][0].update(results=[], times=[], time_lines=[])

        browser = self.browser
        browser.open(changed(self.sample, "thin.html", thin))
        self.drawn()
        for field in browser.find(".best"):
            field.click()
        browser.find("input[type=radio]")[1].click()
        self.entry("cfdc").click()
        self.quiet()
        browser.open(changed(self.sample, "empty.html", empty))
        browser.find(".best")[0].click()
        self.quiet()

    def test_what_the_trace_is_like(self):
        browser = self.browser
        browser.open(self.sample)
        command = [os.environ["EBBPOOL"], "trace", "info", "lab/ebbpool-trace/traces/pg-tpcc.parquet", "--format", "json"]
        info = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        section = next(
            part for part in browser.find("section.part") if part.text.startswith("The trace itself")
        )
        for shown in (f"{100 * info['write_ratio']:.1f} %", f"{info['pages_only_read']:,}"):
            self.assertIn(shown, section.text)
        curves = section.find_elements("css selector", "figure")
        self.assertEqual(len(curves), 2)
        for figure, name in zip(curves, ("lru_hit_ratio", "popularity")):
            line = figure.find_element("css selector", ".course").get_attribute("d")
            self.assertEqual(line.count("L") + 1, len(info[name]["points"]))
            self.unfold(figure)
            last = figure.find_elements("css selector", "tbody tr")[-1].text
            self.assertIn(f"{100 * info[name]['points'][-1]['share']:.1f} %", last)
        self.quiet()

    def section(self, title):
        found = [part for part in self.browser.find("section.part") if part.text.startswith(title)]
        return found[0] if found else None

    def on_device(self, name, device, *more):
        arguments = ("--frames", "1%,3%,10%", "--policies", "lru,cflru:window=1,fd-buffer,fifo")
        path, rows = report(self.folder.name, name, HALF_WRITES, *arguments, "--device", device, *more)
        self.browser.open(path)
        return path, {(row["policy"], row["frames"]): row for row in rows}

    def test_a_flash_device_wears_and_lives(self):
        browser = self.browser
        # The intervals have no part of what the end writes.
        path, rows = self.on_device("flash", FLASH, "--at-end", "free")
        self.quiet()
        self.assertEqual(len(browser.find(".chart")), 1 + 1 + 2 + 4 + 2 + 2)
        self.drawn()
        times = rows["lru", 90]["programs"] / rows["cflru:window=1", 90]["programs"]
        answers = [answer.text for answer in browser.find(".answer")]
        self.assertRegex(answers[0], "^[a-z].* is the (cheapest in|best choice over) all ")
        self.assertTrue(answers[1].startswith("On this device and with 3 % of the database "), answers)
        expected = f"cflru:window=1 makes this device live {times:.1f} times as long as lru"
        self.assertTrue(any(expected in answer for answer in answers), answers)
        wear = self.section("Wear and lifetime")
        heads = [head.text.replace("\n", " ") for head in wear.find_elements("css selector", ".wear thead th")]
        shown = {}
        for row in wear.find_elements("css selector", ".wear tbody tr"):
            cells = [cell.text.replace("\n", "") for cell in row.find_elements("css selector", "th, td")]
            shown[cells[0]] = dict(zip(heads, cells))
        self.assertEqual(set(shown), {policy for policy, _ in rows})
        for policy, figures in shown.items():
            row = rows[policy, 90]
            self.assertEqual(figures["time, µs"], written_bill(row["cost_us"]))
            for head, field in (
                ("reads", "reads"),
                ("writes", "writes"),
                ("pages programmed", "programs"),
                ("blocks erased", "erases"),
            ):
                self.assertEqual(figures[head], f"{row[field]:,}", (policy, head))
            amplification = row["write_amplification"]
            self.assertEqual(figures["write amplification"], "–" if amplification is None else f"{amplification:.3f}")
            life = rows["lru", 90]["programs"] / row["programs"]
            self.assertEqual(figures["life of the device"], f"× {life:.2f}")
        # Another memory size is another table.
        browser.find(".best")[0].click()
        first = wear.find_element("css selector", ".wear tbody tr").text
        least = min((row for row in rows.values() if row["frames"] == 30), key=lambda row: row["programs"])
        self.assertIn(f"{least['programs']:,}", first)
        # No R to choose: the device has its own.
        labels = [label.text.split()[0] for label in browser.find(".controls label")]
        self.assertNotIn("R", labels)
        for width in (1280, 800, 400):
            browser.open(path, width)
            self.assertEqual(browser.overlaps(), [], width)
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)
        # What the intervals took adds up to what the whole took.
        browser.open(path)
        over_time = self.section("Over time")
        self.unfold(over_time)
        total, counted = 0, 0
        for cells in browser.rows("figure tbody tr", over_time):
            policy, interval, time = cells[:3]
            if policy == "lru":
                begin, end = [int(part.replace(",", "")) for part in interval.split(" to ")]
                total += float(time) * (end - begin)
                counted += end - begin
        self.assertEqual(counted, 60000)
        self.assertAlmostEqual(total / counted, rows["lru", 90]["cost_us"], delta=0.1)
        self.quiet()

    def test_a_policy_has_the_same_colour_on_every_device(self):
        browser = self.browser
        marks = []
        for name, device in (("flash-colours", FLASH), ("named-colours", "nvme-dc-9200")):
            self.on_device(name, device)
            marks.append(self.colours())
        self.assertEqual(marks[0], marks[1])

    def test_a_named_device_has_times_and_energy(self):
        browser = self.browser
        _, rows = self.on_device("named", "nvme-dc-9200")
        self.quiet()
        self.assertIsNone(self.section("Wear and lifetime"))
        memory = self.section("Time against memory")
        switches = memory.find_elements("css selector", "input[type=radio]")
        self.assertEqual(len(switches), 3)
        switches[-1].click()
        self.unfold(memory)
        shown = {tuple(cells) for cells in browser.rows("tbody tr", memory)}
        energies = {
            (policy, written_bill(row["cost_us"]), f"{written_bill(1e3 * row['joules_per_reference'])} mJ")
            for (policy, _), row in rows.items()
        }
        self.assertEqual({(cells[0], cells[2], cells[5]) for cells in shown}, energies)
        browser.cdp("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.folder.name})
        (Path(self.folder.name) / "ebbpool.csv").unlink(missing_ok=True)
        browser.find(".all .controls button")[1].click()
        saved = Path(self.folder.name) / "ebbpool.csv"
        self.assertTrue(downloaded(saved))
        saved_rows = list(csv.DictReader(io.StringIO(saved.read_text())))
        self.assertEqual(len(saved_rows), len(rows))
        for row in saved_rows:
            result = rows[row["policy"], int(row["frames"])]
            self.assertAlmostEqual(float(row["cost_us"]) / result["cost_us"], 1, places=12)
            self.assertEqual(float(row["joules_per_reference"]), result["joules_per_reference"])
        saved.unlink()
        self.quiet()

    def test_what_a_device_bears_in_a_day(self):
        browser = self.browser
        _, rows = self.on_device("day", "sd-a1", "--rate", "200", "--page-size", "8192")
        self.quiet()
        title = "What the device bears in a day"
        figures = lambda: self.figures_of(self.section(title))
        note = self.section(title).find_element("css selector", ".note").text
        terabytes = float(re.search(r"takes ([\d.]+) TB", note)[1])
        shown = figures()
        self.assertEqual(set(shown), {policy for policy, _ in rows})
        for policy, its in shown.items():
            row = rows[policy, 90]
            written = row["writes"] * 8192 * 200 * 86400 / row["references"] / 1e6
            self.assertAlmostEqual(number(its["MB written a day"]) / written, 1, delta=0.005, msg=policy)
            years = terabytes * 1e6 / written / 365
            self.assertAlmostEqual(float(its["years of life"]) / years, 1, delta=0.005, msg=policy)
            watts = row["joules_per_reference"] * 200
            self.assertAlmostEqual(float(its["watts"]) / watts, 1, delta=0.005, msg=policy)
            busy = 100 * row["cost_us"] * 200 / 1e6
            self.assertAlmostEqual(float(its["busy, %"]) / busy, 1, delta=0.005, msg=policy)
        # Twice the rate, half the life; at a rate that is too high, and at none, the page says so.
        rate = self.section(title).find_element("css selector", ".rate")
        write = lambda text: rate.clear() or rate.send_keys(text)
        write("400")
        for policy, its in figures().items():
            self.assertAlmostEqual(2 * float(its["years of life"]) / float(shown[policy]["years of life"]), 1, delta=0.01)
        write("1000000")
        self.assertIn("does not keep up", self.section(title).text)
        write("")
        self.assertIn("MB written per million references", figures()["lru"])
        self.assertIn("in a second is not known", self.section(title).text)
        self.quiet()

    def figures_of(self, section):
        """The table of a section: for each policy its figures by name."""
        cells = lambda row: [cell.text.replace("\n", " ") for cell in row.find_elements("css selector", "th, td")]
        head, *rows = [cells(row) for row in section.find_elements("css selector", ".wear tr")]
        return {row[0].replace(" ", ""): dict(zip(head, row)) for row in rows}

    def test_a_price(self):
        _, rows = self.on_device("price", "s3-standard")
        texts = [text["text"] for chart in self.browser.chart_texts() for text in chart["texts"]]
        self.assertIn("$ per million references", texts)
        ranked = sorted((row for row in rows.values() if row["frames"] == 90), key=lambda row: row["cost"])
        shown = [row.text.split()[1] for row in self.browser.find(".ranking tbody tr")]
        self.assertEqual(shown, [written_bill(1e6 * row["dollars_per_reference"]) for row in ranked])
        self.quiet()

    def test_sizes_of_as_many_frames_and_equal_asymmetries_are_one(self):
        browser = self.browser
        # 3 % of 3,000 pages are 90.
        again = ("--frames", "90,10%,3%", "--asymmetry", "8,1,8.0", "--policies", "lru,cflru,casa")
        path, _ = report(self.folder.name, "again", HALF_WRITES, *again)
        browser.open(path)
        self.quiet()
        self.assertEqual(len(browser.find(".map thead th")), 2)
        self.assertEqual([head.text for head in browser.find(".map tbody th")], ["R = 1", "R = 8"])
        self.assertEqual([field.get_attribute("aria-pressed") for field in browser.find(".best")].count("true"), 1)

    def test_asymmetries_that_change(self):
        browser = self.browser
        changing = ("--frames", "3%,10%", "--asymmetry", "rm1:base=25,8,rm2", "--policies", "lru,cflru,casa")
        path, rows = report(self.folder.name, "changing", HALF_WRITES, *changing)
        browser.open(path)
        self.quiet()
        heads = [head.text.replace("\n", "") for head in browser.find(".map tbody th")]
        self.assertEqual(heads, ["R = 8", "R = rm1:base=25", "R = rm2"])
        browser.find(".best")[2].click()
        ranked = [row for row in rows if row.get("asymmetry_changes") == "rm1:base=25" and row["frames"] == 90]
        ranked.sort(key=lambda row: row["cost"])
        shown = [row.text.split()[1] for row in browser.find(".ranking tbody tr")]
        self.assertEqual(shown, [written_bill(row["cost"]) for row in ranked])
        for width in (1280, 400):
            browser.open(path, width)
            self.assertEqual(browser.overlaps(), [], width)
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)
        self.quiet()

    def test_a_device_that_fails_wins_nothing(self):
        browser = self.browser
        chip = Path(self.folder.name) / "weak.toml"
        chip.write_text(
            'name = "weak"\npage_bytes = 2048\npages_per_block = 16\nblocks = 64\nread_us = [25.0]\n'
            'program_us = [220.0]\nerase_us = 1500.0\ntransfer_ns_per_byte = 25.0\nendurance = 60\n'
            'source = "made to wear out"\n'
        )
        trace = "zipf:pages=600,refs=120000,write=0.5"
        arguments = ("--frames", "5%", "--policies", "lru,cflru:window=1", "--device", f"flash:{chip}")
        path, _ = report(self.folder.name, "weak", trace, *arguments)
        browser.open(path)
        self.quiet()
        self.drawn()
        self.assertIn("lifetimes cannot be compared", browser.find(".answer")[1].text)
        self.assertEqual(browser.one(".best b").text.replace("\n", ""), "cflru:window=1")
        self.assertEqual(len(browser.find(".ranking tbody tr")), 1)
        wear = self.section("Wear and lifetime")
        self.assertIn("1 of 2 results", wear.find_element("css selector", ".note").text)
        failed = [row.text for row in browser.find(".wear tbody tr") if row.text.startswith("lru")]
        self.assertIn("worn out", failed[0])
        self.assertEqual(browser.overlaps(), [])
        self.quiet()

    def test_numbers_of_a_chart_as_a_table(self):
        browser = self.browser
        browser.open(self.sample)
        self.unfold(browser.one("body"))
        rows = browser.rows("figure:first-of-type details[open] tbody tr")
        expected = [row for row in self.results if row["asymmetry"] == 1]
        self.assertEqual(len(rows), len(expected))
        cells = {(row["policy"], written_bill(row["cost"]), f"{row['writes']:,}") for row in expected}
        self.assertEqual({(row[0], row[3], row[5]) for row in rows}, cells)
        self.quiet()

    def test_curves_show_lru_at_every_size_and_errors_of_others(self):
        path, results = report(
            self.folder.name,
            "curve",
            "zipf:pages=30000,refs=200000,write=0.3",
            "--policies",
            "lru,cflru",
            "--sample",
            "10%",
            "--target",
            "writes -50%",
            command="curve",
        )
        browser = self.browser
        browser.open(path)
        titles = [title.text for title in browser.find(".part h3")]
        self.assertIn("Bill, reads and writes against memory", titles)
        self.assertNotIn("Over time", titles)
        self.drawn()
        across = [text["text"] for text in browser.chart_texts()[0]["texts"]]
        self.assertEqual([text for text in across if text in ("1", "100", "10 k")], ["1", "100", "10 k"])
        self.assertIn("cflru needs", browser.find(".answer")[0].text)
        section = next(part for part in browser.find(".part") if part.text.startswith("Bill, reads"))
        writes = section.find_elements("css selector", "figure")[2]
        self.unfold(writes)
        rows = browser.rows("details[open] tbody tr", writes)
        lru = [row for row in rows if row[0] == "lru"]
        self.assertGreater(len(lru), 100)
        self.assertEqual({row[3] for row in lru}, {"exact"})
        sampled = [row for row in results if row["method"] == "sampled" and row["policy"] == "cflru"]
        # The memory that the target needs is one of the sizes, and chosen at first.
        [least] = [row["frames"] for row in sampled if row["target"] is not None]
        self.assertEqual(browser.one(".part select option:checked").text, f"{least:,} frames")
        self.assertEqual({row.text.split()[0] for row in browser.find(".ranking tbody tr")}, {"lru", "cflru"})
        shown = {(row[1], row[3]) for row in rows if row[0] == "cflru" and row[3] != "exact"}
        expected = {(f"{row['frames']:,} frames", f"± {100 * row['error_writes']:.1f} %") for row in sampled}
        self.assertEqual(shown, expected)
        self.quiet()


if __name__ == "__main__":
    unittest.main(verbosity=2)
