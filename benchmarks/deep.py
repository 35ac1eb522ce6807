"""The paper's four deep-learning peers, run by an environment that has smartnoise-synth 1.0.8.

    ENVIRONMENT/bin/python benchmarks/deep.py JOB

`synthetic.py` starts it, once for each table. JOB is a folder with `records.csv` and `job.json`
(method, bounds, epsilon, delta, seed); it gets `synthetic.csv` and `made.json` (processor seconds,
epsilon at the end). An environment is made with

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install smartnoise-synth==1.0.8 torch==2.13.0 packaging

All columns are numbers with public bounds, for conditioning on categories would use their exact
frequencies. Settings are the library's, with these exceptions:

- Training stops before the accountant exceeds epsilon; the library notices one epoch later.
- DP-CTGAN's batches have at most a tenth of the records, as its sampling rate must be below 1.
- Both CTGANs seed their noise with 0, by which anybody could subtract it: that line is dropped.
- PATE-CTGAN's teachers and student are one and the same network in the library, so that the
  student learns from the records without any noise. Here the teachers are copies.

DP-GAN and DP-CTGAN are accounted for as if batches were Poisson samples, by their own accountant:
neighbours differ by adding or removing a record. The PATE methods cut the records into parts by
their position: their promise is for replacing a record, and they are given the epsilon that the
others have for that. Their votes are accounted for at the bound that does not depend on the data,
``2 a^2 l (l + 1)`` for each label and order l, to which the library's accountant comes as well.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

NAMES = {"dpctgan": "DPCTGAN", "patectgan": "PATECTGAN", "dpgan": "DPGAN", "pategan": "PATEGAN"}
SEEDS = "        torch.cuda.manual_seed(0)\n        torch.manual_seed(0)\n"
SHARED = "teacher_disc = [discriminator for i in range(self.num_teachers)]"
COPIED = (
    "teacher_disc = [__import__('copy').deepcopy(discriminator) for i in range(self.num_teachers)]"
)
MENDED = {"dpctgan": [(SEEDS, "")], "patectgan": [(SEEDS, ""), (SHARED, COPIED)]}
ORDERS = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))
"""Of Renyi divergence, in the library."""

NOISE = {"dpgan": 3.5, "dpctgan": 5.0}
"""Noise over clipping norm, in the library."""

EPOCHS = {"dpgan": 1000, "dpctgan": 300}
"""At most, in the library."""

VOTE = 1e-3
"""One over the scale of the noise in votes, in the library."""

LABELS = {"pategan": 5 * 64, "patectgan": 5 * 500}
"""Votes in one iteration: five batches."""


def descents(method: str, records: int, batch: int) -> int:
    """Noisy steps in one epoch: of every batch one with generated rows and one with records."""
    return 2 * max(records // batch, 1)


def spent_in_descent(method: str, records: int, batch: int, epochs: int, delta: float) -> float:
    """Epsilon after so many epochs, by the library's accountant."""
    from opacus import privacy_analysis

    rdp = privacy_analysis.compute_rdp(batch / records, NOISE[method], 1, ORDERS)
    steps = epochs * descents(method, records, batch)
    return float(privacy_analysis.get_privacy_spent(ORDERS, rdp * steps, delta)[0])


def spent_in_votes(method: str, iterations: int, delta: float) -> float:
    """Epsilon after so many iterations: min over l of (labels 2 a^2 l (l+1) - log delta)/l."""
    labels = LABELS[method] * iterations
    return min(2 * VOTE**2 * labels * (k + 1) - math.log(delta) / k for k in range(1, 101))


def most(spent: Any, epsilon: float, limit: int) -> int:
    """The largest number of epochs or iterations, up to `limit`, that spends at most epsilon."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle - 1)
    return low


def library_class(method: str) -> Any:
    """The library's class, its code mended as the head of this file says."""
    module = importlib.import_module(f"snsynth.pytorch.nn.{method}")
    if method in MENDED:
        code = inspect.getsource(module)
        for old, new in MENDED[method]:
            if code.count(old) != 1:
                raise RuntimeError(f"{method} is not the code of smartnoise-synth 1.0.8")
            code = code.replace(old, new)
        mended = types.ModuleType(module.__name__)
        mended.__package__ = module.__package__
        exec(compile(code, module.__file__, "exec"), mended.__dict__)
        module = mended
    return getattr(module, NAMES[method])


def synthesise(method: str, table: Any, bounds: Any, epsilon: float, delta: float) -> Any:
    """Synthetic rows and the epsilon that they spent."""
    from snsynth.transform import MinMaxTransformer, TableTransformer

    records = len(table)
    if method == "pategan" and records < 1000:
        raise ValueError("PATE-GAN has a teacher for every 1,000 records: there are fewer")
    batch = min(500, records // 10 // 2 * 2) if method == "dpctgan" else 64
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if method in NOISE:

        def spent(epochs: int) -> float:
            return spent_in_descent(method, records, batch, epochs, delta)

        epochs = most(spent, epsilon, EPOCHS[method])
        options |= {"epochs": epochs, "batch_size": batch}
        used = spent(epochs)
        # The library's own stop would be the epoch after the last.
        options["epsilon"] = math.inf
    else:

        def spent(iterations: int) -> float:
            return spent_in_votes(method, iterations, delta)

        epochs = most(spent, epsilon, 100_000)
        used = spent(epochs)
        # It stops when epsilon was passed: between what the last iteration finds and leaves.
        options["epsilon"] = (spent(epochs - 1) + used) / 2 if epochs else 0.0
    if epochs == 0:
        raise ValueError(f"epsilon is spent before the first epoch of {NAMES[method]}")
    if method.endswith("ctgan"):
        options |= {"verbose": False, "cuda": False}
    model = library_class(method)(**options)
    cuts = [MinMaxTransformer(lower=low, upper=high) for low, high in bounds]
    model.fit(table, transformer=TableTransformer(cuts))
    rows = model.sample(records)
    return rows, used, epochs


def main() -> None:
    """Do one job."""
    import numpy as np
    import pandas as pd
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    table = pd.read_csv(folder / "records.csv").astype(float)
    library_class(job["method"])
    np.random.seed(job["seed"])  # noqa: NPY002
    torch.manual_seed(job["seed"])
    start = time.process_time()
    try:
        rows, used, epochs = synthesise(
            job["method"], table, job["bounds"], job["epsilon"], job["delta"]
        )
    except ValueError as error:
        (folder / "made.json").write_text(json.dumps({"refused": str(error)}))
        return
    seconds = time.process_time() - start
    made = pd.DataFrame(np.asarray(rows, dtype=float), columns=table.columns)
    made.to_csv(folder / "synthetic.csv", index=False)
    told = {"seconds": seconds, "epsilon": used, "epochs": epochs}
    (folder / "made.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
