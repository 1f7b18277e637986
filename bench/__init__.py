"""Benchmarks: ratios of CPU time inside one run, against peers on the same bytes."""

from __future__ import annotations
