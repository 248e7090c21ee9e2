"""The explorer's closed forms equal the theory; Node runs the page's script, `test_browser` the page."""

import base64
import hashlib
import html
import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from tilewave.report import rendering, summary
from tilewave.theory import quantization, tiling

NODE = shutil.which("node")
SCRIPT = (rendering.TEMPLATES / "explorer.js").read_text("utf-8")
needs_node = pytest.mark.skipif(not NODE, reason="the page's script is tried by Node: install node")


@dataclass(frozen=True)
class Setting:
    """The inputs of the page: a product, the output tile of a block, and the GPU; sizes in elements."""

    m: int
    n: int
    k: int
    rows: int
    columns: int
    sms: int
    blocks: int


def random_settings(count: int) -> list[Setting]:
    draw = random.Random(13)
    return [
        Setting(
            draw.randint(1, 40000), draw.randint(1, 20000), draw.randint(1, 20000),
            draw.choice((16, 64, 96, 128, 256)), draw.choice((16, 64, 96, 128, 256)),
            draw.choice((1, 40, 108, 132, 148)), draw.choice((1, 2, 3, 4, 16)),
        ) for _ in range(count)
    ]  # fmt: skip


SETTINGS = [*random_settings(200), Setting(256, 128, 1, 256, 128, 1, 1)]


def of(setting: Setting) -> tuple[dict[str, int], tuple[int, int]]:
    """Return a setting's shape and tile."""
    return {"m": setting.m, "n": setting.n, "k": setting.k}, (setting.rows, setting.columns)


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
def test_the_curve_and_the_row_of_a_size() -> None:
    """The curve has the closed form at the ends of tile columns."""
    setting = Setting(2816, 1800, 4096, 256, 128, 132, 1)
    curve, drawn, row = evaluated(
        "[curve(inputs[0], 200, 2000), plotOf(inputs[0]), values(inputs[0])]", [asdict(setting)]
    )
    assert {n % 128 for n, _ in curve[1:-1]} <= {0, 1}
    assert (curve[0][0], curve[-1][0]) == (200, 2000)
    for n, share in curve:
        shape, tile = of(replace(setting, n=n))
        assert share == pytest.approx(tiling.parallel_efficiency(shape, tile, 132, 1))
    assert len(drawn["up"]) == 5
    assert row[:4] == ["1800", "11 × 15", "2", "33"]


def test_the_page_links_the_measured_studies_and_its_policy_names_both_scripts() -> None:
    banner = summary.Banner("nothing", "Nothing was measured")
    study = {"page": "study/waves.html", "title": "waves <b>"}
    text = rendering.render("explorer.html.j2", {"banner": banner, "studies": [study]})
    assert '<a href="study/waves.html">waves &lt;b&gt;</a>' in text
    assert "This page needs JavaScript" in text
    assert " style=" not in text and " onclick" not in text
    policy = re.search(r"script-src (.*?);", html.unescape(text))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert policy and len(scripts) == 2
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    digests = [base64.b64encode(digest).decode() for digest in hashes]
    assert policy[1] == " ".join(f"'sha256-{script}'" for script in digests)
