"""The explorer's closed forms equal the theory; Node runs the page's script, `test_browser` the page."""

import base64
import hashlib
import html
import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from synthetic import wave_quantization
from tilewave import plots
from tilewave.report import explorer, rendering, summary
from tilewave.report.explorer import ExplorerSweep, Setting
from tilewave.theory import quantization, tiling

NODE = shutil.which("node")
SCRIPT = (rendering.TEMPLATES / "explorer.js").read_text("utf-8")
needs_node = pytest.mark.skipif(not NODE, reason="the page's script is tried by Node: install node")
KIB = 1024


def random_settings(count: int) -> list[Setting]:
    draw = random.Random(13)
    return [
        Setting(
            draw.randint(1, 40000), draw.randint(1, 20000), draw.randint(1, 20000),
            draw.choice((16, 64, 96, 128, 256)), draw.choice((16, 64, 96, 128, 256)),
            draw.choice((1, 40, 108, 132, 148)), draw.choice((1, 2, 3, 4, 16)),
        ) for _ in range(count)
    ]  # fmt: skip


SETTINGS = [*random_settings(200), Setting(256, 128, 1, 256, 128, 1, 1), explorer.DEFAULT]


@pytest.fixture(scope="module")
def sweeps() -> list[ExplorerSweep]:
    study = wave_quantization()
    data = plots.load("wave_quantization").table(study)
    tables = {"none": None, "other": data[["case", "n"]], "waves": data}
    studies: Any = [
        SimpleNamespace(name=name, title=f"{name} <b>", data=table)
        for name, table in tables.items()
    ]
    return explorer.sweeps(studies, study.cases, study.records, study.environments)


def page(sweeps: list[ExplorerSweep]) -> str:
    banner = summary.Banner("nothing", "Nothing was measured", "")
    context = {"banner": banner, **explorer.view(sweeps)}
    return rendering.render("explorer.html.j2", context)


