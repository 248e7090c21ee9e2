"""Counters of Nsight Compute: their catalogue, and the figures derived from them."""
