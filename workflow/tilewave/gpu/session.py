"""The session of a worker on one GPU: resources that stay open from job to job."""

from functools import cached_property, lru_cache
from pathlib import Path

from tilewave.gpu.buffers import KeptBuffers
from tilewave.gpu.clocks import Clocks
from tilewave.gpu.cublaslt import CublasLt, Unavailable
from tilewave.gpu.device import Gpu
from tilewave.gpu.launch import Module
from tilewave.gpu.reference import Support
from tilewave.kernel.job import Job

MODULES = 256
"""Most cubins that stay loaded: a tuning run times some 150 variants at one shape after the other."""


class Session:
    """A GPU with loaded cubins, the last job's buffers, the clocks, helper kernels, cuBLASLt and the cache folder."""

    def __init__(self, gpu: Gpu, cache: Path | None = None) -> None:
        self.gpu = gpu
        self.cache = cache
        self._modules = lru_cache(MODULES)(lambda cubin, *_: Module(Path(cubin).read_bytes()))

    def module(self, job: Job) -> Module:
        """Return the loaded cubin of a job, which stays loaded, because loading takes as long as some launches.
        A function keeps the attributes that `launch.NvrtcKernel` sets: other shared memory or clusters, another module."""
        steps = [(step.entry, step.launch) for step in job.steps]
        allowed = [(entry, launch.shared_bytes, launch.cluster) for entry, launch in steps]
        return self._modules(job.cubin, *allowed)

    @cached_property
    def kept(self) -> KeptBuffers:
        return KeptBuffers(self.gpu)

    @cached_property
    def clocks(self) -> Clocks:
        return Clocks(self.gpu.uuid)

    @cached_property
    def support(self) -> Support:
        return Support(self.gpu, self.cache)

    @cached_property
    def _cublaslt(self) -> CublasLt | Unavailable:
        try:
            return CublasLt(self.gpu)
        except Unavailable as error:
            return error  # remembered, because a retry would search the disk for every case

    @property
    def cublaslt(self) -> CublasLt:
        """The library. Raises cublaslt.Unavailable at each access."""
        if isinstance(self._cublaslt, Exception):
            raise self._cublaslt
        return self._cublaslt

    def close(self) -> None:
        self._modules.cache_clear()
        for name in ("kept", "support", "_cublaslt", "clocks"):
            kept = self.__dict__.pop(name, None)
            if kept is not None and not isinstance(kept, Exception):
                kept.close()
