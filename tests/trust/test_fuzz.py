"""The targets of the fuzzer, driven by hypothesis for a few hundred inputs each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_targets import TARGETS

FOUND: dict[str, list[str]] = {"formula": ["085e"], "codebook": [], "folder": [], "frame": []}
"""Inputs that once failed, in hexadecimal."""


@pytest.mark.parametrize("name", TARGETS)
@examples(150, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=120))
def test_inputs(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in FOUND.items() for t in texts])
def test_inputs_that_once_failed(name: str, text: str) -> None:
    TARGETS[name](bytes.fromhex(text))
