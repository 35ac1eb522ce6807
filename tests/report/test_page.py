"""The report page: complete, self-contained, safe, and in order in a browser."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import browser
import numpy as np
import pandas as pd
import pytest
from report_factory import make_release, make_results
from scipy.stats import norm
from statsmodels.formula.api import ols

from dpbinagg import Budget, dp_ols, gdp
from dpbinagg.datasets import load_wages
from dpbinagg.errors import ArgumentError, ReleaseError
from dpbinagg.public.domain import Domain
from dpbinagg.release.readme import Origin
from dpbinagg.report import charts, page, pictures, sections
from dpbinagg.report.markup import Markup, el, shorten, ticks

VOID = {"meta", "link", "input", "br"}
EVIL = "</script><script>document.title='owned'</script>"

needs_chromium = pytest.mark.skipif(
    browser.chromium() is None or not sys.platform.startswith("linux"),
    reason="no Chromium here; on Debian: apt-get install chromium",
)


class Reader(HTMLParser):
    """The elements of a page, checked for being closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def results():
    wages = load_wages()
    return dp_ols(wages.formula, wages.frame, mu=1, bounds=wages.codebook, rng=4)


@pytest.fixture(scope="module")
def text(results):
    return page.render(results, rng=0)


@pytest.fixture(scope="module")
def reader(text):
    return Reader(text)


def evil_results():
    """Results whose variable, levels and formula are attacks on the page."""
    domain = Domain({"wage": (1, 200), "<b onload=x>": (0, 1), "g": [EVIL, 'q" onmouseover="x']})
    release = make_release('wage ~ Q("<b onload=x>") + g', domain)
    sizes = np.ones(len(release.column_names))
    results = make_results(release=release, family=_family(sizes))
    return results


def _family(sizes):
    from report_factory import make_estimate

    return {
        name: make_estimate(name, sizes, 0.1 * sizes, notes=(f"note <i>{EVIL}</i>",))
        for name in ("naive", "refined")
    }


def download(reader: Reader, name: str) -> bytes:
    link = next(a for a in reader.all("a") if a.get("download") == name)
    head, content = link["href"].split(",", 1)
    assert head.endswith(";base64")
    return base64.b64decode(content, validate=True)


def test_the_page_has_all_its_parts(reader):
    names = {a["id"] for a in reader.all("section")}
    assert names == {
        "table", "coefficients", "bins", "synthetic", "supports", "privacy", "notes", "cite",
        "downloads",
    }  # fmt: skip
    targets = {a["href"][1:] for a in reader.all("a") if a["href"].startswith("#")}
    assert targets == names


def test_the_table_has_the_numbers_of_the_summary(results, reader):
    words = "\n".join(reader.words)
    for row in results.summary().coefficients[1:]:
        for cell in (row[1], row[2], row[5], row[6]):
            assert cell in words
    assert f"{results.nobs:,.0f}" in words
    assert results.privacy.statement in words


