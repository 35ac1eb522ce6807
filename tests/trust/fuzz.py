"""Fuzz the package: ``python tests/trust/fuzz.py formula 100000``.

Targets: formula, codebook, folder, frame. With atheris (pip install atheris)
inputs are led by coverage, else they are random. A failing input is printed as
hexadecimal and can be run again: ``fuzz.py formula --input 00ff...``.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def guarded(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Print the input of a target that fails."""

    def run(data: bytes) -> None:
        try:
            target(data)
        except BaseException:
            print(f"FAILED on --input {data.hex()}", file=sys.stderr, flush=True)
            raise

    return run


def run_random(target: Callable[[bytes], None], runs: int, seed: int) -> None:
    """Random inputs of up to 200 bytes."""
    draw = random.Random(seed)
    start = time.monotonic()
    for _ in range(runs):
        target(draw.randbytes(draw.randrange(200)))
    print(f"{runs} random inputs in {time.monotonic() - start:.0f} s, no failure")


def run_atheris(name: str, runs: int, seed: int) -> None:
    """Inputs led by coverage of the package."""
    import atheris

    with atheris.instrument_imports(include=["dpbinagg"]):
        from fuzz_targets import TARGETS
    options = [f"-atheris_runs={runs}", f"-seed={seed}", "-max_len=300", "-timeout=60"]
    options.append(f"-artifact_prefix={tempfile.gettempdir()}/")
    atheris.Setup([sys.argv[0], *options], guarded(TARGETS[name]))
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=["formula", "codebook", "folder", "frame"])
    parser.add_argument("runs", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="do not use atheris")
    parser.add_argument("--input", help="one input, in hexadecimal")
    given = parser.parse_args()
    led = False
    if not given.random and given.input is None:
        with contextlib.suppress(ImportError):
            import atheris  # noqa: F401

            led = True
    if led:
        run_atheris(given.target, given.runs, given.seed)
        return
    from fuzz_targets import TARGETS

    target = guarded(TARGETS[given.target])
    if given.input is not None:
        target(bytes.fromhex(given.input))
    else:
        run_random(target, given.runs, given.seed)


if __name__ == "__main__":
    main()
