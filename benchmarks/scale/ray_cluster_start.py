"""The program of `ray_cluster.py`: a Ray cluster of this machine alone with the service on it, until it is killed.

ray_cluster_start.py FOLDER CORES CONFIGURATION
"""

import sys

import ray
from ray.serve.scripts import cli

FOLDER, CORES, CONFIGURATION = sys.argv[1:]
ray.init(
    num_cpus=int(CORES),
    include_dashboard=False,
    object_store_memory=100 * 1024**2,
    namespace="serve",
    log_to_driver=False,
    _temp_dir=FOLDER,
)
cli(["run", CONFIGURATION])
