"""How many examples a property is tried on, and that a run repeats itself.

By default hypothesis draws the same examples each time: a test fails because of a change, never
by chance. The long run draws others, `LONG` times as many, and is repeated by its seed:

    HYPOTHESIS_PROFILE=long python -m pytest --hypothesis-seed=1 tests/test_partition.py
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
LONG = 20

# Examples take milliseconds on an idle machine and seconds on a busy one: no deadline.
settings.register_profile("default", derandomize=True, deadline=None)
settings.register_profile("long", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(PROFILE)


def examples(count: int, **more: Any) -> settings:
    """Try a property on `count` examples, and on `LONG` times as many in the long run."""
    return settings(max_examples=count * (LONG if PROFILE == "long" else 1), **more)
