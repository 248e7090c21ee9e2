"""Kernel files that exhaust the machine or read foreign files: each costs only its kernel, with one line."""

import mmap
import os
import random
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest

from fake_machine import CODE
from samples import BODY, FRONT, config, needs_nvrtc, table, write_kernel
from tilewave.basics.errors import KernelRefused, UserError
from tilewave.compiling import declarations, nvcc, nvrtc, sass, source
from tilewave.execution.machine import program
from tilewave.kernel import includes, result
from tilewave.kernel.digests import host_code
from tilewave.kernel.discovery import find_kernels
from tilewave.kernel.expressions import ExpressionError, evaluate, integer
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import choices, variant
from tilewave.pipeline import compiling, project
from tilewave.pipeline.resolving import resolve
from tilewave.records.store import Store, write_atomically
from tilewave.report import verdict
from tilewave.workers import pool

SECRET = "root:x:0:0:told to nobody"
SLOWEST_S = 10.0


def check_message(error: UserError, path: object) -> None:
    """Check the form of every UserError: one line, a file, a remedy."""
    message = str(error)
    assert "\n" not in message and message.startswith(str(path)), message
    assert re.search(r"\. [A-Z]", message), message
    assert len(message) < 50_000 and len(message.split(". Allowed: ")[0]) < 5_000, len(message)


def loaded(*paths: object, kernels: object = "all", **about: object) -> project.Project:
    """Load a project of these kernels at 64, from the files and folders at these paths."""
    block = {"kernels": kernels, "shapes": [64], **about}
    return project.load(config(block, kernel_folders=list(map(str, paths))), "config")


@pytest.fixture
def kernel_folder(alone):
    (alone / "mine").mkdir()
    return alone / "mine"


def a_link_out(path: Path) -> None:
    (path.parents[1] / "passwd").write_text(SECRET)
    path.symlink_to(path.parents[1] / "passwd")


