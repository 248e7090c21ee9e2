"""The pages in a browser; `make browser` installs the packages and runs these tests.
They open a small report and the one in `reports/` or in the folder TILEWAVE_REPORTS."""

import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tilewave.report import site, studies
from tilewave.theory import tiling

if os.environ.get("CI"):
    pytest.skip("a browser is for people's machines, not for CI", allow_module_level=True)
WHERE = "`make browser` installs what the tests in a browser need"
sync_api = pytest.importorskip("playwright.sync_api", reason=WHERE)
axe = pytest.importorskip("axe_playwright_python", reason=WHERE)

ROOT = Path(__file__).parents[2]
AXE = Path(axe.__file__).with_name("axe.min.js")
PHONE = {"viewport": {"width": 360, "height": 740}}
TURNED = {"viewport": {"width": 844, "height": 390}}
PAPER = {"viewport": {"width": 718, "height": 1046}}
"""A4 within the margins of page.css, in pixels of 1/96 inch."""
KB = 1000


def installed(playwright: Any) -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), playwright.chromium.executable_path)
    return path if Path(path).is_file() else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        if not (path := installed(playwright)):
            pytest.skip(f"no Chromium: {WHERE}")
        running = playwright.chromium.launch(executable_path=path)
        yield running
        running.close()


def small(folder: Path) -> Path:
    """Write a small report with a table with filters."""
    from test_report import RECORDED, SmallRun

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run = SmallRun(folder, RECORDED)
        run.figure("right")
        run.figure("probes")
        rows = [(f"case {n}", ("wrong", "correct")[n % 2], (n * 7) % 10 - 4.5) for n in range(12)]
        rows.append(("empty", "correct", None))
        table = pd.DataFrame(rows, columns=["who", "verdict", "gain"])
        table.to_csv("reports/figures/right.csv", index=False)
        site.write(run.project, run.inputs, "reports/index.html")
    return folder / "reports"


@pytest.fixture(scope="module", params=["small", "existing"])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "small":
        return small(tmp_path_factory.mktemp("small"))
    folder = Path(os.environ.get("TILEWAVE_REPORTS", ROOT / "reports")).resolve()
    if not (folder / "index.html").is_file():
        pytest.skip(f"no report in {folder}")
    return folder


def pages(reports: Path, folder: str = "") -> list[str]:
    return sorted(str(p.relative_to(reports)) for p in (reports / folder).rglob("*.html"))


def examples(reports: Path) -> list[str]:
    """Return all top-level pages, and the smallest and largest page of each folder."""
    names = [name for name in pages(reports) if "/" not in name]
    for folder in {name.partition("/")[0] for name in pages(reports)} - {*names}:
        by_size = sorted(pages(reports, folder), key=lambda name: (reports / name).stat().st_size)
        names += {by_size[0], by_size[-1]}
    return sorted(names)


class Visits:
    """Opened pages, with their errors and their requests outside the report."""

    def __init__(self, browser: Any, reports: Path) -> None:
        self.browser, self.root = browser, reports.as_uri() + "/"
        self.wrong: list[str] = []
        self.open: dict[str, Any] = {}

    def __call__(self, address: str, **context: Any) -> Any:
        key = repr(context)
        if key not in self.open:
            session = self.browser.new_context(reduced_motion="reduce", **context)
            self.open[key] = page = session.new_page()
            page.on("console", self.check_message)
            page.on("pageerror", lambda error: self.wrong.append(str(error)))
            page.on("request", lambda request: self.check_request(request.url))
        page = self.open[key]
        page.goto("about:blank")
        page.goto(self.root + address)
        return page

    def check_message(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def check_request(self, url: str) -> None:
        if not url.startswith((self.root, "data:", "about:")):
            self.wrong.append(f"request to {url}")


@pytest.fixture
def visit(browser: Any, reports: Path) -> Iterator[Visits]:
    visits = Visits(browser, reports)
    yield visits
    for page in visits.open.values():
        page.context.close()
    assert visits.wrong == []


def opened(page: Any) -> Any:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    return page


def texts(part: Any, selector: str) -> list[str]:
    return [text.strip() for text in part.locator(selector).all_inner_texts()]


def test_pages_are_small(reports: Path) -> None:
    assert (reports / "index.html").stat().st_size < 150 * KB
    assert [p for p in pages(reports) if (reports / p).stat().st_size > 400 * KB] == []


def test_every_link_lands_on_its_target(visit: Visits, reports: Path) -> None:
    targets: dict[str, str] = {}
    for name in pages(reports):
        page = visit(name)
        for address in page.evaluate(
            "[...document.querySelectorAll('a[href]:not([rel~=external]), img[src], source[srcset]')]"
            ".map(one => one.href || one.src || new URL(one.srcset, document.baseURI).href)"
        ):
            targets.setdefault(address, name)
        # Only Nsight Compute's messages name pages elsewhere, and nothing is loaded from there.
        outside = page.evaluate(
            "[...document.querySelectorAll('[rel~=external]')].map(one => [one.tagName, one.href])"
        )
        assert all(tag == "A" and to.startswith("https://docs.nvidia.com/") for tag, to in outside)
        broken = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth)")
        assert broken == []
    for address, source in targets.items():
        assert address.startswith(visit.root), (source, address)
        file, _, anchor = address.removeprefix(visit.root).partition("#")
        assert (reports / file).is_file(), (source, address)
        if anchor:
            top, end, seen = visit(f"{file}#{anchor}").evaluate(
                """async id => {
                  await new Promise(then => setTimeout(then, 50));
                  const one = document.getElementById(id), all = document.documentElement;
                  if (!one) return [0, false, false];
                  return [one.getBoundingClientRect().top,
                          scrollY + innerHeight >= all.scrollHeight - 2, one.checkVisibility()];
                }""",
                anchor,
            )
            assert seen and (0 <= top <= 40 or (end and top >= 0)), (source, address, top)


