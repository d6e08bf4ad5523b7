"""The HTML report driven in headless Chromium, from disk."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pandora_train.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (BROWSER and shutil.which("chromedriver") and importlib.util.find_spec("selenium")),
                       reason="needs chromium, chromedriver and selenium"),
]
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--window-size=1440,1000")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = str(BROWSER)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Any, write_run: Any, tmp_path: Path) -> Any:
    runs = [write_run("base", 12, 1), write_run("tuned", 12, 2)]
    open_report(browser, write_report(runs, tmp_path / "report.html"))
    yield browser
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def open_report(browser: Any, file: Path, link: str = "") -> None:
    browser.get("about:blank")
    browser.get(file.as_uri() + link)
    wait(browser, "return document.documentElement.dataset.ready")


def wait(browser: Any, script: str, *arguments: Any, seconds: float = 60) -> Any:
    """Poll ``script`` until it gives something true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = browser.execute_script(script, *arguments)
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never true: {script}")


def key(browser: Any, *keys: str) -> None:
    for name in keys:
        browser.execute_script(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))", name)


def choose(browser: Any, name: str, value: str) -> None:
    browser.execute_script(
        "const e = document.querySelector(`#filters [name=${arguments[0]}]`); e.value = arguments[1];"
        "e.dispatchEvent(new Event('input'))", name, value)


def count(browser: Any) -> int:
    text = browser.execute_script("return document.getElementById('count').textContent")
    return int(text.split()[0].replace(",", ""))


