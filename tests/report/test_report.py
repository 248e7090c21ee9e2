"""The report: texts and links of the pages; the same tables give the same bytes."""

import base64
import hashlib
import html.parser
import json
import math
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from samples import DATA
from tilewave import plots
from tilewave.kernel.front_matter import idea
from tilewave.kernel.result import Result
from tilewave.pipeline import project as projects
from tilewave.pipeline import tables as tidy
from tilewave.pipeline.resolving import resolve
from tilewave.plots import base
from tilewave.plots.base import StudyData
from tilewave.report import (
    FIGURE_FILES,
    FIGURE_KINDS,
    cells,
    figures,
    rendering,
    site,
    studies,
    summary,
)

GPU = {"id": "e1", "gpu": "NVIDIA H200", "sms": 132, "driver": "580.1", "commit": "abc",
       "l2_bytes": 62914560, "packages": {"numpy": "2.4"}, "cpu": "Xeon"}  # fmt: skip
HOST = {"id": "h1", "gpu": None, "cpu": "Laptop CPU", "packages": {}, "commit": "def"}
DEVICE = {"sms": 132, "arch": 90}
RECORDED: dict[str, Any] = {
    "live": False, "label": "NVIDIA H200", "recorded": "nvidia_h200", "environment": "e1",
    "environments": {"e1": GPU, "h1": HOST}, "device": DEVICE, "arch": 90,
    "reason": "no NVIDIA GPU on this machine", "host": "h1",
}  # fmt: skip
LIVE = RECORDED | {
    "live": True, "recorded": None, "reason": "", "host": "e1", "environments": {"e1": GPU},
}  # fmt: skip
NOTHING = RECORDED | {
    "label": "no GPU", "recorded": None, "environment": "h1", "environments": {"h1": HOST},
}  # fmt: skip


