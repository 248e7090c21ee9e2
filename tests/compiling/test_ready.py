"""Kernels that another compiler compiled: a cubin beside a .yaml file."""

import json
import re
from pathlib import Path

import pytest

from samples import kernel_parts, needs_nvrtc, write_kernel
from tilewave.__main__ import main
from tilewave.basics import elf as images
from tilewave.basics.errors import UserError
from tilewave.commands.wrapping import compiled
from tilewave.compiling import nvrtc, ready
from tilewave.kernel.digests import cubins as cubins_of
from tilewave.kernel.digests import source_digest
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import choices

pytestmark = needs_nvrtc

FRONT, BODY = kernel_parts("ready")


@pytest.fixture(scope="module")
def cubins(tmp_path_factory) -> dict[int, bytes]:
    folder, by_side = tmp_path_factory.mktemp("made"), {}
    for side in (16, 8):
        front = FRONT.partition("operation")[2]
        source = f"title: Mine\noperation{front}".replace("cubin: mine_{SIDE}.cubin\n", "")
        kernel = load_kernel(write_kernel(folder, "mine", source, BODY))
        by_side[side] = nvrtc.compile_kernel(kernel, "sm_90", {"SIDE": side}).cubin
    return by_side


@pytest.fixture
def front_file(tmp_path: Path, cubins) -> Path:
    for side, data in cubins.items():
        (tmp_path / f"mine_{side}.cubin").write_bytes(data)
    (tmp_path / "mine.cu").write_text("\n" * 11 + BODY.replace("NAME", "mine"))
    (tmp_path / "elsewhere.yaml").write_text(FRONT)
    return tmp_path / "elsewhere.yaml"


def executed(path: Path, capsys, *more: str):
    main(["execute", str(path), "--shape", "33x40x17", "--budget", "0", "--json", *more])
    return json.loads(capsys.readouterr().out)


def test_it_is_executed_as_if_it_had_been_compiled_here(front_file, capsys):
    for side in (16, 8):
        document = executed(front_file, capsys, "--macro", f"SIDE={side}")
        assert (document["verdict"], document["block"]) == ("correct", [side, side, 1])
        assert document["resources"]["static_shared_bytes"] == 4 * side * side
        lines = document["headers"]["mine.cu"]
        (loop,) = (line for line in lines if "for (int i" in line["text"])
        assert loop["wavefronts_hardware"] > 0 and document["lines"] == []


def test_its_key_is_its_content(front_file):
    kernel = load_kernel(front_file)
    before = source_digest(kernel)
    names = [choice.names for choice in choices(kernel, "product", kernel.path, "macros")]
    first, second = (ready.text_key(kernel, "sm_90", choice) for choice in names)
    assert first != second
    folder = front_file.parent
    (folder / "mine_8.cubin").write_bytes((folder / "mine_16.cubin").read_bytes())
    assert ready.text_key(kernel, "sm_90", names[1]) == first
    assert source_digest(kernel) != before


@pytest.mark.parametrize("content", ["", "text", "\x7fELF" + 60 * "\0"])
def test_a_file_that_is_no_cubin(front_file, capsys, content):
    file = front_file.parent / "mine_16.cubin"
    file.write_text(content) if content else file.unlink()
    document = executed(front_file, capsys)
    reason = "no cubin" if content else "the file cannot be read"
    assert document["status"] == "failed to compile"
    assert document["reason"].startswith(f"{file.name}: ") and reason in document["reason"]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("mine_", ["--arch", "sm_80"], "compiled for sm_90"),
        ("../mine_", [], "does not lie in the kernel's folder"),
        ("yours_", [], "yours_16.cubin: the file cannot be read"),
    ],
)
def test_a_cubin_that_does_not_fit(front_file, capsys, name, options, reason):
    front_file.write_text(FRONT.replace("mine_", name))
    assert reason in executed(front_file, capsys, *options)["reason"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mine_{SIDE}", "mine_{WIDTH}", "cubin: mine_{WIDTH}.cubin names no macro"),
        ("mine_{SIDE}", "mine_{SIDE.x}", "cubin: mine_{SIDE.x}.cubin names no macro"),
        ("mine_{SIDE}", "mine_{SIDE[0]}", "cubin: mine_{SIDE[0]}.cubin names no macro"),
        ("cubin: mine_{SIDE}.cubin\n", "", "provider is missing. Needed: cublaslt or cpu, or a `cubin`"),
    ],
)  # fmt: skip
def test_a_mistake_in_it(front_file, capsys, old, new, message):
    front_file.write_text(FRONT.replace(old, new))
    with pytest.raises(UserError, match=re.escape(message)):
        ready.text_key(load_kernel(front_file), "sm_90", {"SIDE": 16})


