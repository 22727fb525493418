"""scikit-learn's own tests of GaussianMixture, BayesianGaussianMixture and LatentDirichletAllocation, on ours.

What is translated between the two is in sklearn_adapters.py, with the list of the tests that fail and why.
"""

import numpy as np
import pytest
from sklearn_adapters import SUITES, suite


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def global_dtype(request):
    """scikit-learn's fixture, with the types that it is to keep."""
    return request.param


@pytest.fixture
def global_random_seed():
    """scikit-learn's fixture, with its default."""
    return 42


for _name in SUITES:
    for _test, _function in vars(suite(_name)).items():
        # Arrays of other libraries than NumPy are not taken.
        if _test.startswith("test_") and "array_api" not in _test:
            globals()[f"test_{_name}_{_test.removeprefix('test_')}"] = _function
