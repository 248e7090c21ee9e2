"""`tilewave figure`: one figure of the last report, with its data, caption and LaTeX beside it."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import synthetic
from samples import table
from tilewave.__main__ import main
from tilewave.commands import figure
from tilewave.pipeline import project as projects
from tilewave.pipeline.config import parse
from tilewave.report import figures

CONFIG = "studies: {ladder: {plot: ladder, title: Ladder, cases: [{shapes: [64]}]}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a report, whose study has invented data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "results" / "tables").mkdir(parents=True)
    (tmp_path / "results" / "tables" / "records.parquet").touch()
    plan = SimpleNamespace(studies={"ladder": []})
    project = lambda data, where, path: SimpleNamespace(  # noqa: E731
        plan=plan, config=parse(data, where), where=where
    )
    monkeypatch.setattr(projects, "planned", project)
    monkeypatch.setattr(figures, "loaded", lambda inputs: ())
    monkeypatch.setattr(figures, "of_tables", lambda project, name: synthetic.make(name))
    return tmp_path


def test_a_figure_has_its_files_beside_it(folder: Path) -> None:
    command = "figure ladder --dtypes f16,f32 --variants hgemm_wmma,matmul_tiled,matmul_naive --width 8.5cm -o fig1.svg"
    assert main(command.split()) == 0
    svg = (folder / "fig1.svg").read_text()
    assert 'width="240.9' in svg and "<text" in svg, "85 mm in points, with text that can be edited"
    rows = pd.read_csv(folder / "fig1.csv")
    assert set(rows["dtype"].dropna()) == {"f16_f32", "f32"}
    variants = set(rows["variant"])
    assert {"cublas", "matmul_tiled"} <= variants and "matmul_register" not in variants
    caption = (folder / "fig1.txt").read_text()
    assert caption.startswith("The best FP32 rung reaches 18 % of cuBLAS's speed\n")
    tex = (folder / "fig1.tex").read_text()
    assert r"\includegraphics[width=85mm]{fig1.svg}" in tex and r"reaches 18 \% of" in tex
    assert r"\label{fig:ladder}" in tex


def test_only_what_is_named_and_what_it_is_compared_with() -> None:
    study = synthetic.make("roofline")
    part = figure.chosen(study, ["f32"], ["matmul_naive"])
    kernels = part.cases[part.cases["operation"] != "probe"]
    assert set(kernels["variant"]) == {"matmul_naive", "cublas"}
    assert (part.cases["operation"] == "probe").sum() == (study.cases["operation"] == "probe").sum()
    assert set(part.records["case"]) <= set(part.cases["case"])
    assert part.options["dtypes"] == ["f32"] and part.options["variants"] == ["matmul_naive"]
    assert len(figure.chosen(study, [], []).cases) == len(study.cases)


@pytest.mark.parametrize(("more", "message"), table("command")["mistakes of figure"])
def test_mistakes(folder, more, message, capsys) -> None:
    assert main(f"figure ladder -o fig.pdf {more}".split()) == 2
    assert message in capsys.readouterr().err
    assert main(["figure", "laddr", "-o", "fig.pdf"]) == 2
    assert "did you mean 'ladder'" in capsys.readouterr().err
    (folder / "results" / "tables" / "records.parquet").unlink()
    assert main(["figure", "ladder", "-o", "fig.pdf"]) == 2
    assert "Run `tilewave report` in this folder first" in capsys.readouterr().err


def test_widths() -> None:
    assert (figure.millimetres("85mm"), figure.millimetres("17.8cm")) == (85.0, 178.0)
    assert figure.millimetres("3.3in") == pytest.approx(83.82)