def test_nothing_is_asked_of_the_network(text, reader):
    for tag, attributes in reader.elements:
        for name in ("src", "href", "action", "srcset", "data", "poster", "xlink:href"):
            address = attributes.get(name)
            assert address is None or address.startswith(("#", "data:")), (tag, name)
        assert not any(name.startswith("on") for name in attributes), tag
        assert "style" not in attributes, tag
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_policy_allows_the_page_s_own_style_and_script_only(text):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src &#x27;none&#x27;")
    for tag in ("style", "script"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        assert page._digest(inner) in policy
        assert text.count(f"<{tag}") == 1


def test_headings_are_in_order_and_pictures_have_words(reader):
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert reader.all("html")[0]["lang"] == "en"
    for picture in reader.all("svg"):
        assert picture.get("role") == "img" or picture.get("aria-hidden") == "true"
    charts = sum(picture.get("role") == "img" for picture in reader.all("svg"))
    assert len(reader.all("desc")) == charts
    assert all(head.get("scope") in ("col", "row") for head in reader.all("th"))
    names = [a["id"] for _, a in reader.elements if "id" in a]
    assert len(names) == len(set(names))


def test_text_stands_out_from_its_ground():
    """WCAG's contrast of 4.5 for words, in light and dark."""
    style = page._asset("page.css")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for block in blocks:
        colour = dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for ground in ("paper", "panel", "warn"):
            for ink in ("ink", "soft", "link"):
                if ink in colour:
                    assert _contrast(colour[ink], colour[ground]) >= 4.5, (ink, ground)


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_synthetic_records_give_the_coefficients_back(results, reader):
    wages = load_wages()
    frame = pd.read_csv(io.BytesIO(download(reader, "synthetic.csv")))
    for name in ("sex", "region", "union"):
        frame[name] = pd.Categorical(frame[name], wages.codebook[name].levels)
    refit = ols(wages.formula, frame).fit()
    np.testing.assert_allclose(refit.params, results.params, rtol=1e-6)
    assert len(frame) == round(results.nobs)


def test_the_downloads_hold_the_release(results, reader, tmp_path):
    release = results.release
    rows = list(csv.DictReader(io.StringIO(download(reader, "bins.csv").decode())))
    np.testing.assert_array_equal(
        [float(row["count"]) for row in rows], release.statistics["count"]
    )
    facts = json.loads(download(reader, "release.json"))
    assert facts["formula"] == release.formula
    assert facts["privacy"]["mu"] == release.mu
    path = tmp_path / "codebook.csv"
    path.write_bytes(download(reader, "codebook.csv"))
    again = Domain.from_csv(path)
    assert all(again[name] == release.domain[name] for name in release.domain)


def test_levels_that_a_csv_codebook_cannot_hold_go_into_json():
    domain = Domain({"wage": (1, 200), "g": ["a|b", "c", "d"]})
    release = make_release("wage ~ C(g)", domain)
    reader = Reader(page.render(make_results(release=release, family=_family(np.ones(3))), rng=0))
    listed = {one["name"]: one for one in json.loads(download(reader, "codebook.json"))}
    assert listed["g"]["levels"] == ["a|b", "c", "d"]


def test_text_of_others_is_escaped():
    text = page.render(evil_results(), title=f"<img src=x>{EVIL}", rng=0)
    reader = Reader(text)
    assert text.count("<script") == 1
    assert not {"img", "b onload", "i"} & {tag for tag, _ in reader.elements}
    assert not any("onmouseover" in a or "onload" in a for _, a in reader.elements)
    assert any(EVIL in words for words in reader.words)


def test_markup_escapes_what_is_not_markup():
    assert el("p", "<", Markup("<br>"), title='"') == '<p title="&quot;">&lt;<br></p>'
    assert el("i", ["a", el("b", "&")], hidden=True, id=False) == "<i hidden>a<b>&amp;</b></i>"


@pytest.mark.parametrize(
    ("mu", "neighbours", "part"),
    [
        (1.0, "add-remove", "nobody can be sure whether a given person is among them"),
        (1.0, "replace", "nobody can be sure what a given person's record says"),
        (2.5, "add-remove", "limits what they tell"),
        (6.0, "add-remove", "protects hardly"),
    ],
)
def test_the_promise_is_no_larger_than_the_privacy(mu, neighbours, part):
    release = make_release(claimed_mu=mu, neighbours=neighbours)
    assert part in sections.lead(make_results(release=release))
    right = 100 * norm.cdf(mu / 2)
    assert f"at most {right:.0f}% of the time" in sections.guess(release.privacy)


def test_what_must_not_be_missed_stands_on_top():
    release = make_release(secure=False)
    text = page.render(make_results(release=release), rng=0)
    banner = text.index('class="banner"')
    assert text[banner:].find("NOT FOR PUBLICATION") < 100
    assert banner < text.index("<section")
    assert "banner" not in page.render(make_results(), rng=0).split("<body>")[1]


def test_a_release_without_bins_has_a_page():
    wages = load_wages()
    budget = Budget(partition=0, count=0, sum_x=0, sum_y=0, moments=1, scores=0)
    domain = wages.codebook.updated({"wage": (3, 150)})
    results = dp_ols(
        "wage ~ educ",
        wages.frame,
        mu=2,
        bounds=domain,
        budget=budget,
        partition="grid",
        rng=1,
    )
    reader = Reader(page.render(results, rng=0))
    names = {a["id"] for a in reader.all("section")}
    assert "bins" not in names
    assert {a["href"] for a in reader.all("a") if a["href"][0] == "#"} >= {"#privacy", "#table"}
    assert "#bins" not in {a["href"] for a in reader.all("a")}


def test_many_levels_have_a_page():
    levels = [f"level number {i}" for i in range(40)]
    many = make_release("wage ~ g", Domain({"wage": (0, 9), "g": levels}))
    Reader(page.render(make_results(release=many, family=_family(np.ones(40))), rng=0))


def test_a_smaller_model_has_a_page(results):
    smaller = results.release.ols("np.log(wage) ~ educ")
    reader = Reader(page.render(smaller, rng=0))
    assert "np.log(wage) ~ educ" in "".join(reader.words)


def test_the_page_needs_no_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert page.render(make_results(), rng=0).startswith("<!doctype html>")


def test_where_the_page_is_written(tmp_path):
    results = make_results()
    path = results.report(tmp_path / "page.html", title="Mine", rng=0)
    assert path == tmp_path / "page.html"
    assert "<title>Mine</title>" in path.read_text(encoding="utf-8")
    with pytest.raises(ReleaseError, match="is a folder"):
        results.report(tmp_path)
    with pytest.raises(ReleaseError, match="does not exist"):
        results.report(tmp_path / "nowhere" / "page.html")


def test_data_steward_and_date_are_shown_and_cited(tmp_path):
    path = make_results().report(
        tmp_path / "page.html",
        data=f"Wage survey {EVIL}",
        steward="Statistical Office",
        date=datetime.date(2026, 11, 18),
        rng=0,
    )
    text = path.read_text(encoding="utf-8")
    reader = Reader(text)
    assert text.count("<script") == 1
    shown = [word for word in reader.words if word.strip()]
    place = shown.index("Data")
    assert shown[place : place + 6] == [
        "Data", f"Wage survey {EVIL}", "Steward", "Statistical Office", "Date", "2026-11-18",
    ]  # fmt: skip
    assert f"Statistical Office (2026). Wage survey {EVIL}." in shown
    plain = page.render(make_results(), rng=0)
    assert 'class="about"' not in plain
    assert "The data:" not in plain


def test_what_is_known_of_the_data_is_cited():
    assert Origin.of("Survey", None, "2024-05-01").citation == "Survey (2024)."
    assert Origin.of("Survey", "Office", None).citation == "Office. Survey."
    assert Origin.of(None, "Office", "May 2024").citation == ""
    assert Origin.of(" a \n b ", None, None).rows == [("Data", "a b")]


@pytest.mark.parametrize("value", ["", "  ", "x" * 301, 3, pd.DataFrame({"secret": [77]})])
def test_facts_about_the_data_are_short_texts(tmp_path, value):
    with pytest.raises(ReleaseError, match="data must be a text of at most 300 letters") as caught:
        make_results().report(tmp_path / "page.html", data=value)
    assert "77" not in str(caught.value)
    with pytest.raises(ArgumentError, match="did you mean 'steward'"):
        make_results().report(tmp_path / "page.html", stewart="Office")


def test_the_size_of_the_synthetic_table_is_kept_within_bounds():
    large = {name: replace(e, nobs=1e7) for name, e in make_results()._family.items()}
    reader = Reader(page.render(make_results(family=large), rng=0))
    rows = download(reader, "synthetic.csv").decode().count("\n") - 1
    assert rows == page.MOST_ROWS
    reader = Reader(page.render(make_results(), size=100, rng=0))
    assert download(reader, "synthetic.csv").decode().count("\n") == 101


def test_a_table_that_is_given_is_shown_and_offered(results, tmp_path):
    table = results.synthesize(size=300, rng=5)
    path = results.report(tmp_path / "page.html", synthetic=table)
    offered = download(Reader(path.read_text(encoding="utf-8")), "synthetic.csv").decode()
    np.testing.assert_allclose(pd.read_csv(io.StringIO(offered))["wage"], table["wage"], rtol=1e-8)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.37, 0.61), (1e-6, 3e-6), (0, 12345.0)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-9 <= tick <= high * (1 + 1e-9) for tick in found)
    assert ticks(0, 3, 10, integer=True) == [0, 1, 2, 3]
    assert ticks(1.0, 1.0) == [1.0]
    assert shorten("abcdefghij", 40.0) == "abcde…"


