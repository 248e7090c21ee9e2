"""What Nsight Compute counts: the catalogue of its counters, and the figures that follow from them."""
