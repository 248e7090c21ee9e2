"""Compiling: NVRTC to cubin, the cubin's sections, nvdisasm to SASS. Needs no GPU."""
