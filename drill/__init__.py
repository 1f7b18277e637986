"""A simulated prefill/decode cluster that speaks SGLang's wire surface, faults included."""

from __future__ import annotations