class SmallRun:
    """A small project with invented results."""

    def __init__(self, folder: Path, target: dict[str, Any]) -> None:
        (folder / "kernels").mkdir()
        for name in ("first", "tiled", "probe"):
            shutil.copyfile(DATA / f"report_{name}.cu", folder / "kernels" / f"{name}.cu")
        config = {
            "kernel_folders": [str(folder / "kernels")],
            "studies": {
                "right": {
                    "plot": "correctness", "title": "Right & wrong", "question": "Is a < b?",
                    "cases": [{"macros": "product", "shapes": [64, 128, "8x12x8"]}],
                },
                "probes": {
                    "plot": "shared_access", "title": "Probes", "question": "Expected?",
                    "cases": [{"kernels": ["probe"], "operation": "probe"}],
                },
            },
        }  # fmt: skip
        self.project = projects.load(config, "test.yaml")
        self.target = target
        used = {"registers": 40, "static_shared_bytes": 2048}
        used |= {"spill_store_bytes": 0, "spill_load_bytes": 4}
        self.compiled: dict[str, dict[str, Any]] = {}
        for case in self.project.plan.cases.values():
            variant, name = case.variant, case.kernel.name
            entry = {"status": "ok", "reason": "", "macros": variant.names}
            entry |= {"sha256": "0123456789abcdef" * 4, "resources": {name: used}}
            document = {"kernel": name, "arch": "sm_90", "variants": {}}
            self.compiled.setdefault(name, document)["variants"][variant.id] = {"sm_90": entry}
        self.stalls: list[dict[str, Any]] = []
        broken = self.compiled["tiled"]["variants"]["tiled-tile32"]["sm_90"]
        broken |= {"status": "failed to compile", "reason": "tiled.cu:9: <error>", "sha256": ""}
        self.write_tables()

    def results(self) -> list[Result]:
        live, results = self.target["live"], []
        source = "events" if live else "recorded:nvidia_h200"
        for case in self.project.plan.cases.values():
            end = {
                "tiled-tile32": ("failed to compile", "tiled.cu:9: <error>"),
                "tiled@8x12x8": ("unsupported", "n = 12 is not a multiple of 8"),
            }.get(case.id if case.id == "tiled@8x12x8" else case.variant.id)
            if self.target["label"] == "no GPU" and not end:
                end = "not measured", self.target["reason"]
            if end:
                results.append(Result("check", case.id, *end))
                continue
            verdict = "wrong" if case.id == "first@64x64x64" else "correct"
            error = {"metric": "max_error", "value": 0.5, "unit": ""}
            more = {"environment": "e1", "source": source, "figures": [error], "verdict": verdict}
            more["notes"] = {"relative_tolerance": 0.7}
            results.append(Result("check", case.id, "ok", key=f"key-{case.id}", **more))
            if case.variant.kernel.name == "probe":
                figure = {"metric": "wavefronts", "value": 2.0, "unit": "wavefront"}
                more = {"environment": "e1", "source": "counters" if live else source}
                more |= {"key": f"c-{case.id}", "figures": [figure]}
                results.append(Result("counters", case.id, "ok", **more))
        return results

    def write_tables(self) -> None:
        results = self.results()
        verdicts = tidy.verdicts(entry for entry in results if entry.stage == "check")
        resolved = [resolve(case, self.target) for case in self.project.plan.cases.values()]
        compiled: dict[str, Any] = {}
        for document in self.compiled.values():
            compiled |= document["variants"]
        cases = tidy.cases_table(resolved, compiled, "sm_90", verdicts)
        rows = [
            {"case": f"tiled@{n}x{n}x{n}", "key": "i", "environment": "e1", "source": "counters",
             "stage": "counters", "file": "tiled.cu", "via": "", "kernel_line": line,
             "address": 16 * i, "opcode": "LDS", "executed": 2.0, "wavefronts_shared": 1000.0 * n,
             "wavefronts_shared_ideal": 500.0 * n, "line": line, "text": ""}
            for n in (64, 128) for i, line in enumerate((20, 20, 0))
        ]  # fmt: skip
        frames = {
            "cases": cases,
            "records": tidy.records_table(cases, results, verdicts),
            "instructions": pd.DataFrame(rows),
            "stalls": pd.DataFrame(self.stalls, columns=None if self.stalls else ["case", "key"]),
        }
        folder = Path("results/tables")
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in frames.items():
            frame.to_parquet(folder / f"{name}.parquet", index=False)
        Path("results/target.json").write_text(json.dumps(self.target))
        Path("results/kernels.json").write_text(json.dumps(self.compiled))
        Path("results/accesses.json").write_text("{}")
        files = {name: f"results/{name}.json" for name in ("target", "kernels", "accesses")}
        files |= {name: str(folder / f"{name}.parquet") for name in frames}
        self.inputs = SimpleNamespace(**files)

    def page(self, name: str = "index") -> str:
        site.write(self.project, self.inputs, "reports/index.html")
        return Path(f"reports/{name}.html").read_text(encoding="utf-8")

    def study(self, name: str) -> StudyData:
        return figures.of_tables(self.project, name, *figures.loaded(self.inputs))

    def figure(self, name: str, folder: str = "reports/figures") -> dict[str, bytes]:
        study = self.study(name)
        paths = [f"{folder}/{name}.{kind}" for kind in FIGURE_KINDS]
        figures.write(self.project, study, paths)
        return {path.removeprefix(f"{folder}/"): Path(path).read_bytes() for path in paths}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return lambda target=RECORDED: SmallRun(tmp_path, target)


