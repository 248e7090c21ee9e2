"""Accesses to shared memory for readers: laid out by wavefronts, drawn, and told in words.

What an access was comes from the machine (`execution.machine.access`); nothing here executes or counts.
"""
