"""A Ray cluster of this machine alone with the service on it: cluster.py FOLDER CONFIGURATION; SIGINT ends it.

It is a program of its own, so that Ray's settings, threads and warnings stay out of the tests' process.
"""

import sys

import ray
from ray.serve.scripts import cli

if __name__ == "__main__":
    folder, configuration = sys.argv[1:]
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 * 1024**2,
        namespace="serve",
        log_to_driver=False,
        _temp_dir=folder,
    )
    sys.stdout.write(f"{ray.get_runtime_context().gcs_address}\n")
    sys.stdout.flush()
    cli(["run", configuration])