class Links(html.parser.HTMLParser):
    """Addresses and ids of a page whose tags nest."""

    VOID = frozenset({"meta", "link", "img", "br", "source", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def links(text: str) -> Links:
    parser = Links()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    ("target", "head", "shown", "hidden"),
    [
        (RECORDED, "Recorded on NVIDIA H200 — not", "no value on this page", "Measured live"),
        (LIVE, "Measured live on NVIDIA H200", "this machine, measured live", "recorded:nvidia"),
        (NOTHING, "Nothing measured on a GPU", "<b>0 of 11</b> cases", "on NVIDIA H200"),
    ],
)
def test_figures_never_read_as_another_machines(make, target, head, shown, hidden):
    text = make(target).page()
    source = re.search(r'<section id="data".*?<b>(.*?)</b>', text, re.S)
    assert source and source[1].startswith(head)
    assert shown in text and target["reason"] in text and hidden not in text
    assert ("recorded:nvidia_h200" in text) == (target is RECORDED)


@pytest.mark.parametrize("live", [True, False])
def test_a_target_without_any_figure_says_so(live: bool) -> None:
    records = pd.DataFrame({"metric": [""], "value": [math.nan], "source": [""]})
    banner = summary.banner(LIVE if live else RECORDED, records)
    said = "Nothing was measured" if live else "none of it fits"
    assert banner.kind == "nothing" and said in banner.headline


def test_every_link_of_every_page_lands_and_nothing_comes_from_outside(make: Any) -> None:
    run = make()
    run.figure("right")
    run.page()
    pages = {path: links(path.read_text("utf-8")) for path in Path("reports").rglob("*.html")}
    assert len(pages) == 4 + 2 + 3  # index, kernels, explorer and glossary, studies, kernels
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids))
        for address in page.addresses:
            file, _, anchor = address.partition("#")
            target = path.parent / file if file else path
            assert address == "data:," or target.is_file(), (path, address)
            if anchor and target.suffix == ".html":
                assert anchor in pages[Path(os.path.normpath(target))].ids, (path, address)
        text = path.read_text("utf-8")
        assert "http" not in re.sub(r"[\w.]*https?_|http-equiv", "", text)
        assert "<script>" in text and " style=" not in text and " onclick" not in text
    text = Path("reports/kernel/tiled.html").read_text("utf-8")
    assert "Tiles &lt;b&gt;&amp; more&lt;/b&gt;" in text
    assert "// &lt;script&gt;" in text and "&lt;error&gt;" in text
    assert "This figure was not drawn." in Path("reports/study/probes.html").read_text("utf-8")


def test_the_policy_names_the_style_and_script_that_the_page_has(make: Any) -> None:
    text = make().page()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy
    for tag in ("style", "script"):
        inner = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy[1]


def test_same_tables_give_the_same_bytes(make: Any) -> None:
    run = make()
    first, second = run.figure("right"), run.figure("right", "again")
    assert first == second

    def pages() -> dict[Path, bytes]:
        run.page()
        return {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()}

    assert pages() == pages()
    Path(run.inputs.kernels).write_text("{}")  # without what was compiled
    assert "The first rung" in run.page("kernels")


def test_index_summary_and_junit_say_what_is_not_right(make: Any) -> None:
    run = make()
    text = run.page()
    assert "<b>7 of 11</b> cases checked" in text
    assert "n = 12 is not a multiple of 8" in text
    assert text.index('tag bad">wrong') < text.index('tag bad">failed to compile')
    first, tiled = (f'<a href="kernel/{name}.html">{name}</a>' for name in ("first", "tiled"))
    assert f"Not passed: 4 cases are wrong or failed, in {first}, {tiled}.</p>" in text
    kernels = Path("reports/kernels.html").read_text("utf-8")
    for name, shown in (("first", "1 wrong"), ("tiled", '>40</td><td class="n">50.0</td>')):
        start = f'<tr><td class="c"><a href="kernel/{name}.html">'
        (row,) = re.findall(f"{start}.*?</tr>", kernels, re.S)
        assert shown in row
    summed = Path("reports/summary.md").read_text("utf-8")
    assert summed.startswith("# Recorded on NVIDIA H200") and "| wrong | 1 | check |" in summed
    assert "\nNot passed: 4 cases are wrong or failed, in first, tiled.\n" in summed
    suite = ElementTree.parse("reports/junit.xml").getroot()
    outcomes = {test.get("name"): [element.tag for element in test] for test in suite}
    assert suite.attrib == {"name": "tilewave", "tests": "11", "failures": "4", "skipped": "1"}
    assert outcomes["first@64x64x64"] == ["failure"] and outcomes["first@128x128x128"] == []
    assert outcomes["tiled@8x12x8"] == ["skipped"]
    page = run.page("kernel/first")
    failed = page[page.index("<h2>What failed</h2>") : page.index("<h2>Resources</h2>")]
    assert '<span class="tag bad">wrong</span>' in failed and "first@64x64x64" in failed
    assert "not measured" not in failed and "n = 12 is not a multiple of 8" not in failed


