"""Example data: each with a public codebook, a description and a suggested regression.

Three data sets are the project's own: simulated, free of any real person and
in the public domain (CC0). Four more are frames that statsmodels ships,
to which this package adds a public codebook. Nothing is downloaded.

Examples
--------
>>> from dpbinagg.datasets import load_wages
>>> wages = load_wages()
>>> wages
<Dataset wages: 5,000 rows x 7 columns (wage, educ, exper, sex, region, union, hours)
 formula: np.log(wage) ~ educ + exper + I(exper**2) + C(sex) + C(region) + C(union)
 license: CC0 1.0>
>>> list(wages.frame["region"].cat.categories)
['north', 'south', 'east', 'west']
"""

from dpbinagg.datasets._dataset import Dataset, codebook_path, data_path
from dpbinagg.datasets.bundled import load_register, load_school, load_wages
from dpbinagg.datasets.simulate import (
    REGISTER_COEFFICIENTS,
    SCHOOL_COEFFICIENTS,
    WAGE_COEFFICIENTS,
    make_register,
    make_school,
    make_wages,
)
from dpbinagg.datasets.statsmodels_frames import (
    load_anes96,
    load_ccard,
    load_fair,
    load_randhie,
)

__all__ = [
    "Dataset",
    "REGISTER_COEFFICIENTS",
    "SCHOOL_COEFFICIENTS",
    "WAGE_COEFFICIENTS",
    "codebook_path",
    "data_path",
    "load_anes96",
    "load_ccard",
    "load_fair",
    "load_randhie",
    "load_register",
    "load_school",
    "load_wages",
    "make_register",
    "make_school",
    "make_wages",
]