def a_large_file(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(50_000_000)


def with_front(text: str):
    return lambda path: path.write_text(f"/*---\n{text}---*/\n")


REFUSED = {
    "endless device": (lambda path: path.symlink_to("/dev/zero"), "the file is a link"),
    "password file": (a_link_out, "the file is a link"),
    "loop of links": (lambda path: path.symlink_to(path.name), "the file cannot be read"),
    "nowhere": (lambda path: path.symlink_to("gone.cu"), "the file cannot be read"),
    "named pipe": (os.mkfifo, "this is no regular file"),
    "directory": (Path.mkdir, "this is no regular file"),
    "50 MB": (a_large_file, "the file has 50000000 bytes"),
    "nested": (with_front(f"title: t\noperation: probe\ncases: {'[' * 100_000}\n"), "front matter"),
    "combinations": (
        with_front(FRONT.replace("macros: {", "macros: {" + "".join(f"A{i}: [1, 2], " for i in range(40)))),
        "macros.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_eats_the_machine_is_left_out(tmp_path, kind):
    make, key = REFUSED[kind]
    write_kernel(tmp_path / "kernels", "good")
    path, begun = tmp_path / "kernels" / "bad.cu", time.process_time()
    make(path)
    left_out: dict[str, KernelRefused] = {}
    assert list(find_kernels([path.parent], left_out)) == ["good"]
    check_message(left_out["bad"], path)
    assert f": {key}" in str(left_out["bad"]) and "told to nobody" not in str(left_out["bad"])
    assert time.process_time() - begun < SLOWEST_S
    with pytest.raises(KernelRefused):
        find_kernels([path.parent])


def test_the_rest_of_the_run_goes_on(kernel_folder):
    write_kernel(kernel_folder, "good")
    (kernel_folder / "bad.cu").symlink_to("/dev/zero")
    for kernels in ("all", ["good", "bad"]):
        loaded_project = loaded(kernel_folder, kernels=kernels)
        assert loaded_project.plan.kernels == ["good"] and list(loaded_project.left_out) == ["bad"]
    with pytest.raises(KernelRefused, match="a link out of its folder"):
        loaded(kernel_folder, kernels=["bad"])


STRANGE = {
    "bare.cu": "__global__ void bare() {}\n",
    "01_Name.cu": f"/*---\n{FRONT}---*/\n",
    "latin.cu": b"// caf\xe9\n",
    "environment.yaml": "name: x\n",
    "setup.py": "import os\n",
}
MISTAKES = {
    "model": FRONT.replace("matmul", "matmull"),
    "value": FRONT.replace("ceil(n / TILE)", "ceil(q / TILE)"),
    "rung": FRONT + "follows: nobody\n",
}


def test_a_folder_may_hold_anything(kernel_folder, tmp_path, monkeypatch):
    good = write_kernel(kernel_folder, "good")
    for name, text in STRANGE.items():
        (kernel_folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (kernel_folder / "good.yaml").write_text("name: of another thing\n")
    for name, front in MISTAKES.items():
        write_kernel(kernel_folder, name, front)
    loaded_project = loaded(kernel_folder)
    assert list(loaded_project.kernels) == ["good"]
    assert set(loaded_project.left_out) == set(MISTAKES)
    assert set(loaded_project.no_kernels) == {"good.yaml", *(Path(name).stem for name in STRANGE)}
    assert "`tilewave wrap mine/bare.cu`" in loaded_project.no_kernels["bare"]
    assert "model.cu:3: operation" in loaded_project.left_out["model"]
    assert "value.cu:8: grid.0" in loaded_project.left_out["value"]
    for name in ("bare.cu", "value.cu"):
        with pytest.raises(UserError, match=f"{name}: "):
            loaded(good, kernel_folder / name)
    write_kernel(kernel_folder, "wrapped", body='#include "01_Name.cu"\n')
    assert "01_Name" not in loaded(kernel_folder).no_kernels
    monkeypatch.setattr("tilewave.basics.paths.ROOT", tmp_path)
    kernel_folder.rename(tmp_path / "kernels")
    with pytest.raises(UserError, match="01_Name"):
        loaded(tmp_path / "kernels")
    monkeypatch.undo()
    kernel_folder.mkdir()
    (kernel_folder / "bare.cu").write_text(STRANGE["bare.cu"])
    with pytest.raises(UserError, match=r"no usable kernel; 1 skipped.*the first: .*bare"):
        loaded(kernel_folder)


def test_a_kernel_that_was_skipped_fails_the_run():
    cases = pd.DataFrame(columns=["case", "kernel", "verdict"])
    records = pd.DataFrame(columns="case stage status reason source metric value".split())
    why = {"bad": "kernels/bad.cu: file is 'prw-r--r--'. Allowed: a regular file"}
    run = SimpleNamespace(left_out=why, config=SimpleNamespace(strict=False))
    outcome = verdict.of(run, cases, records)
    assert not outcome.passed and outcome.sentence == "Not passed: 1 kernel file was skipped (bad)."


@pytest.mark.parametrize(
    "text",
    ["1 << 64", "1 << (1 << 40)", "9 ** 9 ** 9", "2 ** 63 * 2", "ceil(1e300)", "0x" + "f" * 9000,
     "'%999999999d' % 1", "f'{1:>999999999}'", "[1] * 100000 * 100000", "1 + " * 4000 + "1", "-" * 90_000 + "1"],
)  # fmt: skip
def test_an_expression_has_a_width(text):
    begun = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        evaluate(text)
    assert len(str(caught.value)) < 1000 and time.process_time() - begun < 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, 2**64, "1e400"])
def test_a_whole_number_has_64_bits(value):
    with pytest.raises(ExpressionError):
        integer(value)
    assert integer("1 << 63") == 2**63


@pytest.mark.parametrize(
    ("grid", "status"),
    [("1 << 40", result.UNSUPPORTED), ("1 << 100", result.FAILED_TO_LAUNCH), ("4096 // (m - 64)", result.FAILED_TO_LAUNCH)],
)  # fmt: skip
def test_a_huge_grid_costs_its_case(kernel_folder, grid, status):
    write_kernel(kernel_folder, "wide", FRONT.replace('"ceil(n / TILE)"', f'"{grid}"'))
    request = next(iter(loaded(kernel_folder).plan.cases.values()))
    refusal = resolve(request, {"device": {}, "arch": 90}).refusal
    assert refusal is not None and refusal[0] == status and "grid" in refusal[1]


def test_a_listed_python_kernel_does_not_run(kernel_folder, tmp_path):
    front = "title: t\noperation: matmul\ndtypes: {a: f32, b: f32, c: f32, accumulate: f32}\n"
    ran = f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n"
    (kernel_folder / "host.py").write_text(f'"""---\n{front}---"""\n{ran}')
    (kernel_folder / "broken.py").write_text(f'"""---\n{front}---"""\ndef (:\n')
    loaded_project = loaded(kernel_folder)
    assert loaded_project.plan.kernels == ["broken", "host"]
    assert all(host_code(kernel) for kernel in loaded_project.kernels.values())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    ["/*" * 30_000, 'R"(' * 20_000, '\\"' * 30_000, "\\'" * 30_000, "#/*" * 20_000, "#include <x\n" * 5_000,
     "<" * 50_000, "namespace a{" * 4_000, "std::" * 20_000],
)  # fmt: skip
def test_a_text_is_read_in_linear_time(text):
    begun = time.process_time()
    text += f"\n// {begun}\n"  # nothing of it is remembered
    source.code(text), declarations.macros(text), includes.INCLUDE.findall(text)
    nvcc.adapted("k.cu", text + "int main();", {}, "k")
    assert time.process_time() - begun < SLOWEST_S


KERNEL = 'extern "C" __global__ void NAME(int* a) { a[0] = VALUE; }\n'


def compiled(folder: Path, monkeypatch, cpu_s: int = 60, memory: int = 1 << 30, **bodies: str):
    """Compile kernels with these bodies in one batch."""
    monkeypatch.setattr(compiling, "LIMIT_S", cpu_s)
    monkeypatch.setattr(compiling, "MEMORY", memory)
    kernels = [load_kernel(write_kernel(folder, name, body=body)) for name, body in bodies.items()]
    variants = [variant(kernel, {}, kernel.path, "macros") for kernel in kernels]
    tasks = [compiling.Task(chosen, "sm_90") for chosen in variants]
    store = Store(folder / "store")
    results = {task.variant.id: result for task, result in compiling.compiled(tasks, store, 1)}
    return results, tasks, store


@needs_nvrtc
def test_a_bomb_costs_no_other_kernel_of_its_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "WALL", 100)  # other tests may keep the cores busy
    doubled = "#define A0 1+1\n"
    doubled += "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 40))
    bodies = {"before": BODY, "doubled": doubled + KERNEL.replace("VALUE", "A39"), "after": BODY}
    results, tasks, store = compiled(tmp_path, monkeypatch, 1, **bodies)
    statuses = [results[name]["status"] for name in bodies]
    assert statuses == [result.OK, result.FAILED_TO_COMPILE, result.OK]
    assert all("\n" not in result_of_kernel["reason"] for result_of_kernel in results.values())
    assert results["doubled"]["reason"] == "compiling it: it takes more than 1 s of processor time"
    assert all(compiling._stored(task, store) for task in tasks)  # nor is it tried again