def test_a_finding_stands_on_the_index_and_in_the_figure(make, monkeypatch) -> None:
    from tilewave.plots import correctness

    run = make()
    for name, value in {
        "takeaway": lambda study, table: f"{len(table)} rows & an excess",
        "summary": lambda table: table,
        "HEADLINE": True,
    }.items():
        monkeypatch.setattr(correctness, name, value, raising=False)
    offers = plots.offers
    monkeypatch.setattr(plots, "offers", lambda *asks: asks[1] != "summary" and offers(*asks))
    files = run.figure("right")
    assert b",0.7," in files["right.csv"], "the tolerance of the check"
    assert json.loads(files["right.json"])["takeaway"] == "9 rows & an excess"
    assert files["right.txt"].startswith(b"9 rows & an excess\n")
    assert '9 rows &amp; an <a class="term" href="glossary.html#excess">excess</a>' in run.page()
    assert Path("reports/study/right.html").read_text("utf-8").count("9 rows &amp; an") == 2


def test_a_summary_stands_in_place_of_the_data(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(RECORDED)
    for folder, text in (("figures", "remark"), ("tables", "answer")):
        (Path("reports") / folder).mkdir(parents=True)
        Path(f"reports/{folder}/right.csv").write_text(f"{text}\n{text}s\n")
    assert ">answers</td>" not in run.page("study/right"), "a file of another origin"
    monkeypatch.setattr(plots, "offers", lambda *asks: asks == ("correctness", "summary"))
    text = run.page("study/right")
    assert ">answers</td>" in text and ">remarks</td>" not in text
    assert '<a href="../tables/right.csv">summary</a>' in text


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("correctness", "table"),
        ("correctness", "draw"),
        ("ladder", "summary"),
        ("correctness", "takeaway"),
    ],
)
def test_a_study_that_raises_is_a_box_and_is_not_kept(make, monkeypatch, name, what) -> None:
    run, plot = make(), plots.load(name)
    run.project.config.studies["right"].plot = name
    raised = SystemExit(0) if what == "draw" else KeyError("c\udcff\x00" + 999 * "x")

    def fails(*arguments: Any) -> None:
        raise raised

    paths = [path.format(study="right") for path in (*FIGURE_FILES, "tables/{study}.csv")]
    outputs = [Path("reports") / path for path in paths]
    with monkeypatch.context() as broken:
        broken.setattr(plot, what, fails)
        drawn, failed = figures.write_all(run.project, ["right"], run.inputs, outputs)
    assert drawn == "0 of 1 drawn" and "raise raised" in failed["right"].trace
    assert all(path.stat().st_size for path in outputs)
    reason = "SystemExit: 0" if what == "draw" else "KeyError: 'c"
    assert failed["right"].sentence.startswith(reason) and len(failed["right"].sentence) < 500
    assert name in failed["right"].sentence
    text = run.page("study/right")
    assert "This figure was not drawn." in text and "../figures/right.svg" not in text
    assert links(text) and "1 figure was not drawn (right)" in run.page()
    drawn, failed = figures.write_all(run.project, ["right"], run.inputs, outputs)
    assert (drawn, failed) == ("1 of 1 drawn", {})
    assert "This figure was not drawn." not in run.page("study/right")


