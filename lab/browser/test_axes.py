"""Scales and ticks of the report's axes, as the browser computes them. Needs Chromium.

The pictures of experiments have the same axes, computed in Rust: the tests of ebbpool-lab read the same cases.
"""

import json
import random
import unittest
from pathlib import Path

from browser import Browser

REPOSITORY = Path(__file__).parents[2]


def chart(name):
    """A file of the chart code, in whichever crate that is."""
    [path] = REPOSITORY.glob(f"lab/*/src/report/chart/{name}")
    return path.read_text()


def number(text):
    """The number that a tick's text stands for, and half of its last digit."""
    digits, _, unit = text.replace("−", "-").replace(",", "").partition(" ")
    factor = {"": 1, "k": 1e3, "M": 1e6}[unit]
    decimals = len(digits.partition(".")[2])
    return float(digits) * factor, 0.5 * factor / 10**decimals


class AxesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.source = chart("axes.js")
        cls.cases = json.loads(chart("axes.json"))

    def computed(self, expression, argument=None):
        return self.browser.run(f"{self.source}\nreturn ({expression})(arguments[0]);", argument)

    def each(self, function, calls):
        """What a function of the script returns for each list of arguments."""
        return self.computed(f"(calls) => calls.map((call) => {function}(...call))", calls)

    def test_worked_ticks(self):
        for function, cases in (("linearTicks", "linear"), ("logTicks", "logarithmic")):
            *calls, expected = zip(*self.cases[cases], strict=True)
            ticks = self.each(function, list(zip(*calls, strict=True)))
            self.assertEqual(ticks, list(expected))

    def test_worked_texts(self):
        for function, cases in (("tickTexts", "texts"), ("shortText", "short")):
            values, expected = zip(*self.cases[cases], strict=True)
            texts = self.each(function, [[value] for value in values])
            self.assertEqual(texts, list(expected))

    def test_worked_positions(self):
        calls = self.cases["positions"]
        positions = self.each(
            "((low, high, isLog, from, to, value) => scaleOf({ low, high, isLog }, from, to)(value))",
            [call[:-1] for call in calls],
        )
        for call, position in zip(calls, positions, strict=True):
            self.assertAlmostEqual(position, call[-1], places=9, msg=call)

    def ranges(self, count, lowest):
        """Ranges of all sizes, and how many ticks there is room for."""
        draw = random.Random(11)
        for _ in range(count):
            low = lowest(draw)
            high = low + 10 ** draw.uniform(-6, 6) * max(abs(low), 1e-3)
            yield [low, high, draw.randint(2, 20)]

    def test_linear_ticks_are_round_evenly_spaced_and_distinct(self):
        calls = list(self.ranges(3000, lambda draw: draw.choice([0, 1, -1]) * 10 ** draw.uniform(-6, 9)))
        answers = self.each("linearTicks", calls)
        texts = self.each("tickTexts", [[ticks] for ticks in answers])
        for (low, high, most), ticks, shown in zip(calls, answers, texts, strict=True):
            at = (low, high, most, ticks, shown)
            slack = 1e-6 * (high - low)
            self.assertTrue(all(low - slack <= tick <= high + slack for tick in ticks), at)
            self.assertLessEqual(len(ticks), most + 1, at)
            self.assertGreaterEqual(len(ticks), most // 2, at)
            if len(ticks) < 2:
                continue
            steps = [after - before for before, after in zip(ticks, ticks[1:])]
            self.assertLess(max(steps) - min(steps), slack, at)
            digits = float(f"{steps[0]:e}".partition("e")[0])
            self.assertTrue(any(abs(digits - round_digits) < 1e-3 for round_digits in (1, 2, 2.5, 5, 10)), at)
            # No tick is missing at an end.
            self.assertGreater(ticks[0] - steps[0], low - steps[0] * 1.001, at)
            self.assertLess(ticks[0] - steps[0], low, at)
            self.assertGreater(ticks[-1] + steps[0], high, at)
            self.assertEqual(len(set(shown)), len(ticks), at)
            if any("e" in text for text in shown):
                continue
            for tick, text in zip(ticks, shown):
                value, half = number(text)
                self.assertLessEqual(abs(value - tick), half * 1.001, at)

    def test_logarithmic_ticks_are_few_round_and_distinct(self):
        calls = list(self.ranges(3000, lambda draw: 10 ** draw.uniform(-6, 6)))
        answers = self.each("logTicks", calls)
        for (low, high, most), ticks in zip(calls, answers, strict=True):
            at = (low, high, most, ticks)
            self.assertTrue(all(low * 0.999999 <= tick <= high * 1.000001 for tick in ticks), at)
            self.assertLessEqual(len(ticks), most, at)
            self.assertEqual(ticks, sorted(set(ticks)), at)
            if most >= 6:
                self.assertGreaterEqual(len(ticks), 2, at)
            if high / low >= 100 and most >= 3:
                leading = {float(f"{tick:e}".partition("e")[0]) for tick in ticks}
                self.assertTrue(leading <= {1, 2, 5}, at)


if __name__ == "__main__":
    unittest.main(verbosity=2)
