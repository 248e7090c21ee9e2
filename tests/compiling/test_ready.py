"""Kernels that something else compiled: a cubin beside a .yaml file."""

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
from tilewave.kernel.front_matter import cubins as cubins_of
from tilewave.kernel.front_matter import load_kernel, source_digest
from tilewave.kernel.variants import choices

pytestmark = needs_nvrtc

FRONT, BODY = kernel_parts("ready")


@pytest.fixture(scope="module")
def cubins(tmp_path_factory) -> dict[int, bytes]:
    folder, made = tmp_path_factory.mktemp("made"), {}
    for side in (16, 8):
        front = FRONT.partition("operation")[2]
        source = f"title: Mine\noperation{front}".replace("cubin: mine_{SIDE}.cubin\n", "")
        kernel = load_kernel(write_kernel(folder, "mine", source, BODY))
        made[side] = nvrtc.compile_kernel(kernel, "sm_90", {"SIDE": side}).cubin
    return made


@pytest.fixture
def made(tmp_path: Path, cubins) -> Path:
    for side, data in cubins.items():
        (tmp_path / f"mine_{side}.cubin").write_bytes(data)
    (tmp_path / "mine.cu").write_text("\n" * 11 + BODY.replace("NAME", "mine"))
    (tmp_path / "elsewhere.yaml").write_text(FRONT)
    return tmp_path / "elsewhere.yaml"


def executed(path: Path, capsys, *more: str):
    main(["execute", str(path), "--shape", "33x40x17", "--json", *more])
    return json.loads(capsys.readouterr().out)


def test_it_is_executed_as_if_it_had_been_compiled_here(made, capsys):
    for side in (16, 8):
        told = executed(made, capsys, "--macro", f"SIDE={side}")
        assert (told["verdict"], told["block"]) == ("correct", [side, side, 1])
        assert told["resources"]["static_shared_bytes"] == 4 * side * side
        lines = told["headers"]["mine.cu"]
        (loop,) = (one for one in lines if "for (int i" in one["text"])
        assert loop["wavefronts_hardware"] > 0 and told["lines"] == []


def test_its_key_is_its_content(made):
    kernel = load_kernel(made)
    before = source_digest(kernel)
    names = [one.names for one in choices(kernel, "product", kernel.path, "macros")]
    first, second = (ready.text_key(kernel, "sm_90", one) for one in names)
    assert first != second
    (made.parent / "mine_8.cubin").write_bytes((made.parent / "mine_16.cubin").read_bytes())
    assert ready.text_key(kernel, "sm_90", names[1]) == first
    assert source_digest(kernel) != before


@pytest.mark.parametrize("content", ["", "text", "\x7fELF" + 60 * "\0"])
def test_a_file_that_is_no_cubin(made, capsys, content):
    file = made.parent / "mine_16.cubin"
    file.write_text(content) if content else file.unlink()
    found = executed(made, capsys)
    told = "no cubin" if content else "found No such file"
    assert found["status"] == "failed to compile" and f"{file.name}: {told}" in found["reason"]


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("mine_", ["--arch", "sm_80"], "mine_16.cubin: compiled for sm_90, and sm_80 is wanted"),
        ("../mine_", [], "does not lie in the kernel's folder"),
        ("yours_", [], "yours_16.cubin: found"),
    ],
)
def test_one_that_is_not_the_kernels(made, capsys, name, words, told):
    made.write_text(FRONT.replace("mine_", name))
    assert told in executed(made, capsys, *words)["reason"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("mine_{SIDE}", "mine_{WIDTH}", "cubin is 'mine_{WIDTH}.cubin'"),
        ("mine_{SIDE}", "mine_{SIDE.x}", "cubin is 'mine_{SIDE.x}.cubin'"),
        ("mine_{SIDE}", "mine_{SIDE[0]}", "cubin is 'mine_{SIDE[0]}.cubin'"),
        ("cubin: mine_{SIDE}.cubin\n", "", "provider is missing. Needed: cublaslt or cpu, or a `cubin`"),
    ],
)  # fmt: skip
def test_a_mistake_in_it(made, capsys, old, new, told):
    made.write_text(FRONT.replace(old, new))
    with pytest.raises(UserError, match=re.escape(told)):
        ready.text_key(load_kernel(made), "sm_90", {"SIDE": 16})


def test_a_file_with_code_is_compiled(tmp_path):
    path = write_kernel(tmp_path, "mine", FRONT.partition('"mine.cu"\n')[2], BODY)
    with pytest.raises(UserError, match=r"a \.yaml file: this one is compiled"):
        load_kernel(path)


def test_which_files_a_name_may_mean(made):
    """A folder's, in it and below; none beside it, and none that cannot be read."""
    folder = made.parent
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
        made.write_text(FRONT.replace("mine_{SIDE}.cubin", given if "'" in given else f'"{given}"'))
        assert list(cubins_of(load_kernel(made))) == wanted, given


def test_front_matter_of_a_cubin_is_written(made, capsys):
    (folder := made.parent / "alone").mkdir()
    path = folder / "gemm_of_mine.cubin"
    path.write_bytes((made.parent / "mine_16.cubin").read_bytes())
    assert main(["wrap", str(path), "--yes", "--block", "16,16"]) == 0
    told = capsys.readouterr().err
    assert "the arrays are f32" in told and "a block writes 16 x 16 of c" in told
    front = load_kernel(path.with_suffix(".yaml")).front
    assert (front.grid, front.reads_c) == (["ceil(n / 16)", "ceil(m / 16)"], False)
    assert (front.cubin, front.entry, front.operation) == (path.name, "mine", "matmul")
    assert front.arguments == ["a", "b", "c", "m", "n", "k"]
    assert front.requires == {"arch": 90} and front.dtypes["accumulate"] == "f32"
    assert executed(path.with_suffix(".yaml"), capsys)["verdict"] == "correct"
    (folder / "mine.cubin").write_bytes(b"no ELF")
    assert main(["wrap", str(folder / "mine.cubin"), "--yes"]) == 2
    assert "no cubin" in capsys.readouterr().err


def test_what_triton_says_beside_its_cubin(made, capsys):
    path = made.parent / "mine_8.cubin"
    (made.parent / "mine_8.json").write_text('{"num_warps": 2, "shared": 1024, "name": "mine"}')
    found = compiled.read(path)[1]["mine"]
    assert found.front == {"cubin": "mine_8.cubin", "block": [64], "shared_bytes": 1024}
    assert (len(found.function.parameters), found.scratch) == (4, 2)


def test_what_a_launch_must_have():
    def attribute(kind, *sides):
        return bytes([4, kind, 12, 0]) + b"".join(one.to_bytes(4, "little") for one in sides)

    info = attribute(0x05, 256, 1, 1) + attribute(0x3D, 2, 1, 1)
    assert images._sides(info, images.REQUIRED_BLOCK, images.MAX_THREADS) == (256, 1, 1)
    info = attribute(0x10, 128, 2, 1) + info
    assert images._sides(info, images.REQUIRED_BLOCK, images.MAX_THREADS) == (128, 2, 1)
    assert images._sides(info, images.CLUSTER) == (2, 1, 1) and images._sides(b"", 0x10) == ()
