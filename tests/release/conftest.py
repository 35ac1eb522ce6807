import shutil
import subprocess
import sys

import pytest
from release_data import make_odd_results, make_release

R_IS_HERE = shutil.which("Rscript") is not None


@pytest.fixture(scope="session")
def release():
    return make_release()


@pytest.fixture(scope="session")
def saved(release, tmp_path_factory):
    """The folder of that release; copy it before you change it."""
    return release.save(tmp_path_factory.mktemp("saved") / "release", rng=3)


@pytest.fixture(scope="session")
def odd():
    return make_odd_results()


@pytest.fixture(scope="session")
def odd_saved(odd, tmp_path_factory):
    """A folder whose variables have names that are words of R and Stata, or beyond ASCII."""
    return odd.save(tmp_path_factory.mktemp("odd") / "release", rng=3, copies=12, report=False)


@pytest.fixture(scope="session")
def run_r():
    """Run R code in a folder and return what it printed."""
    if not R_IS_HERE:
        pytest.skip("Rscript is not on this machine: apt-get install r-base-core")

    def run(folder, *arguments, **environment):
        import os

        done = subprocess.run(
            ["Rscript", "--vanilla", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def run_python():
    """Run a Python script in a folder; what it returned and said."""

    def run(folder, *arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )

    return run
