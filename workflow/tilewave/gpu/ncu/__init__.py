"""Sessions of Nsight Compute: what is counted, sampled and read back."""
