"""Take the documents' pictures of the status page: run the demo, look at it in Chromium, end it.

``python scripts/screenshots.py``; needs Debian's package chromium. What is given is given to the demo, as ``--data``.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
DESK = ViewportSize(width=1100, height=1250)


def main() -> int:
    """The command."""
    parallax = Path(sys.executable).with_name("parallax")
    demo = subprocess.Popen([parallax, "demo", "--stay", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
    try:
        address = next((found[0] for line in demo.stdout or () if (found := re.findall(r"http://[0-9.:]+/", line))), "")
        if not address:
            print("the demo ended without a page", file=sys.stderr)
            return 1
        try:
            take(address)
        finally:
            demo.send_signal(signal.SIGINT)  # it ends its brokers, too
            for line in demo.stdout or ():
                print(line, end="")
        return demo.wait()
    finally:
        demo.kill()
        demo.wait()


def take(address: str) -> None:
    """Take all pictures of a page that has the demo's findings."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        desk = browser.new_context(base_url=address, viewport=DESK).new_page()
        desk.goto("/")
        desk.screenshot(path=PICTURES / "page-overview.png")
        of_topics = desk.get_by_role("heading", name="Topics", exact=True)
        desk.locator("section").filter(has=of_topics).screenshot(path=PICTURES / "page-map.png")
        desk.get_by_role("link", name=re.compile("deleted record resurrected")).first.click()
        desk.screenshot(path=PICTURES / "page-finding.png")
        record = desk.locator("section").filter(
            has=desk.get_by_role("heading", name="The record on each broker", exact=True)
        )
        record.screenshot(path=PICTURES / "page-record.png")
        dark = browser.new_context(base_url=address, viewport=DESK, color_scheme="dark").new_page()
        dark.goto("/")
        dark.get_by_role("link", name=re.compile("read committed frozen")).first.click()
        dark.get_by_role("heading", level=1).get_by_role("link").click()
        dark.locator("p.lane.stuck").wait_for(timeout=180_000)
        dark.locator("figure.over-time").screenshot(path=PICTURES / "page-lanes.png")
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