def test_a_study_shows_the_first_rows_of_its_data(make: Any) -> None:
    run = make(RECORDED)
    Path("reports/figures").mkdir(parents=True)
    rows = studies.FIRST_ROWS + 1
    Path("reports/figures/probes.csv").write_text("remark\n" + "words\n" * rows)
    text = run.page("study/probes")
    assert text.count(">words</td>") == studies.FIRST_ROWS
    assert f"first {studies.FIRST_ROWS} of {rows} rows" in text


def test_a_figures_place_is_kept_before_it_is_loaded(make: Any) -> None:
    run = make()
    run.figure("right")
    text = run.page("study/right")
    image = re.search(r'<img src="\.\./figures/right\.svg" width="(\d+)" height="(\d+)"', text)
    assert image and round(float(image[1]) * 25.4 / 96) == 178
    readable = re.search(r'<source [^>]*srcset="\.\./figures/right\.svg" width="(\d+)"', text)
    path = Path("reports/figures/right.svg")
    scales = re.findall(r" scale\(([\d.]+) -[\d.]+\)", path.read_text("utf-8"))
    smallest = (
        min(map(float, scales)) * 100 * 96 / 72
    )  # in pixels of 1/96 inch; an em has 100 units
    shown = smallest * int(readable[1]) / studies.svg_size(path)[0] if readable else 0
    assert 12 <= shown < 12.1, "readable on a phone"


def test_a_kernels_page_shows_resources_changes_and_annotated_source(make: Any) -> None:
    run = make()
    text = run.page("kernel/tiled")
    assert "0123456789ab</td>" in text and "0 / 4" in text
    assert "Every element is read once &amp; kept, in a <a" in text
    assert idea(run.project.kernels["first"]) == []
    assert 'Follows <a class="id" href="first.html">' in text
    assert '<span class="added">+x = t[0] &lt; t[1]; // &lt;script&gt;' in text
    assert '<span class="id">tiled@128x128x128</span>: 384,000' in text  # the larger shape
    assert "384,000 shared-memory wavefronts, 192,000 of them in excess" in text
    assert "128,000 wavefronts belong to no line" in text
    assert '<tr class="hot"><td>20</td><td>4</td><td>256,000</td>' in text
    assert "title: Tiles" not in text  # front matter is hidden


def test_lines_where_warps_wait_are_marked(make: Any) -> None:
    run = make(LIVE)
    counts = [(20, 20, 80), (19, 19, 19), (18, 18, 1)]
    about = {"case": "tiled@128x128x128", "key": "s", "file": "tiled.cu", "via": "", "text": ""}
    rows = [dict(zip(("line", "kernel_line", "samples"), numbers)) for numbers in counts]
    run.stalls = [{**about, "address": 16 * i, **row} for i, row in enumerate(rows)]
    run.write_tables()
    text = run.page("kernel/tiled")
    links(text)
    shown = [re.sub("<.*?>", " ", row).split() for row in re.findall("<tr.*?</tr>", text, re.S)]
    assert ["20", "4", "256,000", "128,000", "80.0"] in [row[:5] for row in shown]
    assert '<tr class="hot waits"><td>20</td>' in text


def test_terms_are_linked_once_and_escaped() -> None:
    text = str(rendering.linked("waves < wave, tile waste and tiles", "g.html"))
    shown = text.replace('<a class="term" href="g.html#', "[").replace("</a>", "]")
    assert shown == '[wave">waves] &lt; wave, [tile-waste">tile waste] and [tile">tiles]'
    for term in rendering.glossary()["terms"]:
        assert term["text"].endswith(".") and rendering.linked(term["text"], "", term["id"])


