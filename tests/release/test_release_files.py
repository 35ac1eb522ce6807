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

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_data import BOUNDS, wages

from dpbinagg import Budget, dp_release
from dpbinagg.errors import ReleaseError
from dpbinagg.release import folder as folders
from dpbinagg.release.saving import save_release, to_json, tree_from_plain, tree_to_plain
from dpbinagg.report.verbs import Release, load_release


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
    entries = [
        [tree_to_plain(entry.to_plain()) for entry in each.transcript] for each in (one, other)
    ]
    assert entries[0] == entries[1]
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
        "transcript",
        "choice",
        "models",
        "rules",
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
    np.testing.assert_array_equal(one.estimate.params, other.estimate.params)
    np.testing.assert_array_equal(one.estimate.cov, other.estimate.cov)
    np.testing.assert_array_equal(one.identified, other.identified)


def test_unknown_bounds_and_constants_survive(tmp_path):
    data = wages(2000)
    made = dp_release("wage ~ I(educ - k0)", data, mu=2, rng=1, constants={"k0": 12.25})
    made.save(tmp_path / "folder")
    assert_equal(made, load_release(tmp_path / "folder"))


def test_a_transcript_holds_all_that_was_asked_and_paid(release):
    """Every mechanism but the partition is a question, in the order of the list."""
    asked = [(entry.question.name, entry.mu) for entry in release.transcript]
    listed = [(m.name, m.mu) for m in release.privacy.mechanisms if m.law == "gaussian"]
    assert asked == listed
    assert {name for name, _ in asked} >= {"bin counts", "second moments", "residual scores"}


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
    assert len(listed(saved)) >= 16
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


def answers(entry):
    """Plain arrays of the answers of an entry."""
    return dict(entry["mapping"])["values"]["list"]


def question(entry):
    """Plain groups of the question of an entry."""
    return dict(dict(entry["mapping"])["question"]["mapping"])


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: answers(plain[1])[0].update(shape=[1, 1], values=[1.0]),
        lambda plain: answers(plain[1])[0]["values"].__setitem__(0, "nan"),
        lambda plain: answers(plain[1])[0]["values"].__setitem__(0, "inf"),
        lambda plain: answers(plain[1]).pop(),
        lambda plain: question(plain[-1])["groups"]["list"].pop(),
        lambda plain: plain.pop(),
        lambda plain: plain.append(plain[-1]),
        lambda plain: plain[0]["mapping"].pop(),
        lambda plain: plain.append({"value": 3}),
        lambda plain: plain.clear(),
    ],
)
def test_transcripts_that_make_no_release_are_refused(saved, tmp_path, change):
    files = folders.read_folder(saved)
    plain = json.loads(files["transcript.json"])
    change(plain)
    folders.write_folder(tmp_path / "x", {**files, "transcript.json": to_json(plain)}, "1")
    with pytest.raises(ReleaseError):
        load_release(tmp_path / "x").ols()


# All or nothing.


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_saving_again_replaces_the_release_and_leaves_nothing_behind(release, copy):
    before = snapshot(copy)
    release.save(copy, overwrite=True)
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
        folders.write_folder(copy, {f"f{i}": b"x" for i in range(12)}, "1", overwrite=True)
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
        "from dpbinagg import load_release\n"
        "load_release(sys.argv[1]).save(sys.argv[1], overwrite=True)\n"
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
    before = snapshot(copy)
    with pytest.raises(ReleaseError, match="overwrite=True"):
        release.save(copy)
    assert snapshot(copy) == before
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"notes\.txt"):
        release.save(copy, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError, match="not a folder"):
        release.save(tmp_path / "file")


def test_an_empty_folder_and_missing_parents_are_fine(release, tmp_path):
    (tmp_path / "empty").mkdir()
    release.save(tmp_path / "empty")
    release.save(str(tmp_path / "a" / "b"))
    assert_equal(load_release(tmp_path / "empty"), load_release(tmp_path / "a" / "b"))


def test_only_releases_are_saved(tmp_path):
    with pytest.raises(ReleaseError, match="must be a Release"):
        save_release({"mu": 1}, tmp_path / "x")


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
    assert "Infinity" not in (saved / "transcript.json").read_text()
    assert not math.isnan(json.loads(text, parse_constant=lambda _: math.nan)["privacy"]["mu"])
    assert "Infinity" not in text
