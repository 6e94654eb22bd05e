"""Scales and ticks of the report's axes, as the browser computes them. Needs Chromium."""

import random
import unittest
from pathlib import Path

from browser import Browser

REPOSITORY = Path(__file__).parents[2]


def script(name):
    """A part of the report's script, in whichever crate the report is."""
    [path] = REPOSITORY.glob(f"crates/*/src/report/script/{name}.js")
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
        cls.source = script("axes")

    def asked(self, expression, argument=None):
        return self.browser.run(f"{self.source}\nreturn ({expression})(arguments[0]);", argument)

    def each(self, function, calls):
        """What a function of the script answers to each list of arguments."""
        return self.asked(f"(calls) => calls.map((call) => {function}(...call))", calls)

    def test_worked_ticks_of_linear_axes(self):
        for low, high, most, expected in [
            (0, 10, 5, [0, 2, 4, 6, 8, 10]),
            (0, 10, 4, [0, 2.5, 5, 7.5, 10]),
            (0, 1, 2, [0, 0.5, 1]),
            (0.03, 0.1, 10, [0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]),
            (0.1, 0.7, 6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
            (-3, 47, 5, [0, 10, 20, 30, 40]),
            (-7, 7, 3, [-5, 0, 5]),
            (1234567, 1234570, 3, [1234567, 1234568, 1234569, 1234570]),
            (2e-9, 5e-9, 3, [2e-9, 3e-9, 4e-9, 5e-9]),
            (5, 5, 4, []),
            (5, 4, 4, []),
        ]:
            [ticks] = self.each("linearTicks", [[low, high, most]])
            self.assertEqual(ticks, expected, (low, high, most))

    def test_worked_ticks_of_logarithmic_axes(self):
        for low, high, most, expected in [
            (1, 100, 7, [1, 2, 5, 10, 20, 50, 100]),
            (1, 100, 6, [1, 10, 100]),
            (0.1, 100, 4, [0.1, 1, 10, 100]),
            (1, 23304, 5, [1, 10, 100, 1000, 10000]),
            (1e-4, 1e3, 4, [1e-4, 1e-2, 1, 100]),
            (150, 600, 4, [200, 500]),
            (210, 480, 4, [300, 400]),
            (0, 10, 4, []),
            (-1, 10, 4, []),
            (7, 7, 4, []),
        ]:
            [ticks] = self.each("logTicks", [[low, high, most]])
            self.assertEqual(ticks, expected, (low, high, most))

    def test_worked_texts_of_ticks(self):
        for ticks, expected in [
            ([0, 0.25, 0.5], ["0", "0.25", "0.50"]),
            ([-0.5, 0, 0.5], ["−0.5", "0", "0.5"]),
            ([0, 5000], ["0", "5,000"]),
            ([0, 5000, 10000], ["0", "5 k", "10 k"]),
            ([0, 2500, 5000, 7500, 10000], ["0", "2.5 k", "5.0 k", "7.5 k", "10.0 k"]),
            ([0, 5e5, 1e6, 1.5e6], ["0", "0.5 M", "1.0 M", "1.5 M"]),
            ([1e6, 1000001], ["1.000000 M", "1.000001 M"]),
            ([2e-9, 4e-9], ["2e−9", "4e−9"]),
            ([7], ["7"]),
            ([], []),
        ]:
            [texts] = self.each("tickTexts", [[ticks]])
            self.assertEqual(texts, expected, ticks)

    def test_worked_places(self):
        places = self.asked(
            "() => ["
            "  ...[0, 5, 10].map(scaleOf({ low: 0, high: 10 }, 20, 120)),"
            "  ...[0, 5, 10].map(scaleOf({ low: 0, high: 10 }, 300, 0)),"
            "  ...[1, 10, 100].map(scaleOf({ low: 1, high: 100, isLog: true }, 0, 200)),"
            "]"
        )
        for place, expected in zip(places, [20, 70, 120, 300, 150, 0, 0, 100, 200], strict=True):
            self.assertAlmostEqual(place, expected, places=9)

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
            self.assertTrue(any(abs(digits - wanted) < 1e-3 for wanted in (1, 2, 2.5, 5, 10)), at)
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