def test_study_data_keeps_config_order_and_expectations(make: Any) -> None:
    run = make()
    study = run.study("right")
    assert list(study.cases["case"]) == run.project.plan.studies["right"]
    assert set(study.records["case"]) == set(study.cases["case"])
    assert study.environments["e1"]["recorded"] and not study.environments["h1"]["recorded"]
    assert study.target["sms"] == 132
    assert set(study.instructions["wavefronts_shared_excess"]) == {32000.0, 64000.0}
    probes = run.study("probes")
    assert list(probes.cases["wavefronts_expected"]) == [1.0, 2.0]
    assert math.isnan(probes.cases["latency_claimed"][0])
    assert len(probes.instructions) == 0


def test_sidecar_says_where_the_figure_came_from(make: Any) -> None:
    side = json.loads(make().figure("probes")["probes.json"])
    assert (side["question"], side["study"], side["commits"]) == ("Expected?", "probes", ["abc"])
    assert side["keys"] == ["c-probe@even", "c-probe@odd", "key-probe@even", "key-probe@odd"]
    assert side["environments"]["e1"]["gpu"] == "NVIDIA H200"
    assert (side["sources"], side["verdicts"]) == ({"recorded:nvidia_h200": 6}, {"correct": 2})
    assert side["statuses"] == {"check": {"ok": 2}, "counters": {"ok": 2}}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"), (4096.0, "4096"), (1572864.0, "1,572,864"), (393.24, "393.2"),
        (0.57714, "0.5771"), (12.3456, "12.35"), (12345.678, "12,346"), (-54.02, "−54.02"),
        (2e-14, "2e-14"), (0.002, "0.002"), (-1.234e-5, "−1.234e-5"), (math.nan, ""), (math.inf, "∞"), (3.1e17, "3.1e17"),
    ],
)  # fmt: skip
def test_numbers_have_sensible_digits(value: float, shown: str) -> None:
    assert cells.number(value) == shown


def test_table_folds_what_says_the_same_in_every_row() -> None:
    frame = pd.DataFrame(
        {
            "case": ["a@1", "b@1"], "kernel": ["a", "b"], "n": [27648, 27648],
            "TFLOP/s": [1.0, math.nan], "hits": [math.nan] * 2, "status": ["ok", "ok"],
            "reason": [math.nan] * 2,
        }
    )  # fmt: skip
    shown = cells.table(frame)
    assert shown.columns == [("case", False), ("TFLOP/s", True)]
    assert shown.rows == [["a@1", "1"], ["b@1", ""]]
    assert (shown.same, shown.empty) == ([("n", "27,648"), ("status", "ok")], ["hits"])


def test_reasons_that_differ_in_numbers_only_share_a_line() -> None:
    rows = [("a", "time", "predicted 34 s"), ("a", "check", "predicted 34 s"),
            ("b", "time", "predicted 270.5 s")]  # fmt: skip
    records = pd.DataFrame(rows, columns=["case", "stage", "reason"]).assign(status="not measured")
    cases = pd.DataFrame({"case": ["a", "b"], "verdict": ["not checked"] * 2})
    (group,) = summary.troubles(cases, summary.problems(cases, records))
    shown = (group.word, group.stages, group.cases)
    assert shown == ("not measured", "check 1, time 2", ["a", "b"])
    assert group.reason.startswith("predicted 34 s (the numbers differ")
    (group,) = summary.troubles(cases.iloc[::-1], summary.problems(cases, records))
    assert group.cases == ["b", "a"] and group.reason.startswith("predicted 270.5 s (")


