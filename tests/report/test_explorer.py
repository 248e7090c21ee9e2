"""The explorer's page equals the theory, by Node where there is one; `test_browser` has it as a whole."""

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


SETTINGS = [*random_settings(200), Setting(256, 128, 1, 256, 128, 1, 1), explorer.ELSE]


@pytest.fixture(scope="module")
def sweeps() -> list[ExplorerSweep]:
    study = wave_quantization()
    data = plots.load("wave_quantization").table(study)
    tables = {"none": None, "other": data[["case", "n"]], "waves": data}
    found: Any = [
        SimpleNamespace(name=name, title=f"{name} <b>", data=one) for name, one in tables.items()
    ]
    return explorer.sweeps(found, study.cases, study.records, study.environments)


def page(found: list[ExplorerSweep]) -> str:
    banner = summary.Banner("nothing", "Nothing was measured", "")
    context = {"banner": banner, **explorer.view(found)}
    return rendering.render("explorer.html.j2", context)


def told(code: str, given: Any) -> Any:
    """What an expression over the script's functions gives, with `given` at hand."""
    text = f"{SCRIPT}\nconst given = {json.dumps(given)};\nconsole.log(JSON.stringify({code}));"
    done = subprocess.run([str(NODE), "-"], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@needs_node
def test_the_pages_closed_forms_are_those_of_the_theory() -> None:
    found = told(
        """given.map((s) => {
          const [c, of] = [closedForms, [s.m, s.n, s.rows, s.columns]];
          const blocks = c.tileCount(...of), w = c.waves(blocks, s.sms, s.blocks);
          return [c.tiles(...of), [w.full, w.tail, w.count, w.fraction, w.efficiency],
            blocks, c.tileEfficiency(...of), c.lastColumnUseful(s.n, s.columns), c.operationsRatio(...of),
            c.roundsOnSms(blocks, s.sms), c.cyclesActiveRatio(blocks, s.sms),
            c.parallelEfficiency(...of, s.sms, s.blocks)];
        })""",
        [asdict(one) for one in SETTINGS],
    )
    assert len(found) == len(SETTINGS) >= 50
    for one, (tiles, waves, *rest) in zip(SETTINGS, found, strict=True):
        of, w = (one.shape, one.tile), one.waves
        blocks = quantization.tile_count(*of)
        assert tiles == list(quantization.tiles(*of))
        expected = [w.full, w.tail, w.count, w.fraction, w.efficiency]
        assert waves == pytest.approx(expected, rel=1e-12)
        of_tiles = ("tile_count", "tile_efficiency", "last_column_useful", "operations_ratio")
        expected = [getattr(quantization, name)(*of) for name in of_tiles]
        of_sms = ("rounds_on_sms", "cycles_active_ratio")
        expected += [getattr(quantization, name)(blocks, one.sms) for name in of_sms]
        expected.append(tiling.parallel_efficiency(*of, one.sms, one.blocks))
        assert rest == pytest.approx(expected, rel=1e-12), one


@needs_node
def test_script_and_first_view_show_the_same(sweeps: list[ExplorerSweep]) -> None:
    pairs = [(one, None) for one in SETTINGS[:30]] + [(SETTINGS[0], one) for one in sweeps]
    found = told(
        "given.map(([s, sweep]) => [plotOf(s, sweep), tableOf(s, ...span(s, sweep))])",
        [[asdict(one), sweep and asdict(sweep)] for one, sweep in pairs],
    )
    for (one, sweep), (drawn, rows) in zip(pairs, found, strict=True):
        mine = explorer.plot(one, sweep)
        assert numbers(drawn["path"]) == pytest.approx(numbers(mine.path), abs=0.11)
        for name in ("points", "across", "up"):
            assert len(drawn[name]) == len(getattr(mine, name))
            for theirs, ours in zip(drawn[name], getattr(mine, name), strict=True):
                assert theirs[-1] == ours[-1]
                assert float(theirs[0]) == pytest.approx(float(ours[0]), abs=0.11)
        assert rows == explorer.table(one, *explorer.span(one, sweep))


def numbers(path: str) -> list[float]:
    return [float(part) for part in path.replace("M", "").replace("L", " ").split()]


@needs_node
def test_the_nearest_sweep_has_the_nearest_tile(sweeps: list[ExplorerSweep]) -> None:
    first = sweeps[0].setting
    small = replace(sweeps[0], dtype="f16_f32", setting=replace(first, rows=64, columns=64))
    known = [asdict(one) for one in (*sweeps, small)]

    def nearest(dtype: str = "", **changed: int) -> int:
        given = [known, asdict(replace(first, **changed)), dtype]
        return int(told("given[0].indexOf(nearest(...given))", given))

    assert nearest() == 0
    assert nearest(m=2800) == 1
    assert nearest(m=2800, rows=64, columns=128) == 2  # the tile goes before M
    assert nearest("f16_f32") == 2
    assert nearest("f64") == -1


def test_points_are_the_studys_over_a_wave_without_waste(sweeps: list[ExplorerSweep]) -> None:
    assert [one.setting.m for one in sweeps] == [2304, 2816]
    one = sweeps[1]
    assert (one.study, one.gpu, one.dtype) == ("waves", "NVIDIA H200", "f16_f16")
    assert one.source == "recorded:NVIDIA H200"
    assert (one.setting.rows, one.setting.columns) == (256, 128)
    assert (one.setting.sms, one.setting.blocks) == (132, 1)
    sizes = [n for n, _, _ in one.points]
    assert sizes == sorted(sizes)
    # Not what is wrong or was not measured.
    assert not [n for n in sizes if n % 80 == 0 or n % 176 == 0]
    # Measured durations are waves of 90 us within 1 %, so the points lie on the model.
    assert one.wave_us == pytest.approx(90, rel=0.01)
    for n, _, share in one.points:
        assert share == pytest.approx(one.setting.efficiency(n), rel=0.025)


def test_first_view_begins_at_a_new_wave(sweeps: list[ExplorerSweep]) -> None:
    setting = explorer.first_setting(sweeps[1])
    sizes = [n for n, _, _ in sweeps[1].points]
    before = replace(setting, n=max(n for n in sizes if n < setting.n))
    assert (before.waves.count, setting.waves.count) == (1, 2)
    assert explorer.first_setting(None) == explorer.ELSE


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
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert policy[1] == " ".join(f"'sha256-{one}'" for one in digests)
