"""Draw the documentation's picture of the page: `python tests/features/page/screenshot.py` writes docs/images/page.png.

It needs Chromium. Three callers work on a small shop: one plots prices, one runs tests of which one fails, and one is a
person on the command line. The failed test is opened.
"""

# ruff: noqa: E402  the path of the support modules comes first

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import Browser
from live_server import serving
from page_client import opened

PYTHON = ("--repl", "python", "--python", sys.executable)
IMAGE = ROOT / "docs" / "images" / "page.png"
SHOP = '''"""Prices of a small shop."""


def price(item, discount=0):
    """Return the price of an item after a discount in percent."""
    return item["price"] * (1 - discount // 100)
'''
TESTS = """from shop import price


def test_price_without_discount():
    assert price({"price": 20}) == 20


def test_price_with_discount():
    assert price({"price": 20}, discount=25) == 15
"""
LOAD = """import random
random.seed(4)
prices = [round(random.lognormvariate(3, 0.4), 2) for _ in range(400)]
len(prices), max(prices)"""
PLOT = """import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(4.2, 1.9))
axes.hist(prices, bins=30, color="#4c78a8")
axes.set_title("Prices of 400 orders")
figure"""


def work(live):
    """Do the work that the image displays."""
    with live.client(name="codex-mcp-client") as codex, live.client(name="claude-code") as claude:
        codex.call("evaluate_code", code=LOAD, timeoutMs=60_000)
        codex.call("evaluate_code", code=PLOT, timeoutMs=60_000)
        claude.call("evaluate_code", code='from shop import price\nprice({"price": 20}, 25)')
        claude.call("run_tests")
    live.run("eval", "[price({'price': 20}, percent) for percent in (0, 25, 50)]")


def main():
    with tempfile.TemporaryDirectory(prefix="codriver-page-") as folder, serving(folder, *PYTHON) as live:
        (live.workspace / "shop.py").write_text(SHOP)
        (live.workspace / "test_shop.py").write_text(TESTS)
        work(live)
        files = Path(folder) / "browser"
        files.mkdir()
        browser = Browser(files)
        try:
            with browser.page(opened(live).address, width=1120, height=1240) as page:
                page.shows("live", "#connection")
                page.shows("percent in (0, 25, 50)")
                page.click(".line", "test_price_with_discount")
                page.shows("discount=25)")
                page.until("[...document.images].every(one => one.complete && one.naturalWidth)", "the plot")
                page.picture(IMAGE)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
