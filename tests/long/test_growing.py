"""The cost of a run grows linearly with the number of kernels. No GPU is needed."""

import resource

import pytest
import yaml

from samples import DATA, config
from small_study import Run

CASES = 8
"""Cases of a kernel."""


def write(folder, kernels):
    (folder / "kernels").mkdir()
    pattern = (DATA / "addition.cu").read_text()
    for number in range(kernels):
        name = f"addition_{number:05d}"
        text = pattern.replace("NAME", name).replace("NUMBER", str(number))
        (folder / "kernels" / f"{name}.cu").write_text(text)
    block = {"operation": "vector_add", "macros": "product", "shapes": [1000, 1001, 1002, 1003]}
    settings = config(block, kernel_folders=["kernels"], fresh=True, execute={"when": "always"})
    (folder / "small.yaml").write_text(yaml.safe_dump(settings))


def cost(folder, *arguments):
    """Return the processor seconds of all processes of a run, and GB of the largest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    Run(folder, *arguments, env={"CUDA_VISIBLE_DEVICES": ""}).passed()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, used.ru_maxrss / 2**20


def bytes_of(*paths):
    return sum(file.stat().st_size for path in paths for file in [path, *path.rglob("*")] if file.is_file())  # fmt: skip


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
