"""`python -m tilewave wrap`: reading files for nvcc, guesses, trials and the written file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from samples import WRAPPED, needs_nvrtc, table
from tilewave.__main__ import main
from tilewave.commands.wrapping import arithmetic, finding, guessing, matching, reading, trying
from tilewave.compiling.declarations import tokens
from tilewave.kernel import operations
from tilewave.kernel.front_matter import load_kernel

CASES = table("wrapping")

MATMUL = operations.load("matmul")
TILED = (WRAPPED / "tiled.cuh").read_text()
RUNNER = (WRAPPED / "runner.cu").read_text()
PLAIN = (WRAPPED / "product.cu").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A kernel in a header, its launch in another file, and a folder of headers."""
    for name, text in {
        "src/kernels/tiled.cuh": TILED, "src/runner.cu": RUNNER, "common/helper.h": "#pragma once\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_a_template_and_its_launch_in_another_file(project: Path) -> None:
    source, folders = finding.read(project / "src" / "kernels" / "tiled.cuh")
    assert folders == (project / "common",)
    (function,) = source.functions()
    guess = guessing.guessed(function, source, MATMUL)
    assert not guess.unknown and guess.tile == {"m": 64, "n": 64, "k": 8}
    assert re.fullmatch("line 10 of .*runner.cu", guess.place)
    arguments = "m n k alpha a lda b ldb beta c ldc".split()
    assert guess.front == {
        "title": "Tiled Product",
        "operation": "matmul",
        "macros": {"T_BM": [64], "T_BN": [64], "T_BK": [8], "T_FAST": [1]},
        "dtypes": dict.fromkeys(("a", "b", "c", "accumulate"), "f32"),
        "arguments": arguments,
        "block": ["T_BN * T_BN // 4"],
        "grid": ["ceil(n / T_BN)", "ceil(m / T_BN)"],
        "shared_bytes": 2048,
        "entry": "tiledProduct<T_BM, T_BN, T_BK, T_FAST>",
    }
    leading = matching.with_leading(arguments, {"b": "col"}, MATMUL)
    assert (leading[5::2], leading[-1]) == (["k", "k", "c"], "n")


def source_of(folder: Path, text: str) -> reading.Source:
    (folder / "some.cu").write_text(text)
    return finding.read(folder / "some.cu")[0]


def test_fp8_of_two_types_is_summed_in_f32(alone: Path) -> None:
    operands = "const __nv_fp8_e5m2* A, const __nv_fp8_e4m3* B, float* C, int M, int N, int K"
    source = source_of(alone, f"__global__ void product({operands}) {{}}\n")
    dtypes = guessing.guessed(source.functions()[0], source, MATMUL).front["dtypes"]
    assert dtypes == {"a": "e5m2", "b": "e4m3", "c": "f32", "accumulate": "f32"}


def test_files_that_are_read(project: Path) -> None:
    """Files of installed packages and of a folder above without a project are skipped, headers from above are read."""
    packages, tiled = project / ".venv/lib/site-packages", project / "src" / "kernels" / "tiled.cuh"
    packages.mkdir(parents=True)
    (packages / "runner.cu").write_text(RUNNER)
    texts = finding.read(tiled)[0].texts
    assert project / "src" / "runner.cu" in texts and len(texts) == 3
    path = tiled.with_name("above.cu")
    path.write_text('#include "../../common/helper.h"\n' + PLAIN)
    source, folders = finding.read(path)
    assert folders == (project / "common",) and folders[0] / "helper.h" in source.kernel_files
    (project / ".git").rmdir()
    (project / "src" / "runner.cu").write_text(RUNNER.partition("\n")[2])
    assert {*finding.read(tiled)[0].texts} == {tiled, path}
    assert finding.read(path)[1] == (project / "common",)
    (project / "common").rename(project / "include")
    path.write_text('#include "helper.h"\n' + PLAIN)
    assert finding.read(path)[1] == (project / "include",)


@pytest.mark.parametrize(("code", "expression"), CASES["arithmetic of the host"])
def test_arithmetic_of_the_host(alone: Path, code: str, expression: str) -> None:
    text = "#define THREADS (8 * BLOCK)\nconst int BLOCK = 32;\nvoid f() { dim3 side(2, 4); int widths[] = {64, 128}; }\n"
    source = source_of(alone, text)
    (body,) = (item.body for _, item in source.declarations() if item.kind == "function")
    scope = reading.Scope(source, body, 10_000)
    assert arithmetic.of_tokens(tokens(code), scope, {"M": "m", "N": "n"}) == expression


def test_unknown_names_are_refused(alone: Path) -> None:
    scope = arithmetic.outside(source_of(alone, "const int A = B;\nconst int B = A;\n"))
    for code in ("what", "A", "f(3)", "p->x", "grid.w"):
        with pytest.raises(arithmetic.Unknown):
            arithmetic.of_tokens(tokens(code), scope, {})


@pytest.mark.parametrize(
    ("operation", "parameters", "arguments"), CASES["arguments by name, type and order"]
)
def test_arguments_by_name_type_and_order(operation: str, parameters: str, arguments: str) -> None:
    parsed = [reading._parameter(part) for part in reading.parts(tokens(parameters))]
    assert matching.arguments_of(parsed, operations.load(operation)) == arguments.split()


def fake(right: Any) -> tuple[trying.Run, list[tuple[dict[str, Any], dict[str, int]]]]:
    """Return a run that is correct if ``right`` is true, and the list of its calls."""
    calls: list[tuple[dict[str, Any], dict[str, int]]] = []

    def run(front: dict[str, Any], shape: dict[str, int]) -> Mapping[str, Any]:
        calls.append((front, shape))
        good = right(front, shape)
        reason = "" if good else "which `reads_c: true` allows"
        return {"status": "ok", "verdict": "correct" if good else "wrong", "reason": reason}

    return run, calls


def sample_guess(**tile: int) -> guessing.Guess:
    front = {"dtypes": {"a": "f16", "accumulate": "f16"}, "arguments": ["a", "ldb"], "grid": [1]}
    return guessing.Guess(front, MATMUL, tile={"m": 128, "n": 64, "k": 0, **tile})


def test_trying_finds_layouts_and_whether_c_is_read() -> None:
    run, calls = fake(lambda front, _: front.get("layouts") == {"b": "col"} and "reads_c" in front)
    guess = sample_guess()
    front, outcome = trying.settle(guess, run, trying.first_shape(guess))
    assert trying.right(outcome) and front["arguments"] == ["a", "k"] and front["reads_c"]
    assert calls[0][1] == {"m": 128, "n": 64, "k": 256} and len(calls) == 3
    assert guess.notes == ["it is correct with b column-major"]


def test_trying_finds_the_multiples_that_sizes_must_be() -> None:
    run, _ = fake(lambda _, s: s["n"] % 32 == 0 and s["k"] % 16 == 0 and s["k"] >= 48)
    guess = sample_guess(n=2048)
    requires = trying.limits(guess, guess.front, run, {"m": 128, "n": 2048, "k": 128})
    assert requires == {"n": 128, "k": 16, "conditions": ["k >= 48"]}
    odd = guessing.Guess(guess.front, operations.load("copy"), tile={"n": 1})
    run, _ = fake(lambda _, s: s["n"] % 2 == 1)
    assert trying.limits(odd, odd.front, run, {"n": 5}) == {"conditions": ["n % 2 == 1"]}
    tied = {**guess.front, "requires": {"conditions": ["n == 1", "m == k"]}}
    run, _ = fake(lambda _, s: s["k"] % 8 == 0 and s["m"] == s["k"])
    requires = trying.limits(guess, tied, run, {"m": 128, "n": 1, "k": 128})
    assert requires == tied["requires"] | {"k": 8}
    run, _ = fake(lambda *_: True)
    assert trying.limits(guess, guess.front, run, {"m": 128, "n": 2048, "k": 128}) == {}


@needs_nvrtc
def test_a_file_is_wrapped_in_place_and_executes(alone, capsys) -> None:
    path = alone / "product.cu"
    path.write_text(PLAIN)
    assert main(["wrap", str(path), "--yes"]) == 0
    output = capsys.readouterr().err
    assert "correct at" in output and "host" in output and "main (lines " in output
    text = path.read_text()
    assert text.startswith("/*---\ntitle: Product\n") and text.endswith(PLAIN)
    front = load_kernel(path).front
    assert front.grid == ["ceil(n / 16)", "ceil(n / 16)"] and front.block == [16, 16]
    assert front.arguments == ["c", "a", "b", "n"]
    assert front.requires == {"conditions": ["m == n", "n == k"]}
    assert main(["execute", str(path), "--shape", "33", "--budget", "0"]) == 0
    assert ": correct" in capsys.readouterr().out


@needs_nvrtc
def test_a_file_that_includes_the_kernels(tmp_path, capsys) -> None:
    (tmp_path / "there").mkdir()
    source, wrapped = tmp_path / "there" / "Product.cuh", tmp_path / "mine.cu"
    source.write_text(PLAIN)
    arguments = ["wrap", str(source), "--yes", "--shape", "32", "-o", str(wrapped)]
    assert main(arguments) == 0
    assert wrapped.read_text().endswith('---*/\n\n#include "there/Product.cuh"\n')
    assert source.read_text() == PLAIN
    assert main(["execute", str(wrapped), "--shape", "17", "--budget", "0"]) == 0
    assert "Product.cuh, the lines that became instructions" in capsys.readouterr().out
    assert main(arguments) == 2 and "--force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("int main() {}", [], "no __global__ function"),
        (PLAIN + PLAIN.replace("product", "other"), [], "2 kernels. Choose one with --kernel NAME, or --kernel all: other, product"),
        (PLAIN, ["--kernel", "prodct"], "did you mean 'product'?"),
        (PLAIN.replace("A,", "A, const int* mask,"), [], "? (mask). If matmul has no such array, write an operation with --new-operation NAME"),
        (PLAIN.replace("A,", "A, const int*,"), [], "with a value for each ? (_"),
        (PLAIN.replace("float *C", "Own *C"), [], "the type of c"),
        (PLAIN.replace("__global__", "template <int W> __global__"), [], "product<...> with a value for int W"),
        ("#include <cuda.h>\n__global__ void tiles(const __grid_constant__ CUtensorMap a, float* C) {}",
         [], "tiles takes tensor maps (a), which wrap does not guess"),
        (PLAIN, ["--include", "nowhere"], "--include is 'nowhere'"),
    ],
)  # fmt: skip
def test_missing_facts_are_asked_for(alone, capsys, text, arguments, message) -> None:
    path = alone / "some.cu"
    path.write_text(text)
    assert main(["wrap", str(path), "--yes", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert path.read_text() == text


PARAMS = (WRAPPED / "gemm_params.cu").read_text()


def test_a_struct_is_its_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def wrapped(text: str, *more: str) -> tuple[int, Any]:
        path = tmp_path / "gemm_params.cu"
        path.write_text(text)
        code = main(["wrap", str(path), *more, "-o", "-"])
        output = capsys.readouterr()
        front = output.out.partition("---*/")[0].removeprefix("/*---")
        return code, yaml.safe_load(front) if front else output.err

    members = ["a", "b", "c", "m", "n", "k", {"i64": "n"}, "alpha"]
    nested = PARAMS.replace("int m, n, k;", "Sizes sizes;").replace("p.", "p.sizes.")
    nested = re.sub(r"sizes\.(?=a|b|c|ldc)", "", f"struct Sizes {{ int m, n, k; }};\n{nested}")
    for text, output in (PARAMS, [members]), (nested, [[*members[:3], members[3:6], *members[6:]]]):
        code, front = wrapped(text)
        assert (code, front["arguments"]) == (0, output)
        assert front["grid"] == ["ceil(n / 16)", "ceil(m / 16)"]
    closed = PARAMS.replace("float alpha;", "float alpha; int s[1];")
    flags = ["--operation", "matmul", "--dtype", "f32", "--grid", "ceil(n / 16), ceil(m / 16)"]
    code, output = wrapped(closed, *flags)
    assert code != 0
    assert "? (p). Write a struct as the list of its members, [m, n, k] or []" in output
    arguments = "[a, b, c, m, n, max(k, 1), {i64: n}, alpha, 0]"
    code, front = wrapped(closed, *flags, "--arguments", arguments)
    assert code == 0
    assert front["arguments"] == [[*members[:5], "max(k, 1)", *members[6:], 0]]
