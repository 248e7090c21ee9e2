"""Accesses to shared memory for readers: laid out by wavefronts.
The machine gives the accesses (`execution.machine.access`); this room neither executes nor counts."""
