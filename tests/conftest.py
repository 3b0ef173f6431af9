"""Settings for the whole suite: one BLAS thread, seeded and reproducible properties."""

import os

# Before numpy is imported: small products gain nothing from threads and lose much to a busy core.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from experiments.fuzz.profiles import register  # noqa: E402

register()
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share the compilation of kernels where several processes run the whole suite."""
    one = getattr(session.config, "workerinput", None)
    if one is None:
        return
    from tests.warm_up import WHOLE, compile_share

    if len(session.items) >= WHOLE:
        compile_share(int(one["workerid"].removeprefix("gw")), one["workercount"])
