"""Pages made by the example `pages`, and a Chromium to open them in.

PMFCL_PAGES_EXAMPLE  the example, already built (else cargo builds it)
PMFCL_SCREENSHOTS    a directory for pictures of every page (else none are kept)
"""

import os
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUIET = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The directory with one page of each kind."""
    directory = tmp_path_factory.mktemp("pages")
    built = os.environ.get("PMFCL_PAGES_EXAMPLE")
    cargo = ["cargo", "run", "--quiet", "--package", "pmfcl-report", "--example", "pages", "--"]
    subprocess.run([*([built] if built else cargo), str(directory)], cwd=ROOT, check=True)
    return directory


@pytest.fixture(scope="session")
def browser():
    found = subprocess.run([HERE / "find_chromium.sh"], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        pytest.exit(found.stderr.strip(), returncode=2)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found.stdout.splitlines()[0], args=QUIET)
        yield chromium
        chromium.close()


class Visit:
    """An open page, with everything it complained about and asked the network for."""

    def __init__(self, page, url):
        self.page = page
        self.complaints = []
        self.requests = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)


@pytest.fixture
def visit(browser, pages):
    """Opens a page; afterwards it must not have complained or asked for anything but itself."""
    contexts, visits = [], []

    def go(name, width=1280, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        url = (pages / f"{name}.html").as_uri()
        visits.append((Visit(context.new_page(), url), url))
        return visits[-1][0].page

    yield go
    for seen, url in visits:
        assert seen.complaints == []
        assert [asked for asked in seen.requests if asked.split("#")[0] != url and not asked.startswith("data:")] == []
    for context in contexts:
        context.close()
