"""What a folder from somewhere else may do: nothing (docs/reliability.md)."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pandas as pd
import pytest

from samples import BODY, FRONT, ROOT, needs_nvrtc, shipped, write_kernel
from tilewave.__main__ import _leaving, main
from tilewave.basics import elf, files, memory
from tilewave.basics.errors import printable
from tilewave.basics.paths import child_environment
from tilewave.commands import flags
from tilewave.commands.wrapping import compiled
from tilewave.execution.machine.printing import MOST, formatted
from tilewave.kernel import result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.result import Result
from tilewave.pipeline import parameters, rules
from tilewave.records.store import write_atomically
from tilewave.report import cells, summary, verdict

VECTOR = shipped("vector_add")
RAW = "\x1b[31m<img src=x onerror=alert(1)>\x07\x00\u202e\ufffe"
TILEWAVE = [sys.executable, "-m", "tilewave"]


def test_no_process_imports_from_the_working_folder(tmp_path):
    for name in ("numpy", "yaml", "pandas"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\nraise SystemExit(7)\n")
    helps, imports = [*TILEWAVE, "--help"], [sys.executable, "-c", "import numpy, yaml, pandas"]
    unset = {"PYTHONSAFEPATH": ""}
    for command, more in ((helps, {}), (imports, {}), (helps, unset)):
        environment = {**child_environment(), **more}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
        assert not done.returncode, done.stderr
    assert not (tmp_path / "ran").exists()


def test_every_child_process_gets_that_environment():
    starting = re.compile(r"sys\.executable, \"-m\"")
    texts = {path: path.read_text() for path in (ROOT / "workflow" / "tilewave").rglob("*.py")}
    starters = [path for path, text in texts.items() if starting.search(text)]
    assert len(starters) > 3
    assert all("child_environment()" in texts[path] for path in starters)
    assert "os.environ.update(child_environment())" in (ROOT / "workflow/Snakefile").read_text()


def test_headers_outside_the_kernels_folder_need_leave(tmp_path, monkeypatch, capsys):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "secret.h").write_text("#error 42\n")
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    for name in ("../secret", "link", str(secret), "../nowhere"):
        front = FRONT + f"compiler: {{include: [{name}]}}\n"
        path = write_kernel(folder, "curious", front, '#include "secret.h"\n' + BODY)
        kernel = load_kernel(path)
        assert kernel.headers == {} and kernel.folders[:1] == (folder,)
        assert main(["execute", str(path), "--shape", "8"]) == 2
        assert "outside the kernel file's folder" in capsys.readouterr().err
    monkeypatch.setenv("TILEWAVE_INCLUDE", str(secret))
    path = write_kernel(folder, "curious", front.replace("nowhere", "secret"))
    assert load_kernel(path).folders[1:]


def test_files_of_the_system_lie_in_no_folder():
    assert not files.lies_in(Path("/proc/self/environ"), [Path("/proc/self")])
    assert files.lies_in(VECTOR, [ROOT])


@needs_nvrtc
def test_a_file_that_cannot_be_read_is_like_one_that_does_not_exist(tmp_path, capsys):
    reasons = set()
    for name in ("/proc/self/environ", str(tmp_path / "none"), str(tmp_path)):
        body = f'#define HEADER "{name}"\n#include HEADER\n{BODY}'
        assert main(["execute", str(write_kernel(tmp_path / "k", body=body)), "--shape", "64"]) == 2
        reasons.add(capsys.readouterr().out.replace(name, "NAME"))
    assert len(reasons) == 1 and 'cannot open source file "NAME"' in reasons.pop()


def test_wrap_writes_through_no_link_out_of_the_folder(tmp_path, capsys):
    outside, folder = tmp_path / "outside", tmp_path / "kernels"
    outside.mkdir()
    folder.mkdir()
    (outside / "product.cu").write_text(BODY.replace("NAME", "product"))
    (folder / "product.cu").symlink_to(outside / "product.cu")  # the source
    (folder / "Mine-1.cu").write_text(BODY.replace("NAME", "mine"))
    (folder / "mine.cu").symlink_to(outside / "made.cu")  # the output, which is not there yet
    before = (outside / "product.cu").read_text()
    for name in ("product.cu", "Mine-1.cu"):
        assert main(["wrap", str(folder / name), "--operation", "matmul", "--block", "8,8"]) == 2
        assert "link out of its folder" in capsys.readouterr().err
    assert (outside / "product.cu").read_text() == before and not (outside / "made.cu").exists()


def test_files_that_have_no_end_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.cu")
    (tmp_path / "zeros.cu").symlink_to("/dev/zero")
    (tmp_path / "zeros.yaml").symlink_to("/dev/zero")
    config = {"kernel_folders": [str(tmp_path)]}
    assert parameters.texts(config) and parameters.planned(config)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"num_warps": 1e400}', '{"num_warps": "x"}'])
def test_metadata_beside_a_cubin_is_checked(tmp_path, text):
    (tmp_path / "k.json").write_text(text)
    assert compiled._beside(tmp_path / "k.cubin") == {}


def test_a_section_larger_than_its_file_is_refused():
    for size, compressed in ((10_000, False), (1, True)):
        header = {"sh_type": "SHT_PROGBITS", "sh_size": size}
        section = type("S", (dict,), {"name": ".text", "compressed": compressed})(header)
        with pytest.raises(ValueError, match="compressed or too large"):
            elf.checked([section], 100)


@pytest.mark.parametrize("revision", ["--output=precious", "--output=precious..HEAD"])
def test_a_revision_is_no_option_of_git(alone, capsys, revision):
    write_kernel(alone / "kernels")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    (alone / "precious").write_text("precious")
    assert main(["compare", "--", revision]) == 2
    assert "--output=precious" in capsys.readouterr().err
    assert (alone / "precious").read_text() == "precious"


@pytest.mark.parametrize(
    ("form", "length"),
    [("%1000000000d", MOST), ("%-*d|", MOST), ("%.2000000000f", MOST), ("%.*s", 4), ("%d" * 9000, MOST)],
)  # fmt: skip
def test_a_width_of_printf_has_a_limit(form, length):
    data = (2**31 - 1 if "s" not in form else 2**32 - 1).to_bytes(4, "little") + bytes(80_000)
    assert len(formatted(form, data, lambda at: "text")) == length


VARIABLE = "__device__ char big[{}];\n"


@needs_nvrtc
@pytest.mark.parametrize("what", ["scratch", "variable"])
def test_an_execution_has_one_limit_of_memory(tmp_path, monkeypatch, capsys, what):
    monkeypatch.setenv(memory.VARIABLE, "0.125")
    text, size = VECTOR.read_text(), 400_000_000
    if what == "scratch":
        text = text.replace("arguments: [a, b, c, n]", "arguments: [a, b, c, n, g]")
        text = text.replace("---*/", f"buffers: {{g: {{dtype: i8, size: {size}}}}}\n---*/")
        text = text.replace("c, int n)", "c, int n, char* g)")
    else:
        text = text.replace('extern "C"', VARIABLE.format(size) + 'extern "C"')
        text = text.replace("c[i] = a[i]", "big[n * 1000] = 1; c[i] = a[i]")
    (tmp_path / "vector_add.cu").write_text(text)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    code = main(["execute", str(tmp_path / "vector_add.cu"), "--shape", "100", "--json"])
    outcome = json.loads(capsys.readouterr().out)
    assert (code, outcome["status"]) == (3, result.NOT_MEASURED)
    assert "more memory than 0.125 GiB (TILEWAVE_MEMORY_GIB" in outcome["reason"]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_the_limit_is_two_gigabytes_unless_the_variable_says_otherwise(monkeypatch):
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    assert memory.allowed_gib() == 2
    for text, allowed in (("0.5", 0.5), ("many", 2), ("-1", 2)):
        monkeypatch.setenv(memory.VARIABLE, text)
        assert memory.allowed_gib() == allowed


def test_texts_from_elsewhere_command_nothing(capsys):
    reason = Result("check", "a@64", result.FAILED_TO_COMPILE, RAW).reason
    flags.show(f"{RAW}\tµ→\n")
    shown = capsys.readouterr().out
    assert formatted(RAW, b"", lambda at: "") == reason == printable(RAW)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ufffe]", reason + shown) and "\tµ→\n" in shown
    frame = pd.DataFrame([{"case": "a@64", "kernel": "a", "verdict": result.NOT_CHECKED}])
    problem = verdict.Problem("a@64", f"a@64: check: trap: {reason}")
    judged = verdict.Verdict("", "", (), (problem,), {}, {})
    assert len(ElementTree.fromstring(summary.junit(frame, judged))) == 1


def test_markdown_takes_no_html():
    texts = ("<img src=x>", "a|b", "[a](b)", "i < n && a[i]", "&lt;b&gt;")
    row = " | ".join(map(cells.markdown, texts))
    assert row == r"&lt;img src=x> | a\|b | [a]\(b) | i < n && a[i] | &amp;lt;b&amp;gt;"


ENDS = {
    "a cache that is a file": ("TILEWAVE_CACHE=file {execute}", "cache: .*file"),
    "a cache of everybody": ("chmod 777 open; TILEWAVE_CACHE=open {execute}", "only you can write"),
    "a full disk": ("{compare} >/dev/full", "No space left"),
    "little memory": ("ulimit -v 350000; {execute}", "memory ran out|cannot be loaded"),
    "no folder": ("cd gone; rmdir ../gone; {execute}", "working folder no longer exists"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="shells and devices of Linux")
@pytest.mark.parametrize("what", ENDS)
def test_what_the_machine_lacks_is_told_in_one_line(tmp_path, what):
    for name in ("open", "gone"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    script, message = ENDS[what]
    command = " ".join(TILEWAVE)
    script = script.format(
        execute=f"{command} execute {VECTOR} --shape 100",
        compare=f"{command} compare {VECTOR} {VECTOR}",
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=child_environment(), capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert re.search(message, done.stderr) and len(done.stderr.strip().splitlines()) == 1


def test_ctrl_c_and_a_failure_end_a_command_in_one_line(capsys):
    for error, code, text in ((KeyboardInterrupt, 130, ""), (StopIteration, 3, r".*Report it.*")):
        with pytest.raises(SystemExit) as ended, _leaving():
            raise error
        line = capsys.readouterr().err
        assert ended.value.code == code and re.fullmatch(rf"(Interrupted|Error: ){text}\n", line)


def test_a_terminal_without_unicode_gets_escapes():
    script = "from tilewave.__main__ import main; main(['check', '\\u00b5'])"
    environment = {**child_environment(), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert b"Error: " in done.stderr and b"Traceback" not in done.stderr


def test_an_input_that_was_deleted_during_the_run_is_named(tmp_path):
    inputs = SimpleNamespace(input=[tmp_path / "plan.json"])
    message = str(rules._gone(FileNotFoundError(), inputs))
    assert "plan.json: it was deleted during the run. Run again" in message
    assert rules._gone(ValueError(), inputs) is None
    assert (ROOT / "workflow/Snakefile").read_text().count("parameters.mark(RESULTS, REPORTS)") == 1


def test_a_device_is_written_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, b"text")
    assert os.read(reader, 9) == b"text" and not path.is_file()
    os.close(reader)