def samples(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def open_sample(browser: Any, id: str) -> str:
    """Follow the link to one sample; its detail as text."""
    browser.execute_script("location.hash = '#' + encodeURIComponent(arguments[0])", id)
    wait(browser, "return document.querySelector('.crumbs a')?.textContent === arguments[0]", id)
    text: str = browser.execute_script("return document.getElementById('detail').innerText")
    return text


def test_filters_count_what_the_run_holds(page: Any, tmp_path: Path) -> None:
    key(page, "s")
    tuned = samples(tmp_path / "tuned")
    assert count(page) == 48
    choose(page, "benchmark", "wikitq")
    assert count(page) == 12
    choose(page, "status", "error")
    assert count(page) == sum(t["benchmark"] == "wikitq" and t["status"] == "error" for t in tuned)
    key(page, "c")
    choose(page, "kind", "field")
    assert count(page) == sum(t["status"] == "error" for t in tuned)
    key(page, "c")
    choose(page, "score", "right")
    assert count(page) == sum(next(iter(t["scores"].values())) == 1 for t in tuned)


def test_flips_both_ways(page: Any, tmp_path: Path) -> None:
    key(page, "s")
    base, tuned = ({t["id"]: next(iter(t["scores"].values())) for t in samples(tmp_path / name)}
                   for name in ("base", "tuned"))
    for flip, a, b in (("gained", 0, 1), ("lost", 1, 0), ("right", 1, 1), ("wrong", 0, 0)):
        choose(page, "flip", flip)
        assert count(page) == sum(base[i] == a and tuned[i] == b for i in base), flip


def test_a_number_in_a_table_opens_what_it_counts(page: Any) -> None:
    link = "document.querySelector('[data-filter*=gained]')"
    expected = int(page.execute_script(f"return {link}.textContent"))
    page.execute_script(f"{link}.click()")
    assert count(page) == expected
    wait(page, "return document.querySelector('.crumbs a')")


def test_search_finds_by_question_and_id(page: Any) -> None:
    key(page, "s", "/")
    page.switch_to.active_element.send_keys("grailqa-dev-7")
    assert count(page) == 1
    choose(page, "search", "concerts WEBQSP")
    assert count(page) == 12
    choose(page, "search", "no such words")
    assert "No sample" in page.execute_script("return document.getElementById('list').textContent")


def test_enter_searches_replies_code_and_answers(page: Any, tmp_path: Path) -> None:
    key(page, "s")
    choose(page, "search", "singer['nation'] Rose")
    assert count(page) == 0
    choose(page, "search", "singer['nation']")
    page.execute_script("document.querySelector('[name=search]').dispatchEvent("
                        "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
    expected = sum("nation" in s["code"] for t in samples(tmp_path / "tuned") for s in t["steps"][:1])
    wait(page, "return document.getElementById('count').textContent.startsWith(arguments[0] + ' of')", str(expected))


def test_keys_walk_samples_turns_and_runs(page: Any, tmp_path: Path) -> None:
    ids = [t["id"] for t in samples(tmp_path / "tuned")]
    key(page, "s")
    wait(page, "return document.querySelector('.crumbs a')?.textContent === arguments[0]", ids[0])
    key(page, "j", "ArrowDown", "k")
    wait(page, "return document.querySelector('.crumbs a')?.textContent === arguments[0]", ids[1])
    key(page, "1")
    wait(page, "return document.querySelector('.runs [aria-selected=true]').textContent === 'base'")
    repaired = next(t["id"] for t in samples(tmp_path / "base") if len(t["steps"]) == 2)
    open_sample(page, repaired)
    turn = "return document.querySelector('.turns [aria-selected=true]').textContent"
    assert page.execute_script(turn) == "Turn 2"
    key(page, "ArrowLeft")
    assert page.execute_script(turn) == "Turn 1"
    assert page.execute_script("return document.querySelector('.source .l.bad').textContent").startswith("chosen")
    assert "Fed back to the model" in page.execute_script("return document.getElementById('turn').textContent")
    key(page, "ArrowLeft", "ArrowRight")
    assert page.execute_script(turn) == "Turn 2"


def test_link_opens_one_sample_of_one_run(browser: Any, write_run: Any, tmp_path: Path) -> None:
    runs = [write_run("base", 5, 1), write_run("tuned", 5, 2)]
    open_report(browser, write_report(runs, tmp_path / "report.html"), "#webqsp-dev-3&run=1")
    wait(browser, "return document.querySelector('.crumbs a')?.textContent === 'webqsp-dev-3'")
    assert browser.execute_script("return document.querySelector('.runs [aria-selected=true]').textContent") == "base"


def test_markup_in_a_cell_stays_text(page: Any) -> None:
    text = open_sample(page, "spider-dev-7")
    assert "<script>document.title='owned'</script>" in text
    assert page.execute_script("return document.querySelectorAll('#detail img, #detail script').length") == 0
    assert "owned" not in page.title


def test_gold_stands_beside_the_answer(page: Any, tmp_path: Path) -> None:
    wrong = next(t for t in samples(tmp_path / "tuned") if t["rows"] == [["Rose", "2015"]])
    open_sample(page, wrong["id"])
    page.execute_script("document.querySelectorAll('.runs button')[1].click()")
    wait(page, "return document.querySelector('#answer tr.miss')")
    assert page.execute_script("return document.querySelectorAll('#gold tr.miss').length") == 2
    assert page.execute_script("return document.querySelectorAll('tr.match').length") == 0


def test_prompt_parts_open_on_demand(page: Any) -> None:
    open_sample(page, "spider-dev-3")
    shown = "return document.querySelector('[data-kind=boxes] pre').textContent"
    assert "DataFrame" not in page.execute_script(shown)
    page.execute_script("document.querySelector('[data-kind=boxes]').open = true")
    wait(page, f"{shown.replace('return', 'return (')}).includes(\"singer = pd.DataFrame({{'singer_id'\")")


def test_coloured_code_is_the_code(page: Any, tmp_path: Path) -> None:
    sample = next(t for t in samples(tmp_path / "tuned") if len(t["steps"]) == 1)
    open_sample(page, sample["id"])
    page.execute_script("document.querySelectorAll('.runs button')[1].click()")
    lines = wait(page, "return [...document.querySelectorAll('#turn .source .l')].map((l) => l.textContent)")
    assert "\n".join(lines) == sample["steps"][-1]["code"]
    assert page.execute_script("return document.querySelector('#turn .t-c').textContent").startswith("# the singers")


def test_theme_follows_the_system_and_turns(page: Any) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(paper)
    key(page, "t")
    dark = page.execute_script(paper)
    key(page, "t")
    assert (page.execute_script(paper), dark == light) == (light, False)


@pytest.mark.slow
def test_ten_thousand_samples_open_at_once(browser: Any, large_run: Path, tmp_path: Path) -> None:
    """At most 40 MB and 3 seconds, with 5,000-token prompts (20 characters a demonstration line)."""
    file = write_report([large_run], tmp_path / "large.html")
    size = file.stat().st_size / 1e6
    browser.get("about:blank")
    start = time.monotonic()
    browser.get(file.as_uri() + "#spider-dev-2400")
    wait(browser, "return document.querySelector('.crumbs a')?.textContent === 'spider-dev-2400'", seconds=30)
    opened = time.monotonic() - start
    start = time.monotonic()
    choose(browser, "search", "webqsp-dev-2399")
    searched = time.monotonic() - start
    print(f"10,000 samples: {size:.1f} MB, sample shown after {opened:.2f} s, search {searched:.2f} s")
    assert count(browser) == 1
    assert size <= 40
    assert opened < 3 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