def test_every_unchecked_case_is_listed_once_with_the_reason_of_the_first() -> None:
    """A probe that times out as its kernel file says is listed as not checked, not as a failure."""
    reasons = {
        "hang": "no result within 2 s",
        "tiled": "m = 129 is no multiple of 8",
        "late": "no GPU",
    }
    status = {"hang": "timed out", "tiled": "unsupported", "late": "not measured"}
    rows = [
        (case, stage, status[case], reasons[case])
        for case in reasons
        for stage in ("check", "time")
    ]
    records = pd.DataFrame(rows, columns=["case", "stage", "status", "reason"])
    cases = pd.DataFrame(
        {"case": list(reasons), "verdict": "not checked", "ends": ["timed out", "ok", "ok"]}
    )
    groups = summary.troubles(cases, summary.problems(cases, records))
    listed = [case for group in groups for case in group.cases]
    assert sorted(listed) == sorted(cases["case"])
    (hang,) = (group for group in groups if group.cases == ["hang"])
    assert (hang.word, hang.reason) == ("not checked", "timed out: no result within 2 s")
    assert {group.word for group in groups} <= set(summary.MILD)
    cases = cases.assign(ends="ok")
    (failed, *_) = summary.troubles(cases, summary.problems(cases, records))
    assert failed.word == "timed out" and not failed.mild


def test_a_race_that_the_kernel_file_announces_is_no_failure() -> None:
    reason = "thread 1 writes byte 0"
    row = {"case": "p", "stage": "check", "status": "ok", "reason": reason}
    cases = pd.DataFrame({"case": ["p"], "verdict": ["race"], "finds": ["race"]})
    for finds, mild in (("race", True), ("", False)):
        announced = cases.assign(finds=finds)
        (group,) = summary.troubles(announced, summary.problems(announced, pd.DataFrame([row])))
        assert (group.word, group.mild) == ("race", mild) and group.reason.endswith(reason)


def test_without_a_takeaway_the_kernels_speak():
    row: Any = SimpleNamespace(name="k", title="Title", sentence="")
    sentence = "sectors at k.cu:3"
    rows = [row, *[SimpleNamespace(name=f"k{i}", title="", sentence=sentence) for i in range(7)]]
    highlights = site.findings((), rows)
    sentences = [highlight.sentence for highlight in highlights]
    assert sentences == [f"k{i}: sectors at k.cu:3" for i in range(5)]
    assert highlights[0].address == "kernel/k0.html"


def test_the_title_counts_the_drawn_rungs_of_each_dtype() -> None:
    drawn = {"FP32": pd.DataFrame({"share": [3.9, 50.0, 100.4, 40.0]})}
    title = "Why is a CUDA kernel slow? Four FP32 kernels from 4 % to 100 % of cuBLAS"
    assert site.question(drawn) == title
    drawn["FP16"] = pd.DataFrame({"share": [1.0, 2.0]})
    assert site.question(drawn) == f"{title}, two FP16 from 1 % to 2 %"
    assert site.question({}) == "Why is a CUDA kernel slow?"


def test_junit_agrees_with_the_verdict() -> None:
    """A planned time-out is no failure and was not skipped; an undrawn figure is a failure."""
    rows = [("planned", "timed out"), ("late", "ok"), ("absent", "ok")]
    cases = pd.DataFrame(rows, columns=["case", "ends"])
    cases = cases.assign(kernel="k", verdict="not checked", finds="")
    problem = site.verdict.Problem("late", "late: time: timed out")
    judged = site.verdict.Verdict("", "", (), (problem,), {"ladder": "KeyError"}, {})
    suite = ElementTree.fromstring(summary.junit(cases, judged))
    outcomes = {test.get("name"): [element.tag for element in test] for test in suite}
    ends = {"planned": [], "late": ["failure"], "absent": ["skipped"], "ladder": ["failure"]}
    assert outcomes == ends
    assert suite.attrib == {"name": "tilewave", "tests": "4", "failures": "2", "skipped": "1"}


def test_a_plot_modules_table_for_the_page_replaces_the_data(make, monkeypatch) -> None:
    run = make(RECORDED)
    Path("reports/figures").mkdir(parents=True)
    Path("reports/figures/right.csv").write_text("remark\nlong\n")
    module, short = plots.load("correctness"), {"remark": "short"}
    monkeypatch.setattr(module, "page_table", lambda data: data.assign(**short), raising=False)
    text = run.page("study/right")
    assert ">short</td>" in text and ">long</td>" not in text
    bars = {"share": base.bars(pd.Series([50.0]))}
    monkeypatch.setattr(module, "page_table", lambda data: data.assign(**bars), raising=False)
    assert '<meter aria-hidden="true" max="100" value="50"></meter> 50' in run.page("study/right")
    monkeypatch.setattr(module, "page_table", lambda data: data["nowhere"], raising=False)
    assert ">long</td>" in run.page("study/right")


