"""One browser for all tests of the page, and the models they look at."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import Independent
from kinfolk.datasets import make_groups
from kinfolk.methods.structures import TaskGraph
from kinfolk.report import render, summarize
from problems import knn_graph

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 2'>",
    "\"quotes\" & 'more' ${D} `ticks`",
    "x" * 300,
    "🦊 emoji \u2028 line",
    "עברית \u202e reversed",
    "None",
    "nan",
    "",
    "__proto__",
]


def unavailable(reason):
    """Skip, but never where everything must run."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright is not installed: pip install 'kinfolk[test]'")
    if not CHROMIUM.exists():
        unavailable(f"no browser at {CHROMIUM}: install the package chromium")
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a summary as a page; at the end no error, no warning and no request but for the file itself."""
    contexts, heard, asked = [], [], []

    def visit(summary, width=1200, **options):
        context = browser.new_context(viewport={"width": width, "height": 850}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        path = tmp_path / "report.html"
        path.write_text(render(summary), encoding="utf-8")
        page.goto(path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not heard
    assert len(asked) == len(contexts) and all(url.startswith("file:") for url in asked)


@pytest.fixture(scope="session")
def syn():
    return make_groups(random_state=0)


@pytest.fixture(scope="session")
def model(syn):
    return GAMTL(task=syn.task).fit(syn.data, syn.target)


@pytest.fixture(scope="session")
def summary(model, syn):
    return summarize(model, syn.data, syn.target)


@pytest.fixture(scope="session")
def hostile():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"<b>x</b>": rng.normal(size=120), "task": np.repeat(HOSTILE, 12)})
    y = table["<b>x</b>"] + 0.1 * rng.normal(size=120)
    return summarize(GAMTL(task="task").fit(table, y), table, y, title="<i>title</i>")


@pytest.fixture(scope="session")
def many():
    """2,000 tasks, whose graph is given: fitting one is not what is tested here."""
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(2000), 6)
    X = np.column_stack([task, rng.normal(size=(12_000, 2))])
    y = X[:, 1] + rng.normal(size=12_000)
    model = Independent(task=0).fit(X, y)
    graph = TaskGraph(knn_graph(2000, k=4), model.tasks_)
    return summarize(replace(model.model_, structure=graph), X, y)


@pytest.fixture(scope="session")
def trunk_model():
    """A model to which trees add what lines cannot say."""
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(6), 60)
    x = rng.normal(size=(360, 3))
    y = 3 * np.sin(2 * x[:, 0]) * (x[:, 1] > 0) + task % 3 * x[:, 2] + 0.3 * rng.normal(size=360)
    X = pd.DataFrame(x, columns=["a", "b", "c"]).assign(task=task)
    return GAMTLCV(task="task", trunk="auto").fit(X, y), X, y
