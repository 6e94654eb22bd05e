"""Chromium without a window, and what the page's tests ask of it."""

import json
import os
import shutil
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Runs before the page's script: keeps the corners of all text on a canvas until it is cleared.
KEEP_CANVAS_TEXT = """
(() => {
  const texts = new WeakMap();
  const context = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = context;
  context.fillText = function (text, x, y, ...rest) {
    const size = this.measureText(text);
    const matrix = this.getTransform();
    const corners = [
      [x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent],
      [x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent],
    ].map(([x, y]) => matrix.transformPoint({ x, y }));
    const [xs, ys] = ["x", "y"].map((axis) => corners.map((corner) => corner[axis]));
    if (!texts.has(this.canvas)) texts.set(this.canvas, []);
    texts.get(this.canvas).push({
      text: String(text),
      box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
    });
    return fillText.call(this, text, x, y, ...rest);
  };
  context.clearRect = function (...rest) {
    texts.delete(this.canvas);
    return clearRect.apply(this, rest);
  };
  window.canvasTexts = () => [...document.querySelectorAll("canvas")].map((canvas) => ({
    width: canvas.width,
    height: canvas.height,
    texts: texts.get(canvas) ?? [],
  }));
})();
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

# The canvas pixels of exactly a policy's colour, chart by chart.
PIXELS_OF = """
const line = [...document.querySelectorAll("#legend .entry")]
  .find((entry) => entry.textContent === arguments[0]).querySelector("line");
const [red, green, blue] = getComputedStyle(line).stroke.match(/\\d+/g).map(Number);
return [...document.querySelectorAll("canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let pixels = 0;
  for (let at = 0; at < data.length; at += 4) {
    pixels += data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255;
  }
  return pixels;
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
        self.cdp = self.driver.execute_cdp_cmd
        self.run = self.driver.execute_script
        self.cdp("Page.addScriptToEvaluateOnNewDocument", {"source": KEEP_CANVAS_TEXT})

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
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        # Counting pixels brings this advice on; the page itself never reads a canvas.
        return [message for message in messages if "Multiple readback operations" not in message]

    def requests(self):
        """The addresses asked for since the page was opened, apart from the page itself."""
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

    def move(self, x, y):
        self.cdp("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def away(self):
        self.move(1, 1)
        self.settle()

    def pixels(self, policy):
        return self.run(PIXELS_OF, policy)

    def overlaps(self):
        """Pairs of texts that lie over each other, on the page or on one canvas."""
        # A pixel of slack: line boxes are taller than their letters.
        pairs = clashes(self.run(PAGE_TEXTS), slack=1)
        for canvas in self.run("return canvasTexts()"):
            pairs += clashes(canvas["texts"], slack=0)
            for text in canvas["texts"]:
                left, top, right, bottom = text["box"]
                if left < 0 or top < 0 or right > canvas["width"] or bottom > canvas["height"]:
                    pairs.append((text["text"], "the edge of the canvas"))
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


def wait_for(condition, seconds=5):
    """What `condition` says once it is true, or what it says in the end."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return answer
