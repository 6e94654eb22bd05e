"""Chromium without a window, and the questions of the pages' tests.

As a program it checks the layout of pages: `python lab/browser/browser.py PAGE.html...` prints what is wrong with
them, at 400 and at 1400 pixels, light and dark, and fails if anything is.
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-gpu-rasterization",
    # Containers may have little shared memory, without which a page crashes.
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

WIDTHS = (400, 1400)
SCHEMES = ("light", "dark")
WHOLE = "EBBPOOL_WHOLE" in os.environ
# Colours do not move texts: without EBBPOOL_WHOLE each page is looked at once narrow and once wide, once light and once dark.
LOOKS = [(WIDTHS, SCHEMES)] if WHOLE else [(WIDTHS[:1], SCHEMES[:1]), (WIDTHS[1:], SCHEMES[1:])]

# What is wrong with the layout of the page at hand.
LAYOUT = (Path(__file__).parent / "layout.js").read_text()

# The pictures of a page, which have texts of their own.
PICTURES = """
return [...document.images].map((image) => image.src).filter((source) => /^file:.*\\.svg$/.test(source));
"""

# The boxes of all text on the page that can be seen, line by line, cut to what scrolls around it.
PAGE_TEXTS = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const parent = node.parentElement;
  if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true })) continue;
  if (parent.closest(".unseen, .skip, option, script, style, noscript")) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const frame = parent.closest("aside, .scroll")?.getBoundingClientRect();
  for (const box of range.getClientRects()) {
    const left = Math.max(box.left, frame?.left ?? -Infinity);
    const top = Math.max(box.top, frame?.top ?? -Infinity);
    const right = Math.min(box.right, frame?.right ?? Infinity);
    const bottom = Math.min(box.bottom, frame?.bottom ?? Infinity);
    if (left < right && top < bottom) found.push({ text: node.data.trim(), box: [left, top, right, bottom] });
  }
}
return found;
"""

CHART_TEXTS = """
return [...document.querySelectorAll(".chart > svg")].map((picture) => {
  const frame = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text")].map((text) => {
    const box = text.getBoundingClientRect();
    return {
      text: text.textContent,
      box: [box.left - frame.left, box.top - frame.top, box.right - frame.left, box.bottom - frame.top],
    };
  });
  return { width: frame.width, height: frame.height, texts };
});
"""

# Where all charts are on the page.
CHARTS_BOX = """
const boxes = [...document.querySelectorAll(".chart")].map((chart) => chart.getBoundingClientRect());
const [x, y] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))].map(Math.floor);
return {
  x: x + scrollX,
  y: y + scrollY,
  width: Math.ceil(Math.max(...boxes.map((box) => box.right))) - x,
  height: Math.ceil(Math.max(...boxes.map((box) => box.bottom))) - y,
};
"""

# Pixels of a picture of all charts that `COUNT` accepts, chart by chart. The page's own rules let it
# load no picture, so that the picture comes as bytes.
COUNT_PIXELS = """
const [picture, x, y, hue, done] = arguments;
const colourOfHue = hue === null ? null : (() => {
  const line = [...document.querySelectorAll("#legend .entry")]
    .find((entry) => entry.textContent === hue).closest("li").querySelector("line");
  return getComputedStyle(line).stroke.match(/\\d+/g).map(Number);
})();
const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
createImageBitmap(new Blob([bytes], { type: "image/png" })).then((bitmap) => {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  done([...document.querySelectorAll(".chart")].map((chart) => {
    const box = chart.getBoundingClientRect();
    const { data } = context.getImageData(box.left + scrollX - x, box.top + scrollY - y, box.width, box.height);
    const [red, green, blue] = colourOfHue ?? data;
    let pixels = 0;
    for (let at = 0; at < data.length; at += 4) {
      const same = data[at] === red && data[at + 1] === green && data[at + 2] === blue;
      pixels += same === (colourOfHue !== null);
    }
    return pixels;
  }));
});
"""


