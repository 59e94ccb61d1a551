"""What `ik-service doctor` tells of a sound machine, and of a kernel cache that cannot be made."""

import os
import subprocess
import sys

import warp as wp

import ik_service


def test_versions_processor_and_cache_are_told(run):
    told = run("doctor").stdout
    assert f"ik-service {ik_service.__version__}" in told
    assert f"warp-lang {wp.__version__}" in told
    assert f"{len(os.sched_getaffinity(0))} cores" in told
    assert f"'{wp.config.kernel_cache_dir}'" in told.replace("\n", "")
    assert "fails" not in told


def test_a_cache_that_cannot_be_made_fails_with_its_reason():
    code = "from ik_service.cli.app import app; app()"
    given = os.environ | {"WARP_CACHE_PATH": "/dev/null/kernels"}
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "fails" in done.stdout
    assert "/dev/null/kernels" in done.stdout.replace("\n", "")
    assert "WARP_CACHE_PATH" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_read_only_cache_is_sound_if_it_is_filled(run, monkeypatch, tmp_path):
    """As in an image: only an empty one fails. `os.access` is replaced, since root may always write."""
    monkeypatch.setattr("ik_service.cli.doctor.os.access", lambda _path, _mode: False)
    monkeypatch.setattr("ik_service.cli.doctor.kernel_cache.folder", lambda: tmp_path)
    told = run("doctor", code=1).stdout
    assert "fails" in told
    assert "0 modules" in told
    (tmp_path / "wp_kernel").mkdir()
    told = run("doctor").stdout
    assert "fails" not in told
    assert "1 modules" in told
    assert "read-only" in told
