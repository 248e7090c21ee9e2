"""The lock of a GPU: one for all users of a machine, in a folder that all can write."""

import contextlib
import fcntl
import os
import subprocess
import sys
import threading

import pytest

from tilewave.basics.errors import UserError
from tilewave.gpu import device

HOLD = """
import sys; from pathlib import Path; from tilewave.gpu import device
device.SHARED = Path(sys.argv[1])
with device.gpu_lock("GPU-1"):
    print("held", flush=True); sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def shared(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "SHARED", tmp_path)
    return tmp_path / "tilewave-GPU-1.lock"


def test_another_process_waits_until_the_holder_ends(shared, tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    waited = []

    def waiting():
        waited.append(True)
        shared.unlink()  # as a cleanup of the folder does: the awaited file is no lock any more
        threading.Timer(0.1, holder.kill).start()

    with device.gpu_lock("GPU-1", waiting):
        assert waited == [True] and shared.is_file()
    holder.wait()


def test_those_who_measure_nothing_hold_it_together_and_who_measures_alone(shared):
    waited = []
    with device.gpu_lock("GPU-1", shared=True), device.gpu_lock("GPU-1", shared=True):
        file = os.open(shared, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
    with device.gpu_lock("GPU-1", lambda: waited.append(True)):
        assert not waited


def test_every_user_can_open_it_and_nobody_but_its_owner_write(shared):
    before = os.umask(0o077)
    try:
        with device.gpu_lock("GPU-1"):
            assert shared.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


@pytest.mark.parametrize("what", ["link", "dangling", "folder", "pipe"])
def test_what_somebody_put_in_its_place_is_refused(shared, tmp_path, what):
    victim = tmp_path / "victim"
    if what == "link":
        victim.touch(0o600)
    if what in ("link", "dangling"):
        shared.symlink_to(victim)
    else:
        shared.mkdir() if what == "folder" else os.mkfifo(shared)
    with pytest.raises(UserError, match=r"GPU: .*tilewave-GPU-1\.lock"), device.gpu_lock("GPU-1"):
        pass
    assert victim.exists() == (what == "link")
    assert what != "link" or victim.stat().st_mode & 0o777 == 0o600


def test_a_part_takes_the_first_gpu_that_no_other_part_holds(shared):
    with device.claimed(["GPU-1", "GPU-2"]) as first, device.claimed(["GPU-1", "GPU-2"]) as second:
        assert (first, second) == ("GPU-1", "GPU-2")
        with device.gpu_lock(first):  # a worker of the part uses the GPU meanwhile
            pass
    waited = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(device.claimed(["GPU-1"]))

        def waiting():
            waited.append(True)
            stack.close()

        with device.claimed(["GPU-1"], waiting) as third:
            assert third == "GPU-1" and waited == [True]