def test_a_table_sorts_and_filters(visit: Visits, reports: Path) -> None:
    page = next(page for name in pages(reports, "study")
                if (page := visit(name)).locator(".filters select").count())  # fmt: skip
    bar = page.locator(".filters:has(select)").first
    table = page.locator(".filters:has(select) + .scroll table").first
    rows, cells = table.locator("tbody tr"), table.locator("tbody tr:visible")
    total = rows.count()
    for at, header in enumerate(table.locator("thead th").all(), 1):
        for way in ("ascending", "descending"):
            header.locator("button").press("Enter")
            assert header.get_attribute("aria-sort") == way
            shown = texts(table, f"tbody tr > :nth-child({at})")
            filled = [text for text in shown if text]
            assert shown[: len(filled)] == filled, "empty cells stay last"
            if "n" in (header.get_attribute("class") or "").split():
                signs = str.maketrans({",": "", "−": "-", "∞": "inf"})
                numbers = [float(text.translate(signs)) for text in filled]
                assert numbers == sorted(numbers, reverse=way == "descending")
        assert table.locator("[aria-sort]").count() == 1
    menu = bar.locator("select").last
    choice = menu.locator("option").nth(1).inner_text()
    menu.select_option(choice)
    shown = cells.count()
    assert 0 < shown < total and bar.locator("output").inner_text() == f"{shown} of {total} rows"
    assert all(choice in row for row in cells.all_inner_texts())
    menu.select_option(index=0)
    word = rows.last.locator("td").first.inner_text()
    bar.locator("input").fill(word.upper())
    assert 0 < cells.count() < total
    assert all(word.lower() in row.lower() for row in cells.all_inner_texts())
    bar.locator("input").fill("")
    assert cells.count() == total


def test_the_explorer_equals_the_theory(visit: Visits) -> None:
    draw, page = random.Random(50), visit("explorer.html")
    for _ in range(50):
        sizes = [draw.randint(1, 30000) for _ in "mnk"]
        tile = [draw.choice((16, 64, 96, 128, 256)) for _ in "mn"]
        sms, blocks = draw.randint(1, 148), draw.randint(1, 8)
        names = ("m", "n", "k", "rows", "columns", "sms", "blocks")
        setting = dict(zip(names, (*sizes, *tile, sms, blocks), strict=True))
        for name, value in setting.items():
            page.locator(f"#explorer-{name}").fill(str(value))
        shape = dict(zip("mnk", sizes))
        share = tiling.parallel_efficiency(shape, (tile[0], tile[1]), sms, blocks)
        shown = float(texts(page, "#explorer-values td")[6].removesuffix(" %"))
        assert shown == pytest.approx(100 * share, abs=0.051), setting


def test_the_address_sets_the_explorers_inputs(visit: Visits) -> None:
    page = visit("explorer.html#m=2816&n=1664&rows=0&sms=many")
    inputs = {name: page.locator(f"#explorer-{name}").input_value() for name in ("m", "n", "rows")}
    assert (inputs["m"], inputs["n"]) == ("2816", "1664") and int(inputs["rows"]) > 0


@pytest.mark.parametrize(
    "context",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"color_scheme": "dark", **PHONE}],
    ids=["light", "dark", "phone"],
)
def test_axe_finds_nothing(visit: Visits, reports: Path, context: dict[str, Any]) -> None:
    violations = {}
    for name in examples(reports):
        page = opened(visit(name, **context))
        page.evaluate(AXE.read_text("utf-8"))
        violated = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        for violation in violated:
            nodes = [node["html"][:200] for node in violation["nodes"][:3]]
            violations[name, violation["id"]] = violation["impact"], nodes
    assert violations == {}


