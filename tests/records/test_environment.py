"""The description of a machine, read from files, without a GPU."""

import json
import os
import time
from pathlib import Path

import pytest

from tilewave.gpu import facts
from tilewave.records import environment

OPEN = "NVIDIA UNIX Open Kernel Module for x86_64"
VERSION = f"NVRM version: {OPEN}  580.159  Release Build\nGCC 13\n"
OLDER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n"


def test_what_files_of_the_driver_say() -> None:
    versions = {VERSION: "580.159", OLDER: "535.104.05", "": ""}
    assert {text: environment.driver_version(text) for text in versions} == versions
    only = "A: 1\nRmProfilingAdminOnly: {}\n"
    who = {only.format(1): "administrators", only.format(0): "all users", "": "unknown"}
    assert {text: environment.counter_permission(text) for text in who} == who


def test_fingerprint_is_json_and_quick() -> None:
    environment.fingerprint()
    start = time.perf_counter()
    machine = environment.fingerprint()
    assert time.perf_counter() - start < 0.05
    assert json.loads(json.dumps(machine)) == machine
    assert {"driver", "devices", "counter_permission", "ncu"} <= set(machine)


def executable(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_ncu_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = executable(tmp_path / "nsight-compute" / "2025.3.1" / "ncu")
    executable(tmp_path / "nsight-compute" / "2024.10.0" / "ncu")
    places = (str(tmp_path / "nsight-compute" / "*" / "ncu"),)
    monkeypatch.setattr(environment, "NCU_PLACES", places)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.find_ncu() == new
    inside = executable(tmp_path / "cuda-13.0" / "bin" / "ncu")
    monkeypatch.setenv("PATH", str(Path(inside).parent) + ":" + os.environ["PATH"])
    assert environment.find_ncu() == inside


def test_has_gpu_needs_library_device_and_visibility() -> None:
    machine = {"libcuda": True, "devices": ["/dev/nvidia0"], "visible_devices": None}
    assert environment.has_gpu(machine)
    assert not environment.has_gpu({**machine, "visible_devices": ""})
    assert not environment.has_gpu({**machine, "devices": []})


def test_the_id_follows_what_matters_and_not_the_commit() -> None:
    base = {"gpu": "NVIDIA H200", "driver": "580.159", "packages": {"numpy": "2.4", "pandas": "3"}}
    alike = [{"commit": "abc", "dirty": True, "recorded": True}]
    alike += [{"packages": {"numpy": "2.4", "pandas": "4"}}]
    apart = [{"driver": "1"}, {"packages": {"numpy": "2.5", "pandas": "3"}}]
    first, *ids = (environment.environment_id({**base, **more}) for more in ({}, *alike, *apart))
    assert [identity == first for identity in ids] == [True, True, False, False]


def test_a_machine_without_a_gpu_has_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda machine: False)
    probed = environment.probe()
    assert probed["gpu"] is None and probed["gpu_reason"] and probed["cpu"]
    assert probed["id"] == environment.environment_id(probed)
    assert probed["packages"]["numpy"]
    json.dumps(probed)


def test_probe_in_a_child_that_finds_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    if environment.has_gpu(environment.fingerprint()):
        pytest.skip("there is a GPU here")
    monkeypatch.setattr(environment, "has_gpu", lambda machine: True)
    probed = environment.probe()
    assert probed["gpu"] is None and probed["gpu_reason"]
    assert probed["nvrtc"].startswith("13.0")


def test_uuid() -> None:
    assert facts.uuid_text(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
