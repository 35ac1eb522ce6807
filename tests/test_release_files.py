"""Release folders: equal after a round trip, refused when damaged, written all or nothing."""

import dataclasses
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbinagg import Budget, Domain, dp_ols, dp_release
from dpbinagg.errors import ReleaseError
from dpbinagg.release import folder as folders
from dpbinagg.release.dialects import r_dialect, stata_dialect
from dpbinagg.release.plain import to_json, tree_from_plain, tree_to_plain
from dpbinagg.release.release import Release
from dpbinagg.release.saving import load_release, save_release

FORMULA = "np.log(wage) ~ educ + np.sqrt(exper) + I(exper**2):union + C(region) + k"
BOUNDS = {
    "wage": (0.5, 100),
    "educ": range(6, 19),
    "exper": (0, 40),
    "region": ["01", "NA", "E, W", "no"],
    "union": [False, True],
    "k": [1, 2, 3],
}


def wages(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "educ": rng.integers(6, 19, n),
            "exper": rng.uniform(0, 40, n),
            "region": rng.choice(BOUNDS["region"], n),
            "union": rng.random(n) < 0.3,
            "k": rng.choice([1, 2, 3], n),
        }
    )
    data["wage"] = np.exp(0.5 + 0.08 * data.educ + 0.1 * data.union + rng.normal(0, 0.4, n))
    return data


@pytest.fixture(scope="module")
def release():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp_release(FORMULA, wages(), mu=1, bounds=BOUNDS, rng=1)


@pytest.fixture(scope="module")
def saved(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "release"
    save_release(release, folder, rng=3)
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "copy")
    return tmp_path / "copy"


