"""The picture of docs/concepts.md: the library selects, delivers and keeps the numbers that it shows."""
import pathlib
import sys

import numpy as np
import pytest

import weir

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
from draw_concepts import GRADIENTS, K, follow  # noqa: E402


def test_the_picture_of_concepts(comm):
    if comm.size != len(GRADIENTS[0]):
        pytest.skip("the picture has 4 ranks")
    with weir.AllreducePlan(comm, count=16, k=K, algorithm="oktopk") as plan:
        for step in follow():
            gradient = np.array(step["gradients"][comm.rank], np.float32)
            plan.run(gradient)
            expected = [step["total"][i] / comm.size if i in step["delivered"] else 0 for i in range(16)]
            assert gradient.tolist() == expected
            assert plan.residual.values.tolist() == step["residuals"][comm.rank]
