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

from synthetic_studies import wave_quantization
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


def of(setting: Setting) -> tuple[dict[str, int], tuple[int, int]]:
    """Return a setting's shape and tile."""
    return {"m": setting.m, "n": setting.n, "k": setting.k}, (setting.rows, setting.columns)


@pytest.fixture(scope="module")
def sweeps() -> list[ExplorerSweep]:
    study = wave_quantization()
    data = plots.load("wave_quantization").table(study)
    tables = {"none": None, "other": data[["case", "n"]], "waves": data}
    rows = [{"name": name, "title": f"{name} <b>", "data": data} for name, data in tables.items()]
    studies: Any = [SimpleNamespace(**row) for row in rows]
    return explorer.sweeps(studies, study.cases, study.records, study.environments)


def page(sweeps: list[ExplorerSweep]) -> str:
    banner = summary.Banner("nothing", "Nothing was measured", "")
    context = {"banner": banner, **explorer.view(sweeps)}
    return rendering.render("explorer.html.j2", context)


def evaluated(code: str, arguments: Any) -> Any:
    """Evaluate an expression of the script's functions and of `inputs`."""
    text = f"{SCRIPT}\nconst inputs = {json.dumps(arguments)};\n"
    text += f"console.log(JSON.stringify({code}));"
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
        shape_and_tile = of(setting)
        blocks = quantization.tile_count(*shape_and_tile)
        w = quantization.waves(blocks, setting.sms, setting.blocks)
        assert tiles == list(quantization.tiles(*shape_and_tile))
        expected = [w.full, w.tail, w.count, w.fraction, w.efficiency]
        assert waves == pytest.approx(expected, rel=1e-12)
        of_tiles = ("tile_count", "tile_efficiency", "last_column_useful", "operations_ratio")
        expected = [getattr(quantization, name)(*shape_and_tile) for name in of_tiles]
        of_sms = ("rounds_on_sms", "cycles_active_ratio")
        expected += [getattr(quantization, name)(blocks, setting.sms) for name in of_sms]
        efficiency = tiling.parallel_efficiency(*shape_and_tile, setting.sms, setting.blocks)
        assert rest == pytest.approx([*expected, efficiency], rel=1e-12), setting


@needs_node
def test_the_curve_and_its_points(sweeps: list[ExplorerSweep]) -> None:
    """The curve has the closed form at the ends of tile columns; the points are the sweep's."""
    setting = replace(sweeps[1].setting, n=1800)
    curve, drawn, row = evaluated(
        "[curve(inputs[0], 200, 2000), plotOf(...inputs), values(inputs[0])]",
        [asdict(setting), asdict(sweeps[1])],
    )
    assert {n % 128 for n, _ in curve[1:-1]} <= {0, 1}
    assert (curve[0][0], curve[-1][0]) == (200, 2000)
    for n, share in curve:
        shape, tile = of(replace(setting, n=n))
        assert share == pytest.approx(tiling.parallel_efficiency(shape, tile, 132, 1))
    assert len(drawn["points"]) == len(sweeps[1].points) and len(drawn["up"]) == 5
    n, rate, _ = sweeps[1].points[0]
    assert drawn["points"][0][-1].startswith(f"N = {n}: {rate:.1f} TFLOP/s, ")
    assert row[:4] == ["1800", "11 × 15", "2", "33"]


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
        shape, tile = of(replace(sweep.setting, n=n))
        efficiency = tiling.parallel_efficiency(shape, tile, 132, 1)
        assert share == pytest.approx(efficiency, rel=0.025)


def test_page_is_small_and_escapes(sweeps: list[ExplorerSweep]) -> None:
    text = page(sweeps)
    assert len(text.encode()) < 300 * KIB
    assert "waves &lt;b&gt;" in text and "waves <b>" not in text
    assert "No sweep over N was measured" in page([])
    assert "This page needs JavaScript" in text
    assert " style=" not in text and " onclick" not in text


def test_the_policy_names_both_scripts_and_no_more(sweeps: list[ExplorerSweep]) -> None:
    text = page(sweeps)
    policy = re.search(r"script-src (.*?);", html.unescape(text))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert policy and len(scripts) == 2
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    digests = [base64.b64encode(digest).decode() for digest in hashes]
    assert policy[1] == " ".join(f"'sha256-{script}'" for script in digests)
