"""A service with kernels that came with its installation: it compiles none of them, and needs no process for them."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest
import warp as wp

from ik_service.cli.warmup_command import OBJECT_SUFFIXES
from ik_service.kernels.kernel_cache import MARKS
from ik_service.service.schema.examples import SOLVE_REQUESTS


def objects(folder):
    return [path for path in folder.rglob("*") if path.suffix in OBJECT_SUFFIXES]


@pytest.mark.evidence
def test_a_service_finds_what_was_shipped_and_compiles_nothing(serve, tmp_path):
    shipped, cache = tmp_path / "shipped" / str(wp.config.version), tmp_path / "cache"
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "warmup", "panda", "--device", "cpu"]
    subprocess.run(command, env=os.environ | {"WARP_CACHE_PATH": str(shipped.parent)}, check=True, stdout=sys.stderr)
    server = serve(WARP_CACHE_PATH=str(cache), IK_SERVICE_SHIPPED_KERNELS=str(shipped.parent))
    body = json.dumps(SOLVE_REQUESTS["one_pose"]).encode()
    request = urllib.request.Request(
        f"{server.url}/v1/robots/panda/solve", body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert json.load(reply)["success"] == [True]
    assert len(objects(cache)) == len(objects(shipped)) > 1
    assert [path for path in objects(cache) if not path.is_symlink()] == []
    assert any((cache / shipped.name / MARKS).iterdir())
    assert "no setting" not in "\n".join(server.log)


def test_warmup_marks_what_a_service_need_not_compile_apart(run):
    from ik_service import load_robot
    from ik_service.cli.warmup_command import WarmUpJob, request_of
    from ik_service.service.pool.kernel_marks import mark_of

    wp.init()  # says where the cache is
    robot, jobs = load_robot("ur5e"), (WarmUpJob(), WarmUpJob(float64=True))
    requests = [request_of(robot, ["tool0"], job) for job in jobs]
    marks = [mark_of(robot, request, device) for request in requests for device in ("cpu", "auto")]
    for mark in marks:
        mark.unlink(missing_ok=True)
    run("warmup", "ur5e", "--device", "cpu", "--float64")
    assert len(set(marks)) == 4
    assert all(mark.exists() for mark in marks)