def same(left, right):
    """Nested statistics, equal to the last bit."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    if isinstance(left, list | tuple):
        return type(left) is type(right) and all(map(same, left, right)) and len(left) == len(right)
    return left == right


def assert_equal(one: Release, other: Release):
    assert one.formula == other.formula
    assert dict(one.design.constants) == dict(other.design.constants)
    assert repr(one.declared) == repr(other.declared)
    assert one.domain == other.domain
    assert repr(one.domain) == repr(other.domain)
    assert one.partition == other.partition
    assert one.allocation == other.allocation
    assert one.calibration == other.calibration
    assert one.privacy == other.privacy
    assert same(dict(one.statistics), dict(other.statistics))
    assert same(dict(one.noise_scales), dict(other.noise_scales))


def test_every_field_of_a_release_is_compared():
    names = {field.name for field in dataclasses.fields(Release)}
    assert names == {
        "design",
        "declared",
        "partition",
        "allocation",
        "calibration",
        "privacy",
        "statistics",
        "noise_scales",
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition": "grid"},
        {"calibration": "paper"},
        {"budget": Budget(moments=0, scores=0)},
        {"budget": Budget(count=0, sum_x=0, sum_y=0)},
        {"neighbours": "replace"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::dpbinagg.errors.DPBinAggWarning")
def test_a_loaded_release_is_equal(tmp_path, options):
    made = dp_release(
        "np.log(wage) ~ educ + exper + C(region)", wages(300), 1, bounds=BOUNDS, rng=1, **options
    )
    made.save(tmp_path / "folder")
    back = load_release(tmp_path / "folder")
    assert_equal(made, back)
    one, other = made.ols(), back.ols()
    assert (one.params == other.params).all()
    assert (one.cov_params() == other.cov_params()).all(axis=None)


def test_unknown_bounds_and_constants_survive(tmp_path):
    data = wages(2000)
    made = dp_release("wage ~ I(educ - k0)", data, mu=2, rng=1, constants={"k0": 12.25})
    made.save(tmp_path / "folder")
    assert_equal(made, load_release(tmp_path / "folder"))


def test_nested_statistics_survive(release, tmp_path):
    rounds = [{"u": np.array([0.1, -np.inf]), "n": 3}, {"u": np.zeros((0, 2)), "clip": 2.5}]
    extra = dataclasses.replace(
        release,
        statistics={**release.statistics, "more": rounds},
        noise_scales={**release.noise_scales, "more": tuple(rounds)},
    )
    extra.save(tmp_path / "folder")
    assert_equal(extra, load_release(tmp_path / "folder"))


trees = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.lists(st.floats(allow_nan=False), max_size=4).map(np.array),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(trees)
def test_any_nested_values_survive_json(tree):
    back = tree_from_plain(json.loads(to_json(tree_to_plain(tree))))
    assert same(tree, back)
    assert type(tree) is type(back)


# Damage.


def listed(folder):
    return sorted(json.loads((folder / "manifest.json").read_text())["files"])


def test_every_changed_truncated_or_missing_file_is_refused_by_name(saved, tmp_path):
    assert len(listed(saved)) >= 11
    for name in listed(saved):
        for damage in ("flip", "cut", "grow", "lose"):
            folder = tmp_path / f"{name}-{damage}"
            shutil.copytree(saved, folder)
            content = bytearray((folder / name).read_bytes())
            if damage == "flip":
                content[len(content) // 2] ^= 1
            elif damage == "cut":
                del content[len(content) // 2 :]
            elif damage == "grow":
                content += b"\n"
            (folder / name).write_bytes(bytes(content))
            if damage == "lose":
                (folder / name).unlink()
            with pytest.raises(ReleaseError, match=re.escape(name)):
                load_release(folder)


def edit_manifest(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_other_versions_and_edited_manifests_are_refused(copy):
    edit_manifest(copy, schema=folders.SCHEMA + 1)
    with pytest.raises(ReleaseError, match="upgrade dpbinagg"):
        load_release(copy)
    edit_manifest(copy, schema=1)
    with pytest.raises(ReleaseError, match=r"version 1 .* open it with dpbinagg 0\.1"):
        load_release(copy)
    edit_manifest(copy, schema=folders.SCHEMA, files={})
    with pytest.raises(ReleaseError, match="changed after"):
        load_release(copy)
    edit_manifest(copy, format="something")
    with pytest.raises(ReleaseError, match="not a release"):
        load_release(copy)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(ReleaseError, match="damaged"):
        load_release(copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match="has no manifest"):
        load_release(copy)


def test_a_manifest_cannot_point_outside_the_folder(copy, tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    content = {"../secret": b"x"}
    (copy / "manifest.json").write_bytes(folders.manifest(content, "1"))
    with pytest.raises(ReleaseError, match="changed after"):
        load_release(copy)


def test_what_is_not_there_or_not_a_folder_is_said(tmp_path):
    with pytest.raises(ReleaseError, match="does not exist"):
        load_release(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError, match="not a folder"):
        load_release(tmp_path / "file")


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("formula"),
        lambda plain: plain.update(formula="wage ~ __import__('os')"),
        lambda plain: plain.update(formula="np.log(wage) ~ educ"),
        lambda plain: plain["partition"].update(kind="other"),
        lambda plain: plain.update(order=["count", "nothing"]),
        lambda plain: plain["allocation"].update(count=-1.0),
        lambda plain: plain.update(declared=3),
    ],
)
def test_contents_that_make_no_release_are_refused(saved, tmp_path, change):
    files = folders.read_folder(saved)
    plain = json.loads(files["release.json"])
    change(plain)
    folders.write_folder(tmp_path / "x", {**files, "release.json": to_json(plain)}, "1")
    with pytest.raises(ReleaseError):
        load_release(tmp_path / "x")


# All or nothing.


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_saving_again_replaces_the_release_and_leaves_nothing_behind(release, copy):
    before = snapshot(copy)
    release.save(copy)
    assert snapshot(copy).keys() == before.keys()
    assert snapshot(copy)["synthetic.csv"] != before["synthetic.csv"]
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]
    assert_equal(release, load_release(copy))


@pytest.mark.parametrize("step", range(18))
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("swap", [True, False])
def test_an_error_at_any_step_leaves_the_old_folder_or_none(
    release, copy, monkeypatch, step, exists, swap
):
    if not exists:
        shutil.rmtree(copy)
    before = snapshot(copy) if exists else None
    count = 0

    def failing(function):
        def step_or_fail(*args, **kwargs):
            nonlocal count
            count += 1
            if count > step:
                raise OSError(28, "disk full")
            return function(*args, **kwargs)

        return step_or_fail

    monkeypatch.setattr(folders, "_write", failing(folders._write))
    monkeypatch.setattr(folders, "_put_in_place", failing(folders._put_in_place))
    if not swap:
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    try:
        folders.write_folder(copy, {f"f{i}": b"x" for i in range(12)}, "1")
    except ReleaseError as error:
        assert "No space" in str(error)  # noqa: PT017
        assert (snapshot(copy) if copy.exists() else None) == before
    else:
        assert step >= 13
        assert folders.read_folder(copy)["f0"] == b"x"
    left = [path.name for path in copy.parent.iterdir()]
    assert left == (["copy"] if copy.exists() else [])


def test_a_killed_process_leaves_the_old_folder_or_none(release, copy):
    before = snapshot(copy)
    script = (
        "import os, signal, sys\n"
        "from dpbinagg.release import folder\n"
        "real, seen = folder._write, []\n"
        "def write(*args):\n"
        "    real(*args); seen.append(1)\n"
        "    if len(seen) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "folder._write = write\n"
        "from dpbinagg.release.saving import load_release\n"
        "load_release(sys.argv[1]).save(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(copy)], check=False, env=environment())
    assert done.returncode == -signal.SIGKILL
    assert snapshot(copy) == before
    assert_equal(release, load_release(copy))


def environment():
    root = os.path.dirname(os.path.dirname(os.path.abspath(folders.__file__)))
    return {**os.environ, "PYTHONPATH": os.path.dirname(root)}


def test_other_folders_are_not_replaced(release, copy, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(ReleaseError, match="not a release"):
        release.save(mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"notes\.txt"):
        release.save(copy)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError, match="not a folder"):
        release.save(tmp_path / "file")


def test_an_empty_folder_and_missing_parents_are_fine(release, tmp_path):
    (tmp_path / "empty").mkdir()
    release.save(tmp_path / "empty")
    release.save(str(tmp_path / "a" / "b"))
    assert_equal(load_release(tmp_path / "empty"), load_release(tmp_path / "a" / "b"))


def test_extra_files_are_listed_and_checked(release, tmp_path):
    save_release(release, tmp_path / "x", extra={"report.html": b"<p>"})
    (tmp_path / "x" / "report.html").write_bytes(b"<q>")
    with pytest.raises(ReleaseError, match=r"report\.html"):
        load_release(tmp_path / "x")
    release.save(tmp_path / "x")


def test_only_releases_are_saved(tmp_path):
    with pytest.raises(ReleaseError, match="must be a Release"):
        save_release({"mu": 1}, tmp_path / "x")


# For the replicator.


def test_the_python_script_reproduces_the_coefficients(saved):
    done = subprocess.run(
        [sys.executable, "replicate.py"], cwd=saved, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not on this machine")
def test_the_r_script_reproduces_the_coefficients(saved):
    done = subprocess.run(
        ["Rscript", "replicate.R"], cwd=saved, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def evaluate_like_r(text, frame):
    """R's and Stata's arithmetic, as far as the scripts use it, computed with numpy."""
    python = re.sub(r'"[^"]*"', lambda m: m.group().replace("^", "\0"), text)
    python = python.replace("^", "**").replace("TRUE", "True").replace("FALSE", "False")
    python = re.sub(r"`([^`]*)`", r"\1", python).replace("\0", "^")
    names = {"log": np.log, "ln": np.log, "sqrt": np.sqrt, "exp": np.exp, "pmax": np.maximum}
    columns = {name: frame[name].to_numpy() for name in frame}
    return np.asarray(eval(python, {"__builtins__": {}}, {**names, **columns}), dtype=float)


@pytest.mark.parametrize("dialect", [r_dialect, stata_dialect])
def test_scripts_compute_the_design_columns(release, saved, dialect):
    words = {"region": str}
    table = pd.read_csv(saved / "synthetic.csv", keep_default_na=False, dtype=words)
    frame = table.copy()
    if dialect is stata_dialect:
        frame["union"] = np.where(table.union, "TRUE", "FALSE")
    text = dialect(release.domain).columns(release.design)
    records = {
        name: table[name].map({v: i for i, v in enumerate(BOUNDS[name])}).to_numpy()
        if isinstance(BOUNDS[name], list)
        else table[name].to_numpy()
        for name in release.design.variables
    }
    expected = release.design.columns(records)
    assert text[0] == "1"
    for j in range(1, len(text)):
        if dialect is stata_dialect:
            text[j] = re.sub(r'"(TRUE|FALSE)"', r'"\1"', text[j])
            got = evaluate_stata(text[j], frame)
        else:
            got = evaluate_like_r(text[j], frame)
        np.testing.assert_allclose(got, expected[:, j], rtol=1e-12, atol=1e-12)
    assert dialect(release.domain).response(release.design) in ("log(wage)", "ln(wage)")


def evaluate_stata(text, frame):
    python = text.replace("^", "**")
    names = {"ln": np.log, "sqrt": np.sqrt, "exp": np.exp}
    columns = {name: frame[name].to_numpy() for name in frame}
    return np.asarray(eval(python, {"__builtins__": {}}, {**names, **columns}), dtype=float)


def test_scripts_name_words_and_fit_by_raw_names(saved):
    script = (saved / "replicate.R").read_text()
    assert 'colClasses = c(region = "character")' in script
    assert "lm(log(wage) ~ " in script
    do_file = (saved / "replicate.do").read_text()
    header = (saved / "synthetic.csv").read_text().splitlines()[0].split(",")
    places = [header.index("region") + 1, header.index("union") + 1]
    assert f"stringcols({' '.join(map(str, sorted(places)))})" in do_file
    assert "generate double dp_y = ln(wage)" in do_file


def test_formulas_beyond_r_come_with_their_design_columns(tmp_path):
    formula = "wage ~ bs(exper, knots=(10, 20), degree=3, lower_bound=0, upper_bound=40) + educ"
    result = dp_ols(formula, wages(3000), mu=3, bounds=BOUNDS, rng=1)
    save_release(result.release, tmp_path / "x", rng=1)
    columns = pd.read_csv(tmp_path / "x" / "synthetic_design.csv")
    assert "synthetic_design.csv" in (tmp_path / "x" / "replicate.R").read_text()
    assert "synthetic_design.csv" in (tmp_path / "x" / "replicate.do").read_text()
    released = pd.read_csv(tmp_path / "x" / "coefficients.csv")["estimate"]
    design = np.column_stack([np.ones(len(columns)), columns.iloc[:, 1:]])
    fit = np.linalg.lstsq(design, columns["dp_y"], rcond=None)[0]
    np.testing.assert_allclose(fit, released, atol=1e-7)


def test_the_codebook_is_a_domain(release, saved):
    declared = Domain.from_csv(saved / "codebook.csv")
    table = pd.read_csv(saved / "synthetic.csv", keep_default_na=False, dtype={"region": str})
    assert list(declared) == list(table.columns)
    assert declared["educ"] == release.domain["educ"]
    assert declared["region"].levels == tuple(BOUNDS["region"])


def test_the_readme_lists_every_file_and_the_statement_is_there(release, saved):
    text = (saved / "README.md").read_text()
    for path in saved.iterdir():
        assert f"`{path.name}`" in text
    assert release.privacy.statement in (saved / "privacy.txt").read_text()
    assert "$" not in text


def test_the_readme_warns_and_names_the_files_that_are_there(saved, tmp_path):
    assert "**NOT FOR PUBLICATION" in (saved / "README.md").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bounds = {"educ": (6, 19), "wage": (0.5, 100)}
        made = dp_release("wage ~ educ", wages(), mu=1, bounds=bounds, budget=Budget.paper())
        made.save(tmp_path / "secure")
        twice = dp_release("wage ~ educ + I(2 * educ)", wages(), mu=1, bounds=bounds)
        twice.save(tmp_path / "weak")
    text = (tmp_path / "secure" / "README.md").read_text()
    assert "NOT FOR PUBLICATION" not in text
    assert "moments.csv" not in text
    assert "The statistics in\n`bins.csv` and `release.json` are noisy sums" in text
    assert "**CAUTION" in (tmp_path / "weak" / "README.md").read_text()


def test_save_takes_synthetic_records_that_were_made_before(release, tmp_path):
    table = release.ols().synthesize(size=100, rng=1)
    save_release(release, tmp_path / "release", synthetic=table)
    found = pd.read_csv(tmp_path / "release" / "synthetic.csv")
    np.testing.assert_array_equal(found["wage"], table["wage"])


def test_bins_are_readable_by_others(release, saved):
    table = pd.read_csv(saved / "bins.csv")
    assert len(table) == release.n_bins
    np.testing.assert_array_equal(table["count"], release.statistics["count"])
    np.testing.assert_array_equal(table["exper from"], release.partition.boxes.lower["exper"])
    moments = pd.read_csv(saved / "moments.csv")
    assert len(moments) == release.statistics["moments"].size


def test_files_hold_no_value_of_the_records(tmp_path):
    data = wages(500)
    canary = 37.123456789012345
    data.loc[7, "exper"] = canary
    made = dp_release("wage ~ educ + exper", data, mu=1, bounds=BOUNDS, rng=5)
    made.save(tmp_path / "x")
    for path in (tmp_path / "x").iterdir():
        assert b"37.1234567890" not in path.read_bytes()


def test_json_has_no_words_that_are_not_json(saved):
    text = (saved / "release.json").read_text()
    assert not math.isnan(json.loads(text, parse_constant=lambda _: math.nan)["privacy"]["mu"])
    assert "Infinity" not in text
