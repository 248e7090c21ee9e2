"""What every room may use: compiled functions and the bit casts that numba lacks."""
