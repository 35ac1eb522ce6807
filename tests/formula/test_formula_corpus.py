"""Designs against patsy on complete records, and their bounds on random partitions."""

import numpy as np
import patsy
import pytest
from formula_corpus import (
    DOMAIN,
    FORMULAS,
    centres,
    closed_environment,
    locate,
    radius2,
    random_boxes,
    random_frame,
    records_of,
)

from dpbinagg.formula import build_design

FRAME = random_frame(1000, np.random.default_rng(1))
RECORDS = records_of(FRAME)
MANY = records_of(random_frame(20_000, np.random.default_rng(2)))


def test_corpus_is_large_enough():
    assert len(set(FORMULAS)) >= 60


@pytest.mark.parametrize("formula", FORMULAS)
def test_equals_patsy(formula):
    design = build_design(formula, DOMAIN)
    y, x = patsy.dmatrices(formula, FRAME, eval_env=closed_environment())
    assert design.column_names == tuple(x.design_info.column_names)
    assert design.response_name == y.design_info.column_names[0]
    ours = design.columns(RECORDS)
    scale = np.maximum(np.abs(x).max(axis=0), 1)
    np.testing.assert_allclose(ours / scale, np.asarray(x) / scale, rtol=0, atol=1e-12)
    np.testing.assert_allclose(design.response(RECORDS), np.asarray(y)[:, 0], rtol=1e-12)
    assert design.design_info.term_names == x.design_info.term_names
    if design.variables:
        through_patsy = patsy.build_design_matrices([design.design_info], FRAME)[0]
        np.testing.assert_allclose(np.asarray(through_patsy) / scale, ours / scale, atol=1e-14)


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_record_violates_a_bound(formula):
    rng = np.random.default_rng(3)
    design = build_design(formula, DOMAIN)
    boxes = random_boxes(design.domain, design.variables, 24, rng)
    where = locate(boxes, design.domain, MANY) if design.variables else np.zeros(20_000, int)
    z = design.columns(MANY)
    lower, upper = design.column_bounds(boxes)
    assert np.all(z >= lower[where])
    assert np.all(z <= upper[where])
    low, high = design.response_bounds()
    y = design.response(MANY)
    assert np.all((low <= y) & (y <= high))
    centre, half = centres(design, boxes), (upper - lower) / 2
    norm2 = radius2(design, boxes, centre)
    wide = half > 1e-6 * np.maximum(np.abs(lower), np.abs(upper))
    inverse = np.divide(1.0, half, out=np.zeros_like(half), where=wide)
    distance2 = np.square((z - centre[where]) * inverse[where]).sum(axis=1)
    assert np.all(distance2 <= norm2[where] * (1 + 1e-9))