def test_shades_are_darkest_where_most_records_are(results):
    density = pictures.density(results.release, "educ", "exper")
    drawn = charts.density_chart(density)
    used = set(map(int, re.findall(r'<path d="[^"]*" class="q(\d)', drawn)))
    assert max(used) == charts.LEVELS - 1
    cells = re.findall(r'd="([^"]*)" class="q', drawn)
    assert sum(d.count("M") for d in cells) == density.values.size


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser.Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_in_a_browser(window, text, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    window.events.clear()
    window.open(path, width)
    assert window.value("document.documentElement.scrollWidth") <= width
    assert window.value("document.getElementById('control').hidden") is False
    _move_the_slider(window)
    assert window.requests() == []
    assert window.complaints() == []


def _move_the_slider(window):
    before = window.value("document.getElementById('reading').textContent")
    assert before == f"At delta = 1e-6, epsilon = {gdp.epsilon(1.0, 1e-6):.3g}."
    window.value(
        "(s => { s.value = 0; s.dispatchEvent(new Event('input')); })"
        "(document.getElementById('delta'))"
    )
    after = window.value("document.getElementById('reading').textContent")
    assert after == f"At delta = 1e-1, epsilon = {gdp.epsilon(1.0, 0.1):.3g}."
    chart = "document.querySelector('#curve svg')"
    place = window.value(
        f"(r => [r.left + 0.9 * r.width, r.top + r.height / 2])({chart}.getBoundingClientRect())"
    )
    window.value(f"{chart}.scrollIntoView({{block: 'center'}})")
    window.value(f"{chart}.dispatchEvent(new PointerEvent('pointerdown', {{clientX: {place[0]}}}))")
    assert window.value("Number(document.getElementById('delta').value)") > 30


@needs_chromium
def test_on_paper_nothing_is_folded(window, text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    window.open(path)
    unfolded = "document.querySelectorAll('details[open]').length"
    window.value("document.querySelector('details').open = true")
    window.value("window.dispatchEvent(new Event('beforeprint'))")
    assert window.value(unfolded) == 2
    window.call("Emulation.setEmulatedMedia", media="print")
    try:
        # A4 between margins of a centimetre.
        window.call(
            "Emulation.setDeviceMetricsOverride",
            width=718,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        assert window.value("document.documentElement.scrollWidth") <= 718
    finally:
        window.call("Emulation.setEmulatedMedia", media="")
    window.value("window.dispatchEvent(new Event('afterprint'))")
    assert window.value(unfolded) == 1


@needs_chromium
def test_on_a_phone_a_wide_table_says_that_it_scrolls_and_keeps_its_terms(window, text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    table = "document.querySelector('#table .scroll')"
    told = f"{table}.dataset.more || ''"
    window.open(path, 1280)
    assert window.value(told) == ""
    window.open(path, 390)
    assert window.value(told) == "yes"
    hint = window.value(f"getComputedStyle({table}, '::before').content")
    assert "scroll sideways" in hint
    term = f"{table}.querySelector('tbody th').getBoundingClientRect().left"
    before = window.value(term)
    window.value(f"{table}.scrollLeft = 120")
    assert window.value(f"{table}.scrollLeft") == 120
    assert window.value(term) == before >= 0
    window.value(f"{table}.scrollLeft = 10000")
    window.value(f"{table}.dispatchEvent(new Event('scroll'))")
    assert window.value(told) == "read"
    assert window.value("document.documentElement.scrollWidth") <= 390


@needs_chromium
def test_on_paper_tables_and_legends_stay_whole(window, text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    window.open(path)
    window.call("Emulation.setEmulatedMedia", media="print")
    try:
        for kind in (".scroll", ".keep", ".legend", "figure", ".quote"):
            found = window.value(
                f"[...new Set([...document.querySelectorAll('{kind}')]"
                ".map(one => getComputedStyle(one).breakInside))].join()"
            )
            assert found == "avoid", kind
        # Each legend of panels is in one block with them.
        assert window.value(
            "[...document.querySelectorAll('.panels')].every(one => one.closest('.keep'))"
        )
    finally:
        window.call("Emulation.setEmulatedMedia", media="")


@needs_chromium
def test_an_attack_stays_words_in_a_browser(window, tmp_path):
    path: Path = evil_results().report(tmp_path / "page.html", rng=0)
    window.events.clear()
    window.open(path)
    assert window.value("document.title").startswith("What goes with wage")
    assert window.value("document.querySelectorAll('script').length") == 1
    assert window.requests() == []
    assert window.complaints() == []


@needs_chromium
def test_without_scripts_the_curve_is_still_there(window, text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    window.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        window.open(path)
        assert window.value("document.getElementById('control').hidden") is True
        height = window.value("document.querySelector('.curve').getBoundingClientRect().height")
        assert height > 50
    finally:
        window.call("Emulation.setScriptExecutionDisabled", value=False)