def programs():
    """The paths of Chromium and its driver, or None where one is missing."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return found if all(found) else None


class Browser:
    """One Chromium, with the log of its console and its network."""

    def __init__(self):
        chromium, driver = programs()
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # Selenium would ask the network for a driver if it were not given one.
        os.environ["SE_OFFLINE"] = "true"
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        # Seconds: beside other tests two frames may take longer than the 30 of the default.
        self.driver.set_script_timeout(120)
        self.cdp = self.driver.execute_cdp_cmd
        self.run = self.driver.execute_script

    def quit(self):
        self.driver.quit()

    def open(self, path: Path, width=1280, scheme="light", before=None):
        """Shows a file at that width; `before` is a script to run before the page's own."""
        self.size(width)
        self.media(scheme)
        script = None
        if before is not None:
            added = self.cdp("Page.addScriptToEvaluateOnNewDocument", {"source": before})
            script = added["identifier"]
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())
        if script is not None:
            self.cdp("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
        self.settle()

    def size(self, width, height=1000):
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.settle()

    def media(self, scheme, medium=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", {"media": medium, "features": features})

    def settle(self):
        """Waits until layout and drawing are done."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"
        )

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses requested since the page was opened, apart from the page itself."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                addresses.append(message["params"]["request"]["url"])
        page = self.driver.current_url.split("#")[0]
        return [address for address in addresses if address.split("#")[0] != page]

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def rows(self, selector, within=None):
        """The texts of the cells of each row, as they are seen."""
        return self.run(
            "return [...(arguments[1] ?? document).querySelectorAll(arguments[0])]"
            ".map((row) => [...row.querySelectorAll('th, td')].map((cell) => cell.innerText.trim()))",
            selector,
            within,
        )

    def move(self, x, y):
        self.cdp("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def away(self):
        self.move(1, 1)
        self.settle()

    def pixels(self, policy=None):
        """How many pixels of each chart have exactly a policy's colour, or any but the background's."""
        height, window = self.run("return [document.documentElement.scrollHeight, innerHeight]")
        if height > window:
            # A picture of more than the window would resize the page meanwhile, which draws charts anew.
            self.size(self.run("return innerWidth"), height)
        # A picture without the tables, compressed as fast as can be, takes half the processor time.
        box = self.run(CHARTS_BOX)
        shot = self.cdp("Page.captureScreenshot", {"optimizeForSpeed": True, "clip": {**box, "scale": 1}})
        return self.driver.execute_async_script(COUNT_PIXELS, shot["data"], box["x"], box["y"], policy)

    def layout_problems(self):
        """What is wrong with the layout of the page at hand, in sentences: see layout.js."""
        return self.run(LAYOUT)

    def chart_texts(self):
        """The texts of each chart, with their boxes seen from the chart's."""
        return self.run(CHART_TEXTS)

    def overlaps(self):
        """Pairs of texts that lie over each other, and texts of charts that go beyond these."""
        # A pixel of slack: line boxes are taller than their letters.
        pairs = clashes(self.run(PAGE_TEXTS), slack=1)
        for chart in self.chart_texts():
            for text in chart["texts"]:
                left, top, right, bottom = text["box"]
                if left < 0 or top < 0 or right > chart["width"] or bottom > chart["height"]:
                    pairs.append((text["text"], "the edge of the chart"))
        return pairs


def clashes(texts, slack):
    pairs = []
    ordered = sorted(texts, key=lambda text: text["box"][1])
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            a, b = one["box"], other["box"]
            if b[1] >= a[3] - slack:
                break
            if a[0] < b[2] - slack and b[0] < a[2] - slack:
                pairs.append((one["text"], other["text"]))
    return pairs


def layout_problems(browser: Browser, page: Path, widths=WIDTHS, schemes=SCHEMES):
    """What is wrong with the layout of a page, in sentences, and with that of the SVG pictures that it shows.

    Returns an empty list for a page on which no texts overlap, none goes beyond its figure, cell or box, no word is
    broken between its letters, every text differs from its background, and which does not scroll sideways.
    """
    problems = []
    pictures = set()
    for width in widths:
        for scheme in schemes:
            browser.open(page, width, scheme)
            where = f"{page.name} at {width} pixels, {scheme}"
            problems += [f"{where}: {problem}" for problem in browser.layout_problems()]
            pictures.update(browser.run(PICTURES))
    for picture in sorted(pictures):
        browser.driver.get(picture)
        browser.settle()
        name = picture.rsplit("/", 1)[-1]
        problems += [f"{name}: {problem}" for problem in browser.layout_problems() if "sideways" not in problem]
    return problems


def wait_for(condition, seconds=60):
    """What `condition` says once it is true, or what it says in the end."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return answer


def downloaded(path: Path):
    """Whether a download ends; the file may have its name before its bytes."""
    return wait_for(lambda: path.exists() and path.stat().st_size > 0)


def main():
    parser = argparse.ArgumentParser(description="Checks the layout of pages.")
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--width", action="append", type=int, help="in pixels [default: 400 and 1400]")
    arguments = parser.parse_args()
    if programs() is None:
        sys.exit("browser.py: needs chromium and chromedriver")
    browser = Browser()
    try:
        problems = []
        for page in arguments.pages:
            problems += layout_problems(browser, page.resolve(), arguments.width or WIDTHS)
    finally:
        browser.quit()
    print("\n".join(problems) if problems else f"{len(arguments.pages)} pages, no problem")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
