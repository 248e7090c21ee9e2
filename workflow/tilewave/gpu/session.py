"""The session of a worker on one GPU: resources that stay open from job to job."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave.gpu.buffers import KeptBuffers
from tilewave.gpu.device import Gpu
from tilewave.gpu.launch import Module
from tilewave.kernel.job import Job

if TYPE_CHECKING:
    from tilewave.gpu.clocks import Clocks
    from tilewave.gpu.cublaslt import CublasLt, Unavailable
    from tilewave.gpu.reference import Support


class Session:
    """A GPU with the last job's code and buffers, the clocks, helper kernels, cuBLASLt and the cache folder."""

    def __init__(self, gpu: Gpu, cache: Path | None = None) -> None:
        self.gpu = gpu
        self.cache = cache
        self._loaded: tuple[tuple[Any, ...], Module] | None = None

    def module(self, job: Job) -> Module:
        """Return the loaded cubin of a job; the last job's if it is the same one, because loading costs ncu time too.

        A function keeps the attributes that `launch.NvrtcKernel` sets, so launches with other shared memory or another
        cluster get another module.
        """
        steps = [(step.entry, step.launch) for step in job.steps]
        allowed = [(entry, launch.shared_bytes, launch.cluster) for entry, launch in steps]
        key = (job.cubin, *allowed)
        if self._loaded is None or self._loaded[0] != key:
            self._unload()
            self._loaded = (key, Module(Path(job.cubin).read_bytes()))
        return self._loaded[1]

    def _unload(self) -> None:
        if self._loaded is not None:
            self._loaded[1].close()
            self._loaded = None

    @cached_property
    def kept(self) -> KeptBuffers:
        return KeptBuffers(self.gpu)

    @cached_property
    def clocks(self) -> Clocks:
        from tilewave.gpu.clocks import Clocks

        return Clocks(self.gpu.uuid)

    @cached_property
    def support(self) -> Support:
        from tilewave.gpu.reference import Support

        return Support(self.gpu, self.cache)

    @cached_property
    def _cublaslt(self) -> CublasLt | Unavailable:
        from tilewave.gpu.cublaslt import CublasLt, Unavailable

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
        self._unload()
        for name in ("kept", "support", "_cublaslt", "clocks"):
            kept = self.__dict__.pop(name, None)
            if kept is not None and not isinstance(kept, Exception):
                kept.close()
