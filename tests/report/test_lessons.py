"""The lessons: their kernels and studies exist, and their commands answer the questions."""

import re
import shlex
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from samples import ROOT, needs_nvrtc, shipped
from tilewave.__main__ import main
from tilewave.report import lessons, rendering, summary

LESSONS = lessons.lessons()
by_name = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def counts(out: str, kind: str, column: int = 1) -> int:
    """Return a column of the first row that begins with `kind`."""
    row = re.findall(rf"^  {kind} +([\d,].*)$", out, re.M)[0]
    return int(row.split()[column - 1].replace(",", ""))


@by_name
def test_what_a_lesson_names_is_there_and_numbers_are_not_typed_in(lesson: Any) -> None:
    studies = yaml.safe_load((ROOT / "config" / "config.yaml").read_text("utf-8"))["studies"]
    assert set(lesson.studies) <= set(studies)
    for name in lesson.kernels:
        assert shipped(name).suffix == ".cu"
    text = " ".join(lesson.text)
    assert not re.search(r"\d\s*(%|µs|us\b|TFLOP|TB|times)", text)
    assert len(text) < 1600, "more than a screen"


@needs_nvrtc
@by_name
def test_the_command_answers(lesson, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def output(*changed: tuple[str, str]) -> str:
        command = lesson.command
        for old, new in changed:
            assert old in command
            command = command.replace(old, new)
        assert main([*shlex.split(command), "--budget", "0"]) == 0
        return capsys.readouterr().out

    out = output()
    assert ": correct\n" in out
    for head in re.findall("“([A-Z][^”]*)”", lesson.look):
        assert f"\n{head}\n" in out
    if lesson.name == "naive":
        assert counts(out, "LDG") / counts(out, "f32") == pytest.approx(2, rel=0.05)
    elif lesson.name == "tiles":
        assert counts(output(("TILE=32", "TILE=16")), "LDG") == 2 * counts(out, "LDG")
    elif lesson.name == "banks":
        padded = output(("--macro SKEW=0 ", ""))
        excess = counts(out, "LDGSTS", 5)
        assert counts(out, "LDSM", 5) > excess and counts(padded, "LDSM", 5) == 0
        assert counts(padded, "LDGSTS", 5) > excess
    elif lesson.name == "tensor-cores":
        assert counts(out, "counted_tensor_flops") / counts(out, "tensor") == 2 * 16 * 16 * 8
    else:
        assert counts(out, "counted_tensor_flops") == 2 * 256 * 256 * 64


def page(lesson: Any, rows: dict[str, Any], studies: list[Any]) -> str:
    banner = summary.Banner("nothing", "Nothing was measured")
    context = {"lesson": lesson, "lessons": LESSONS, "rows": rows, "banner": banner, "root": "../"}
    named = {study.name: study for study in studies}
    return rendering.render("lesson.html.j2", {**context, "studies": named})


@by_name
def test_a_page_shows_what_the_run_has_and_says_what_it_lacks(lesson: Any) -> None:
    kernel, study = lesson.kernels[0], lesson.studies[0]
    row = SimpleNamespace(
        name=kernel, title="A <kernel>", registers="8", excess="", share="41.5", at="64³ f32"
    )
    shown: Any = SimpleNamespace(name=study, title="A study", question="?", takeaway="Found.")
    text = page(lesson, {kernel: row}, [shown])
    assert f'href="../kernel/{kernel}.html"' in text and "A &lt;kernel&gt;" in text
    assert f'href="../study/{study}.html"' in text and "Found." in text
    (picture,) = re.findall(r'<svg class="idea"[^>]* role="img" aria-label="[^"]+\.">', text)
    assert text.index(lesson.idea) < text.index(picture) < text.index("<p>")
    assert ">41.5</td><td>64³ f32</td>" in text
    assert lesson.command in text
    for name in (*lesson.kernels[1:], *lesson.studies[1:]):
        assert re.search(rf"Not in this run.*\b{name}\b", text)
        assert f"{name}.html" not in text
    for each in LESSONS:
        assert f'href="../{each.address}"' in text
    assert f"the study {study}" in page(lesson, {}, [])


def test_lessons_are_written_where_the_run_has_something_of_them() -> None:
    assert lessons.about([], []) == []
    assert [lesson.name for lesson in lessons.about(["matmul_tiled"], [])] == ["tiles"]
    assert [lesson.name for lesson in lessons.about([], ["ladder"])] == ["tensor-cores"]