OUTSIDE = table("kernel")["includes of what lies outside"]


@needs_nvrtc
def test_what_lies_outside_is_not_read(tmp_path, monkeypatch):
    from tilewave.workers import confined

    folder, secret = tmp_path / "mine", tmp_path / "passwd"
    folder.mkdir()
    secret.write_text(f"{SECRET}\n")
    (folder / "link.h").symlink_to(secret)
    (folder / "own.h").write_text(f'#include "{secret}"\n')
    texts = enumerate(f"{text}{KERNEL.replace('VALUE', '1')}" for text in OUTSIDE.values())
    bodies = {f"k{at}": text.replace("SECRET", str(secret)) for at, text in texts}
    results, _, _ = compiled(folder, monkeypatch, **bodies)
    for what, result_of_kernel in zip(OUTSIDE, results.values()):
        assert result_of_kernel["status"] == result.FAILED_TO_COMPILE, what
        literal = what not in ("computed", "commented", "spliced", "digraph")
        if literal or compiled_confined():
            assert "told" not in str(result_of_kernel), what
        if literal:
            assert "this header is not read" in result_of_kernel["reason"], what
    assert not confined.confined  # this process may open what it likes


def compiled_confined() -> bool:
    """Return whether a child process can be kept from files here."""
    from tilewave.workers.confined import confine

    limits = pool.ProcessLimits(10, 1 << 30)
    return next(iter(pool.each(lambda at: confine([at], []), [Path("/usr")], 1, limits)))[1] is True


@pytest.mark.parametrize("size, refused", [(1 << 20, "c.h"), (3 << 20, "a.h b.h c.h")])
def test_headers_that_are_too_large(tmp_path, monkeypatch, size, refused):
    monkeypatch.setattr(includes, "MOST_MIB", 2)
    monkeypatch.setattr(includes, "MOST_MIB_IN_ALL", 2)
    for name in "abc":
        (tmp_path / f"{name}.h").write_text("/".ljust(size, "/"))
    headers = includes.kernel_headers('#include "c.h"\n#include "b.h"\n#include "a.h"\n', tmp_path)
    assert refused.split() == [name for name, text in headers.items() if text[0] == "#"]
    assert "2 MiB" in headers["c.h"] and headers["c.h"].count("\n") == 1


