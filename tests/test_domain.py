"""Domains are validated when they are made."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from dpbinagg.errors import DomainError
from dpbinagg.public.domain import Categorical, Domain, Numeric


def test_the_forms_of_a_declaration():
    domain = Domain(
        {
            "wage": (1, 200),
            "open": (0, None),
            "educ": range(21),
            "region": ["N", "S"],
            "dtype": pd.CategoricalDtype(["a", "b"]),
            "code": np.array([1, 2, 3]),
        }
    )
    assert domain["wage"] == Numeric(1.0, 200.0)
    assert domain["open"].upper == math.inf
    assert not domain["open"].bounded
    assert domain["educ"] == Numeric(0.0, 20.0, integer=True)
    assert domain["dtype"] == Categorical(("a", "b"))
    assert domain["code"].levels == (1, 2, 3)
    assert Domain(eval(repr(domain), {"Domain": Domain})) == domain


@pytest.mark.parametrize(
    "spec",
    [
        (2, 1),
        (1, 1),
        (math.nan, 1),
        (0, math.nan),
        (math.inf, math.inf),
        ("a", "b"),
        (True, 2),
        (0, 1, 2),
        [],
        ["a", "a"],
        [1, True],
        [None, "a"],
        [math.nan],
        [["a"]],
        [object()],
        "ab",
        3,
        None,
        range(0, 10, 2),
        range(3, 4),
        (-1.7e308, 1.7e308),
        Numeric,
    ],
)
def test_malformed_declarations_name_the_variable(spec):
    with pytest.raises(DomainError, match=r"bounds\['x'\]"):
        Domain({"x": spec})


@pytest.mark.parametrize("spec", [[("x", (0, 1))], 3, "x", {1: (0, 1)}, {"": (0, 1)}])
def test_malformed_mappings(spec):
    with pytest.raises(DomainError):
        Domain(spec)


def test_integer_bounds_are_whole():
    with pytest.raises(DomainError, match="whole numbers"):
        Numeric(0.5, 3.0, integer=True)


def test_codebook_round_trip(tmp_path):
    domain = Domain(
        {
            "wage": (0.5, None),
            "educ": range(21),
            "sex": ["f", "m"],
            "member": [False, True],
        }
    )
    domain.to_csv(tmp_path / "codebook.csv")
    assert Domain.from_csv(tmp_path / "codebook.csv") == domain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name,type\n",
        "variable,kind\nx,numeric\n",
        "name,type,lower,upper\nx,number,0,1\n",
        "name,type,lower,upper\nx,numeric,zero,1\n",
        "name,type,lower,upper\nx,numeric,2,1\n",
        "name,type,lower,upper\nx,numeric,0,1\nx,numeric,0,1\n",
        "name,type,levels\nx,categorical,\n",
        "name,type,lower,upper\n,numeric,0,1\n",
        "\x00\x01",
    ],
)
def test_malformed_codebooks(tmp_path, text):
    path = tmp_path / "codebook.csv"
    path.write_text(text)
    with pytest.raises(DomainError):
        Domain.from_csv(path)


def test_missing_codebook(tmp_path):
    with pytest.raises(DomainError, match=r"none.csv' does not exist; write one .+to_csv"):
        Domain.from_csv(tmp_path / "none.csv")
    with pytest.raises(DomainError, match="cannot be read"):
        Domain.from_csv(tmp_path)


def test_an_unknown_variable_is_an_unknown_key():
    domain = Domain({"x": (0, 1)})
    assert domain.get("z") is None
    assert domain.get("z", 3) == 3
    assert domain.get("x") == Numeric(0.0, 1.0)
    for kind in (DomainError, KeyError):
        with pytest.raises(kind, match=r"^variable 'z' is not in the domain; declare its bounds"):
            domain["z"]


def test_from_frame_reads_the_schema_only():
    frame = pd.DataFrame({"x": [1.0], "c": pd.Categorical(["a"], ["a", "b"]), "b": [True]})
    assert Domain.from_frame(frame) == Domain({"c": ["a", "b"], "b": [False, True]})
    assert Domain.from_frame(frame.iloc[:0]) == Domain.from_frame(frame)


def test_an_undeclared_variable_gets_a_sentence():
    with pytest.raises(DomainError, match="not in the domain"):
        Domain({})["x"]


ABOUT = {
    "age": {
        "type": "integer",
        "lower": 18,
        "upper": 90,
        "missing": [-9, 99, "refused"],
        "unit": "years",
        "description": "Age at the interview",
    },
    "sex": {"levels": ["1", "2"], "labels": ["male", "female"], "missing": [9]},
    "vote": {"levels": [0, 1], "labels": ["no", "yes"]},
    "wage": {"lower": 0, "missing": [-1]},
    "open": {"type": "integer"},
    "union": {"type": "boolean", "missing": ["?"]},
}


def described() -> Domain:
    return Domain(ABOUT)


def said(domain: Domain) -> dict[str, str]:
    """All that is declared: equality leaves out what is for readers only."""
    return {name: repr(domain[name]) for name in domain}


def test_the_words_of_a_codebook():
    domain = described()
    age = Numeric(18, 90, integer=True, missing=(-9, 99, "refused"))
    assert domain["age"] == age
    assert domain["age"].description == "Age at the interview"
    assert domain["sex"].label_of == {"1": "male", "2": "female"}
    assert domain["vote"].levels == (0, 1)
    assert domain["wage"] == Numeric(0, math.inf, missing=(-1,))
    assert domain["union"].levels == (False, True)
    assert said(Domain(eval(repr(domain), {"Domain": Domain}))) == said(domain)
    assert age.within(20, 30).missing == age.missing


def test_what_is_described_survives_a_codebook(tmp_path):
    domain = described().updated({"vote": {"levels": ["0", "1"], "labels": ["no", "yes"]}})
    domain.to_csv(tmp_path / "codebook.csv")
    assert said(Domain.from_csv(tmp_path / "codebook.csv")) == said(domain)


def test_what_is_described_survives_a_folder():
    from dpbinagg.release.saving import domain_from_plain, domain_to_plain

    assert said(domain_from_plain(domain_to_plain(described()))) == said(described())


def test_levels_that_are_numbers_become_text_in_a_codebook(tmp_path):
    """They match the same cells."""
    Domain({"code": [1, 2, 3]}).to_csv(tmp_path / "codebook.csv")
    assert Domain.from_csv(tmp_path / "codebook.csv")["code"].levels == ("1", "2", "3")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"levels": ["a"], "lower": 0}, "a category has levels"),
        ({"type": "numeric", "levels": ["a"]}, "a category has levels"),
        ({"type": "categorical"}, "a category has levels"),
        ({"type": "number"}, "type must be numeric"),
        ({"bounds": (0, 1)}, "unknown key 'bounds'"),
        ({"lower": 0, "upper": 1, "labels": ["a"]}, "labels belong to levels"),
        ({"levels": ["a", "b"], "labels": ["one"]}, "labels must name every level"),
        ({"levels": ["a", "b"], "labels": [1, 2]}, "each label must be a text"),
        ({"levels": ["1", "2"], "missing": [2.0]}, "missing code 2 is also a level"),
        ({"lower": 0, "missing": [math.nan]}, "missing codes must be finite"),
        ({"lower": 0, "missing": [True]}, "missing codes must be numbers or words"),
        ({"lower": 0, "missing": [" "]}, "missing codes must not be empty"),
        ({"lower": 0, "missing": "99"}, "missing must list codes"),
        ({"lower": 0, "description": 3}, "description must be a text"),
        ([0, 20], "can be read in two ways"),
    ],
)
def test_descriptions_that_cannot_be(spec, said):
    with pytest.raises(DomainError, match=said) as caught:
        Domain({"v": spec})
    assert str(caught.value).startswith("bounds['v']: ")


@pytest.mark.parametrize("levels", [["a|b"], [" a"], [""]])
def test_levels_that_a_codebook_cannot_hold(tmp_path, levels):
    with pytest.raises(DomainError, match="separates levels by"):
        Domain({"v": levels}).to_csv(tmp_path / "codebook.csv")


def test_what_is_described_survives_csv_on_the_web(tmp_path):
    path = tmp_path / "codebook.json"
    described().to_csvw(path, "survey.csv")
    assert said(Domain.from_csv(path)) == said(described())
    plain = json.loads(path.read_text())
    assert plain["@context"] == "http://www.w3.org/ns/csvw"
    age = plain["tableSchema"]["columns"][0]
    assert age["datatype"] == {"base": "integer", "minimum": 18.0, "maximum": 90.0}
    assert age["null"] == ["", "-9", "99", "refused"]


def test_metadata_of_others(tmp_path):
    path = tmp_path / "metadata.json"
    columns = [{"name": "x", "datatype": "number"}, {"titles": ["n"], "datatype": "long"}]
    path.write_text(json.dumps({"tableSchema": {"columns": columns}}))
    found = Domain.from_csv(path)
    assert found["x"] == Numeric()
    assert found["n"].integer


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"tableSchema": {"columns": [{}]}}',
        '{"tableSchema": {"columns": [{"name": "x", "datatype": "date"}]}}',
        '{"tableSchema": {"columns": [{"name": "x"}]}}',
        '{"tableSchema": {"columns": [{"name":"x","datatype": {"base":"int","minimum":"a"}}]}}',
        '{"tableSchema": {"columns": [{"name": "x", "datatype": "number"}, {"name": "x"}]}}',
    ],
)
def test_malformed_metadata(tmp_path, content):
    path = tmp_path / "metadata.json"
    path.write_text(content)
    with pytest.raises(DomainError, match="codebook"):
        Domain.from_csv(path)
