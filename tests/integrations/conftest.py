import importlib
import warnings
from collections.abc import Iterator

import pytest
from pydantic.warnings import PydanticDeprecatedSince20

from benchmarks.scale.ray_cluster import RayCluster, ray_cluster

with warnings.catch_warnings():
    # Of Ray's own models, on every import of it.
    warnings.filterwarnings("ignore", "Using extra keyword arguments on `Field`", PydanticDeprecatedSince20)
    importlib.import_module("ray.serve")


@pytest.fixture(name="ray_cluster", scope="package")
def ray_cluster_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """The service with two replicas, and two cores to spare; it ends before other tests, for it is never idle."""
    variables = {"IK_SERVICE_CATALOG_DIR": str(tmp_path_factory.mktemp("robots")), "IK_SERVICE_UPLOADS_ENABLED": "true"}
    with ray_cluster(2, variables) as cluster:
        yield cluster
