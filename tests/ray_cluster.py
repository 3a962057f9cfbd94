"""A cluster of Ray on this machine, for the tests of an executor."""

import tempfile
from contextlib import contextmanager

import pytest


@contextmanager
def ray_cluster(num_cpus, monkeypatch):
    """Machines of Ray that commands find; its files lie in a folder of their own, whose path is short for sockets."""
    ray = pytest.importorskip("ray", reason="needs the extra 'ray'")
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": num_cpus})
        monkeypatch.setenv("RAY_ADDRESS", machines.address)
        try:
            yield machines
        finally:
            ray.shutdown()
            machines.shutdown()
