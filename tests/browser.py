"""A real browser for tests: Chromium of the machine, without which CI fails and other machines skip."""

import os
import shutil
from collections.abc import Iterator

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
LACKING = "no Chromium is installed: apt-get install chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Playwright's browser. Where CI is set, a missing one is a failure and no skip."""
    if CHROMIUM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(LACKING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()