@pytest.mark.parametrize(("timed", "advised"), [(1.0, True), (1e9, False)])
def test_a_shape_far_smaller_than_the_timed_one_gives_no_advice_on_waves(timed, advised) -> None:
    cases = pd.DataFrame({"case": ["k@8", "k@big"], "kernel": "k"})
    cases["sizes"] = ['{"n": 8}', json.dumps({"n": timed})]
    facts = {"sms": 132, "max_warps_per_sm": 64}
    metrics = {"launch__waves_per_multiprocessor": 0.25}
    subject = site.kernel_views.advice.Subject({"case": "k@8"}, metrics, device=facts)
    run: Any = SimpleNamespace(subjects={"k@8": subject}, rates={"k@big": 1.0})
    rules = [finding.rule for _, finding in site.kernel_views._fixes(run, cases)]
    assert rules == ["idle part of the last wave"] * advised


@pytest.mark.parametrize(
    ("pipe", "bound", "text"),
    [
        ("issue slots", "math", "which has no roof for issue slots, it reaches 85 % of FP32 FMA"),
        ("FP32", "l2", "In the roofline it reaches 85 % of L2 bandwidth at 64³."),
        ("FP32", "math", ""),
        ("shared memory and L1", "l1", ""),
    ],
)
def test_a_kernels_page_says_where_the_roofline_names_another_limit(pipe, bound, text) -> None:
    row = {"variant": "k", "m": 64, "n": 64, "k": 64, "bound by": bound, "of the roof (%)": 85.4}
    data = pd.DataFrame([{**row, "lowest roof": "FP32 FMA"}])
    run: Any = SimpleNamespace(studies=[SimpleNamespace(plot="roofline", data=data)])
    subject = site.kernel_views.advice.Subject({"variant": "k"}, busy={pipe: 0.9})
    sentence = site.kernel_views._other_roof(run, subject)
    assert text in sentence and bool(text) == bool(sentence)


def test_a_kernels_sentence_says_of_which_shape_and_of_what() -> None:
    rows = [("k", "k@8192", 8192), ("k", "k@4096", 4096), ("next", "next@8192", 8192)]
    cases = pd.DataFrame(rows, columns=["kernel", "case", "n"]).assign(dtype="f32")
    cases["sizes"] = [json.dumps({"m": n, "n": n, "k": n}) for n in cases["n"]]
    cases["variant"] = cases["kernel"]
    run: Any = SimpleNamespace(by_kernel=[{"k": cases[:2]}], subjects={}, cases=cases, ladder={})
    run.shares = {"k@8192": 15, "next@8192": 27}
    run.project = SimpleNamespace(followers={"k": ["next"]})
    finding: Any = SimpleNamespace(rule="traffic", bound=0.5, origin=SimpleNamespace(line=0))
    text = site.kernel_views.sentence(run, "k", "k@8192", "", [("k@4096", finding)])
    assert text.startswith("At 8192³ in FP32 it has 15.0 % of the speed of cuBLAS. First to fix: ")
    assert "traffic (counted at 4096³); fixing it saves at most 50 % of the time." in text
    assert text.endswith("The next faster rung, next, has 27.0 %.")
    run.ladder = {"variants": ["k", "next"], "names": {"next": "tiles"}}
    next_rung, row = site.kernel_views._next_rung, cases.iloc[0].to_dict()
    assert "rung, tiles (next), has 27.0 %" in next_rung(run, "k", row)
    run.shares["k@8192"] = 28
    assert next_rung(run, "k", row) == "", "a slower kernel is no next rung"
