"""Code that needs a driver. Its modules import without CUDA; only functions import it."""