def test_a_file_with_code_is_compiled(tmp_path):
    path = write_kernel(tmp_path, "mine", FRONT.partition('"mine.cu"\n')[2], BODY)
    with pytest.raises(UserError, match=r"compiled names a cubin too\. .*\.yaml file"):
        load_kernel(path)


def test_which_files_a_name_may_mean(front_file):
    """Files in a folder and below; none outside of it, and none that is unreadable."""
    folder = front_file.parent
    for name in ("a/one.cubin", "b/one.cubin", "mine_[1].cubin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"code")
    (folder / "c" / "one.cubin").mkdir(parents=True)
    for given, wanted in {
        "mine_{SIDE}{SIDE}.cubin": ["mine_16.cubin", "mine_8.cubin", "mine_[1].cubin"],
        "{SIDE}/one.cubin": ["a/one.cubin", "b/one.cubin"],
        "mine_[1].cubin": ["mine_[1].cubin"],
        "../*/*.cubin": [],
        "/*": [],
        "''": [],
    }.items():
        named = given if "'" in given else f'"{given}"'
        front_file.write_text(FRONT.replace("mine_{SIDE}.cubin", named))
        assert list(cubins_of(load_kernel(front_file))) == wanted, given


def test_front_matter_of_a_cubin_is_written(front_file, capsys):
    (folder := front_file.parent / "alone").mkdir()
    path = folder / "gemm_of_mine.cubin"
    path.write_bytes((front_file.parent / "mine_16.cubin").read_bytes())
    assert main(["wrap", str(path), "--yes", "--block", "16,16"]) == 0
    errors = capsys.readouterr().err
    assert "the arrays are f32" in errors and "a block writes 16 x 16 of c" in errors
    front = load_kernel(path.with_suffix(".yaml")).front
    assert (front.grid, front.reads_c) == (["ceil(n / 16)", "ceil(m / 16)"], False)
    assert (front.cubin, front.entry, front.operation) == (path.name, "mine", "matmul")
    assert front.arguments == ["a", "b", "c", "m", "n", "k"]
    assert front.requires == {"arch": 90} and front.dtypes["accumulate"] == "f32"
    assert executed(path.with_suffix(".yaml"), capsys)["verdict"] == "correct"
    (folder / "mine.cubin").write_bytes(b"no ELF")
    assert main(["wrap", str(folder / "mine.cubin"), "--yes"]) == 2
    assert "no cubin" in capsys.readouterr().err


def test_what_triton_says_beside_its_cubin(front_file, capsys):
    path = front_file.parent / "mine_8.cubin"
    path.with_suffix(".json").write_text('{"num_warps": 2, "shared": 1024, "name": "mine"}')
    launch = compiled.read(path)[1]["mine"]
    assert launch.front == {"cubin": "mine_8.cubin", "block": [64], "shared_bytes": 1024}
    assert (len(launch.function.parameters), launch.scratch) == (4, 2)


def test_what_a_launch_must_have():
    def attribute(kind, *sides):
        return bytes([4, kind, 12, 0]) + b"".join(side.to_bytes(4, "little") for side in sides)

    info = attribute(0x05, 256, 1, 1) + attribute(0x3D, 2, 1, 1)
    assert images._sides(info, images.REQUIRED_BLOCK, images.MAX_THREADS) == (256, 1, 1)
    info = attribute(0x10, 128, 2, 1) + info
    assert images._sides(info, images.REQUIRED_BLOCK, images.MAX_THREADS) == (128, 2, 1)
    assert images._sides(info, images.CLUSTER) == (2, 1, 1) and images._sides(b"", 0x10) == ()
