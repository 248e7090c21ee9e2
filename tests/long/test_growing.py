"""What a run costs with many kernels: about as much for each of them. No GPU is needed."""

import resource

import pytest
import yaml

from samples import config
from small_study import Run
from tilewave.pipeline import project

KERNEL = """\
/*---
title: Addition {number}
operation: vector_add
dtypes: {{a: f32, b: f32, c: f32}}
macros: {{BLOCK: [32, 64]}}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {{arch: 75}}
arguments: [a, b, c, n]
---*/

// c = a + b. The branch that no launch takes makes the code another one than its neighbours'.
extern "C" __global__ void {name}(const float* a, const float* b, float* c, int n)
{{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (n < -{number}) c[i] = {number}.0f;
    if (i < n) c[i] = a[i] + b[i];
}}
"""
CASES = 8
"""Of a kernel."""


def write(folder, kernels):
    """So many kernels and their config."""
    (folder / "kernels").mkdir()
    for number in range(kernels):
        name = f"addition_{number:05d}"
        text = KERNEL.format(name=name, number=number)
        (folder / "kernels" / f"{name}.cu").write_text(text)
    block = {"operation": "vector_add", "macros": "product", "shapes": [1000, 1001, 1002, 1003]}
    made = config(block, kernel_folders=["kernels"], fresh=True, execute={"when": "always"})
    (folder / "small.yaml").write_text(yaml.safe_dump(made))
    return made


def cost(folder, *words):
    """Seconds of processor time of all processes of a run, and GB of the largest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    Run(folder, *words, env={"CUDA_VISIBLE_DEVICES": ""}).passed()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, used.ru_maxrss / 2**20


def bytes_of(*paths):
    """What the files of these folders hold."""
    return sum(one.stat().st_size for path in paths for one in [path, *path.rglob("*")] if one.is_file())  # fmt: skip


def test_its_kernels_are_all_different(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = project.load(write(tmp_path, 3), "test.yaml")
    assert len(made.plan.cases) == 3 * CASES
    assert len({one.text for one in made.kernels.values()}) == 3


def test_a_plan_grows_with_the_number_of_kernels(tmp_path):
    spent = {}
    for number in (100, 1000):
        (folder := tmp_path / str(number)).mkdir()
        write(folder, number)
        spent[number], gb = cost(folder, "--dry-run")
        print(f"{number} kernels: {spent[number]:.1f} s, {gb:.2f} GB")
        assert gb < 0.5
    assert spent[1000] < 10 * spent[100]


@pytest.mark.parametrize("number", [10, 100])
def test_a_run_grows_with_the_number_of_kernels(tmp_path, number):
    write(tmp_path, number)
    cpu_s, gb = cost(tmp_path, "report")
    store = bytes_of(*(tmp_path / ".tilewave" / name for name in ("compiled", "results")))
    index = bytes_of(tmp_path / "reports" / "index.html")
    pages = bytes_of(*(tmp_path / "reports").glob("**/addition_00000*.html"))
    print(f"{number} kernels: {cpu_s:.0f} s, {gb:.2f} GB; store {store}, index {index}, a page {pages}")  # fmt: skip
    verdict = (tmp_path / "results" / "verdict.txt").read_text()
    assert f"Passed: {number * CASES} cases checked, none wrong and none failed." in verdict
    assert gb < 1 and store < 20_000 * number * CASES
    assert index < 200_000 + 1000 * number and pages < 100_000
