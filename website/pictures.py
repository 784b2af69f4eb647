"""Pictures of the page for README and docs: ``python -m website.pictures MODEL``.

They show aspirin, with heat that started at the ring's atom beside the ester: in a window and in
light colours, and on a phone in dark ones. Chromium must be there. Look at them before committing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from website.paths import DOCS

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
# Name, width, height, colours; the phone shows what is above the heat.
PICTURES = (("page-light", 1180, 1465, "light"), ("page-phone-dark", 390, 1132, "dark"))
ATOM, TIME = 4, "270"  # on the slider that is t = 5


def picture(browser: Browser, url: str, name: str, width: int, height: int, colours: str) -> None:
    """One picture, from the top of the page."""
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=colours, reduced_motion="reduce"
    )
    page.goto(url)
    page.wait_for_selector("main[aria-busy=false]")
    page.locator("#heat-picture circle.atom").nth(ATOM).click()
    page.locator("#time").fill(TIME)
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=DOCS / "figures" / f"{name}.png")
    page.close()


def main() -> None:
    """Serve a model and look at it."""
    command = [sys.executable, "-m", "gad.cli", "serve", f"esol={Path(sys.argv[1])}", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            url = re.search(r"http://\S+/", service.stderr.readline())[0]
            with sync_playwright() as play:
                browser = play.chromium.launch(
                    executable_path=shutil.which("chromium"), args=list(FLAGS)
                )
                for shot in PICTURES:
                    picture(browser, url, *shot)
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