ENDS = {
    "one": lambda: 1,
    "signal": lambda: os.kill(os.getpid(), signal.SIGTRAP),
    "outside": lambda: os.kill(os.getpid(), 9),
    "exit": lambda: os._exit(3),
    "memory": lambda: len(bytearray(1 << 30)),
    "time": lambda: sum(iter(int, 1)),
    "raises": Mock(side_effect=RuntimeError("what\nand why")),
    "disk": lambda: write_atomically(Path("/dev/full/x"), b""),
    "two": lambda: 2,
}


def test_what_ends_a_process_costs_its_item():
    ends = dict(pool.each(lambda how: ENDS[how](), list(ENDS), 2, pool.ProcessLimits(1, 256 << 20)))
    assert [ends.pop(name) for name in ("one", "two")] == [1, 2]
    reasons = {name: end.reason for name, end in ends.items()}
    assert "SIGTRAP" in reasons["signal"] and "SIGKILL" in reasons["outside"]
    assert reasons["exit"] == "its process ended with exit code 3"
    assert reasons["memory"] == "it exceeds its memory limit"
    assert "1 s of processor time" in reasons["time"] or "4 s of elapsed time" in reasons["time"]
    assert reasons["raises"] == "RuntimeError: what"
    assert "cannot be written" in reasons["disk"]
    passing = [name for name in ENDS if name in reasons and not ends[name].lasting]
    busy = ["time"] if "elapsed" in reasons["time"] else []  # with something else
    assert passing == ["outside", *busy, "disk"]


RESERVED = []


def reserves(item):
    """Reserve addresses and keep them; with `item` write to them."""
    RESERVED.append(mmap.mmap(-1, 160 << 20))
    if item == "fills":
        for _ in range(160):
            RESERVED[-1].write(b"x" * (1 << 20))
    return os.getpid()


def test_only_memory_that_is_used_costs_a_process():
    """Arrow's allocator reserves a gigabyte: a process for each item reads everything anew."""
    limits = pool.ProcessLimits(10, 256 << 20)
    pids = [pid for _, pid in pool.each(reserves, ["a", "b", "fills", "c"], 1, limits)]
    assert pids[0] == pids[1] == pids[2] != pids[3]


def undecoded(line: str) -> bool:
    """Return whether an instruction is unsupported, alone and in a listing. Nothing else may happen."""
    listing = f"\n\t.section\t.text.k,\n.text.k:\n        /*0000*/                   {line} ;\n\t.section\tx\n"
    sass.parse.__wrapped__(listing)
    for _, text in program._section(listing, "k"):
        program._decoded.__wrapped__(text)
    *_, problem = program._decoded.__wrapped__(line)
    return problem is not None


@pytest.mark.parametrize(
    "line",
    [
        "FFMA R99999999999999999999, R1, R2, R3",
        "@!P399999999999999999999 FFMA R1, R68, R2, R3",
        "LDG.E R1, [R2+010]",
        "IADD3 R1, R2, 08, RZ",
    ],
)
def test_instructions_that_are_none_are_unsupported(line):
    assert undecoded(line)


PIECES = "R255 UR63 !P9 -0x80000000 1e999 +INF c[0x0][0x160] desc[UR4] .64 | \0 é".split()


def test_damaged_instructions_are_decoded_or_unsupported():
    chance, damaged = random.Random(1), []
    for _ in range(500):
        line = chance.choice(CODE)[1]
        at, end = sorted(chance.randrange(1, len(line)) for _ in range(2))
        damaged.append(undecoded(line[:at] + chance.choice(PIECES) + line[end:]))
    assert {*damaged} == {True, False}


def test_a_number_of_5000_digits_in_a_compilers_log():
    log = f"ptxas info    : Compiling entry function 'k' for 'sm_90'\n    {'9' * 5000} bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    log += "ptxas info    : Used 255 registers, used 1 barriers\n"
    assert nvrtc._resources(log)["k"]["registers"] == 255
    assert "\n" not in nvrtc._message(f"k.cu(14): error: y\n  a = y;\n{log}", None)


def test_each_variant_is_counted_lazily(tmp_path):
    front = FRONT.replace("macros: {", "macros: {" + "".join(f"A{i}: [1, 2], " for i in range(14)))
    kernel = load_kernel(write_kernel(tmp_path, front=front))
    assert next(choices(kernel, "product", "here", "macros")).id == "sample"