def test_everything_is_readable_without_script(visit: Visits, reports: Path) -> None:
    for name in pages(reports):
        page = opened(visit(name, java_script_enabled=False))
        assert page.locator("button:visible, select:visible").count() == 0, name
        hidden = page.evaluate(
            """() => {
              // What only a script fills: inputs, drawings and their legend; tooltips of an SVG.
              const idle = "script, noscript, [data-needs-script], svg, .key, #explorer-source";
              return [...document.querySelectorAll("main *")]
                .filter(one => one.textContent.trim() && !one.closest(idle) && !one.closest(".for-phones"))
                .filter(one => !one.checkVisibility({visibilityProperty: true}))
                .map(one => one.outerHTML.slice(0, 100));
            }"""
        )
        assert hidden == [], name


def test_the_index_loads_within_a_second_on_a_slow_machine(visit: Visits) -> None:
    page = visit("index.html")
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    took = []
    for _ in range(4):
        page.reload()
        took.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    assert min(took) < 1000


def test_pages_fit_a_phone(visit: Visits, reports: Path) -> None:
    tiny, wide = {}, {}
    for name in pages(reports):
        page = opened(visit(name, **PHONE))
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
        tiny[name] = page.evaluate(
            """() => {
              const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = new Set();
              for (let at; (at = walk.nextNode()); ) {
                const one = at.parentElement, box = one.getScreenCTM?.();
                const scale = box ? Math.hypot(box.a, box.b) : 1; // a drawing's, as it is displayed
                const size = parseFloat(getComputedStyle(one).fontSize) * scale;
                if (at.data.trim() && one.checkVisibility() && size < 11.99)
                  found.add(`${size} ${one.outerHTML.slice(0, 100)}`);
              }
              return [...found].slice(0, 5);
            }"""
        )
    assert {name: tags for name, tags in tiny.items() if tags} == {}
    assert {name: width for name, width in wide.items() if width > PHONE["viewport"]["width"]} == {}


@pytest.mark.parametrize("context", [PHONE, TURNED], ids=["upright", "turned"])
def test_text_of_a_figure_is_readable_on_a_phone(visit, reports, context):
    """Text is drawn as outlines: its size is that in the file times the display's scale."""
    from test_report import smallest_font

    sizes = {}
    for name in pages(reports, "study"):
        image = visit(name, **context).locator("picture:has(source) img").first
        address, width = image.evaluate("one => [one.currentSrc, one.clientWidth]")
        file = reports / address.removeprefix(visit.root)
        shown = smallest_font(file) * width / studies.svg_size(file)[0]
        if not 12 <= shown <= 20:
            sizes[name] = shown
    assert sizes == {}


def test_the_source_is_seen_on_a_phone(visit: Visits, reports: Path) -> None:
    for name in pages(reports, "kernel"):
        page = opened(visit(name, **PHONE))
        for row in page.locator(".listing tbody tr:first-child:visible").all()[:4]:
            left, right, box = row.evaluate(
                """row => [row.lastElementChild.getBoundingClientRect(),
                           row.closest('.box').getBoundingClientRect()]
                  .flatMap((one, at) => at ? [one.right] : [one.left, one.right])"""
            )
            assert 0 <= left < right <= box + 1, name


def test_the_table_of_claims_needs_no_scrolling_sideways(visit, reports):
    name = "study/claims.html"
    if not (reports / name).is_file():
        pytest.skip("no claims in this report")
    box = visit(name, viewport={"width": 1280, "height": 900}).locator(".scroll").last
    inside, outside = box.evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert inside <= outside


def test_a_study_prints_on_a_page(visit: Visits, reports: Path) -> None:
    misprinted = {}
    for name in pages(reports, "study"):
        page = visit(name, **PAPER)
        pdf = page.pdf(format="A4", prefer_css_page_size=True)
        printed = len(re.findall(rb"/Type\s*/Page\b", pdf))
        page.emulate_media(media="print")
        wide = page.evaluate("document.documentElement.scrollWidth")
        end = page.evaluate("document.querySelector('figure').getBoundingClientRect().bottom")
        most = 3 if page.locator(".long").count() else 1  # a table that readers come for
        if not (1 <= printed <= most and wide <= 718 and end <= 1046):
            misprinted[name] = f"{printed} pages, {wide} px wide, the figure ends at {end:.0f} px"
    assert misprinted == {}


def test_the_keyboard_is_enough(visit: Visits, reports: Path) -> None:
    for name in examples(reports):
        page = visit(name)
        page.keyboard.press("Tab")
        skip = page.locator(".skip:focus")
        assert skip.is_visible() and skip.bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        for _ in range(12):
            page.keyboard.press("Tab")
            tag, outline = page.evaluate(
                "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline != "none" or tag == "BODY", (name, tag)


def test_a_figure_has_a_text_alternative(visit: Visits, reports: Path) -> None:
    for name in pages(reports, "study"):
        page = visit(name)
        sentence = texts(page, ".takeaway") or texts(page, ".question")
        for image in page.locator("figure img").all():
            assert sentence[0].replace("\xa0", " ") in image.get_attribute("alt"), name