def evaluated(code: str, arguments: Any) -> Any:
    """Evaluate an expression of the script's functions and of `inputs`."""
    text = (
        f"{SCRIPT}\nconst inputs = {json.dumps(arguments)};\nconsole.log(JSON.stringify({code}));"
    )
    done = subprocess.run([str(NODE), "-"], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@needs_node
def test_the_pages_closed_forms_are_those_of_the_theory() -> None:
    results = evaluated(
        """inputs.map((s) => {
          const [c, of] = [closedForms, [s.m, s.n, s.rows, s.columns]];
          const blocks = c.tileCount(...of), w = c.waves(blocks, s.sms, s.blocks);
          return [c.tiles(...of), [w.full, w.tail, w.count, w.fraction, w.efficiency],
            blocks, c.tileEfficiency(...of), c.lastColumnUseful(s.n, s.columns), c.operationsRatio(...of),
            c.roundsOnSms(blocks, s.sms), c.cyclesActiveRatio(blocks, s.sms),
            c.parallelEfficiency(...of, s.sms, s.blocks)];
        })""",
        [asdict(setting) for setting in SETTINGS],
    )
    assert len(results) == len(SETTINGS) >= 50
    for setting, (tiles, waves, *rest) in zip(SETTINGS, results, strict=True):
        of, w = (setting.shape, setting.tile), setting.waves
        blocks = quantization.tile_count(*of)
        assert tiles == list(quantization.tiles(*of))
        expected = [w.full, w.tail, w.count, w.fraction, w.efficiency]
        assert waves == pytest.approx(expected, rel=1e-12)
        of_tiles = ("tile_count", "tile_efficiency", "last_column_useful", "operations_ratio")
        expected = [getattr(quantization, name)(*of) for name in of_tiles]
        of_sms = ("rounds_on_sms", "cycles_active_ratio")
        expected += [getattr(quantization, name)(blocks, setting.sms) for name in of_sms]
        expected.append(tiling.parallel_efficiency(*of, setting.sms, setting.blocks))
        assert rest == pytest.approx(expected, rel=1e-12), setting


@needs_node
def test_script_and_first_view_show_the_same(sweeps: list[ExplorerSweep]) -> None:
    pairs = [(setting, None) for setting in SETTINGS[:30]] + [
        (SETTINGS[0], setting) for setting in sweeps
    ]
    views = evaluated(
        "inputs.map(([s, sweep]) => [plotOf(s, sweep), tableOf(s, ...span(s, sweep))])",
        [[asdict(setting), sweep and asdict(sweep)] for setting, sweep in pairs],
    )
    for (setting, sweep), (drawn, rows) in zip(pairs, views, strict=True):
        expected = explorer.plot(setting, sweep)
        assert numbers(drawn["path"]) == pytest.approx(numbers(expected.path), abs=0.11)
        for name in ("points", "across", "up"):
            assert len(drawn[name]) == len(getattr(expected, name))
            for point, wanted in zip(drawn[name], getattr(expected, name), strict=True):
                assert point[-1] == wanted[-1]
                assert float(point[0]) == pytest.approx(float(wanted[0]), abs=0.11)
        assert rows == explorer.table(setting, *explorer.span(setting, sweep))


def numbers(path: str) -> list[float]:
    return [float(part) for part in path.replace("M", "").replace("L", " ").split()]


@needs_node
def test_the_nearest_sweep_has_the_nearest_tile(sweeps: list[ExplorerSweep]) -> None:
    first = sweeps[0].setting
    small = replace(sweeps[0], dtype="f16_f32", setting=replace(first, rows=64, columns=64))
    candidates = [asdict(sweep) for sweep in (*sweeps, small)]

    def nearest(dtype: str = "", **changed: int) -> int:
        arguments = [candidates, asdict(replace(first, **changed)), dtype]
        return int(evaluated("inputs[0].indexOf(nearest(...inputs))", arguments))

    assert nearest() == 0
    assert nearest(m=2800) == 1
    assert nearest(m=2800, rows=64, columns=128) == 2  # the tile goes before M
    assert nearest("f16_f32") == 2
    assert nearest("f64") == -1


def test_points_are_the_studys_over_a_wave_without_waste(sweeps: list[ExplorerSweep]) -> None:
    assert [sweep.setting.m for sweep in sweeps] == [2304, 2816]
    sweep = sweeps[1]
    assert (sweep.study, sweep.gpu, sweep.dtype) == ("waves", "NVIDIA H200", "f16_f16")
    assert sweep.source == "recorded:NVIDIA H200"
    assert (sweep.setting.rows, sweep.setting.columns) == (256, 128)
    assert (sweep.setting.sms, sweep.setting.blocks) == (132, 1)
    sizes = [n for n, _, _ in sweep.points]
    assert sizes == sorted(sizes)
    # Not what is wrong or was not measured.
    assert not [n for n in sizes if n % 80 == 0 or n % 176 == 0]
    # Measured durations are waves of 90 us within 1 %, so the points lie on the model.
    assert sweep.wave_us == pytest.approx(90, rel=0.01)
    for n, _, share in sweep.points:
        assert share == pytest.approx(sweep.setting.efficiency(n), rel=0.025)


def test_first_view_begins_at_a_new_wave(sweeps: list[ExplorerSweep]) -> None:
    setting = explorer.first_setting(sweeps[1])
    sizes = [n for n, _, _ in sweeps[1].points]
    before = replace(setting, n=max(n for n in sizes if n < setting.n))
    assert (before.waves.count, setting.waves.count) == (1, 2)
    assert explorer.first_setting(None) == explorer.DEFAULT


def test_page_is_small_reads_without_a_script_and_escapes(sweeps: list[ExplorerSweep]) -> None:
    text = page(sweeps)
    assert len(text.encode()) < 300 * KIB
    assert "waves &lt;b&gt;" in text and "waves <b>" not in text
    assert text.count("<circle") >= len(sweeps[0].points)
    for row in explorer.view(sweeps)["rows"]:
        assert "".join(f'<td class="n">{cell}</td>' for cell in row) in text
    assert "No sweep over N was measured" in page([])
    assert " style=" not in text and " onclick" not in text


def test_the_policy_names_both_scripts_and_no_more(sweeps: list[ExplorerSweep]) -> None:
    text = page(sweeps)
    policy = re.search(r"script-src (.*?);", html.unescape(text))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert policy and len(scripts) == 2
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    digests = [base64.b64encode(digest).decode() for digest in hashes]
    assert policy[1] == " ".join(f"'sha256-{script}'" for script in digests)
