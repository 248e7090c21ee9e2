"""A tuning run's candidates and track without a GPU, in a module that processes can import."""

import os
from dataclasses import dataclass

from tilewave.gpu import tuning_run
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result


@dataclass(frozen=True)
class Candidate(Job):
    """A job with the time of its launch, its misbehaviour, and a file for its runs."""

    us: float = 10.0
    do: str = ""
    diary: str = os.devnull


class FakeTrack:
    """A track whose candidates take the time of their job; `do` of a job is its misbehaviour."""

    def __init__(self, jobs, started, failed):
        self.jobs = {job.case: job for job in jobs}
        self.started, self.failed = started, failed

    def screen(self, name, worst_us):
        self.started(name)
        deed = self.jobs[name].do
        if deed == "fails":
            self.failed(Result("tune", name, "failed to launch", "too many registers"))
            return None
        if deed == "poisons":
            self.failed(Result("tune", name, "invalid access", "illegal address"))
            raise tuning_run.Lost("illegal address")
        if deed == "kills":
            os.kill(os.getpid(), 11)
        with open(self.jobs[name].diary, "a") as diary:
            diary.write(f"{name}\n")
        return [self.jobs[name].us] * 2

    def lap(self, name):
        self.started(name)
        if self.jobs[name].do == "kills in a lap":
            os.kill(os.getpid(), 11)
        return self.jobs[name].us

    def about(self, name):
        return {"launches": 100, "cache": "cold"}

    def leave(self, name):
        pass

    def close(self):
        pass
