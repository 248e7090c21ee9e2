"""Accesses to shared memory for readers: laid out by wavefronts, and described in text.
The machine gives the accesses (`execution.machine.access`); this room neither executes nor counts."""
