"""`load_robot(file, collision="spheres")`: spheres fitted to shapes and meshes, kept for the next load."""

import numpy as np
import pytest
import trimesh

from ik_service import load_robot
from ik_service.robots import load_urdf
from ik_service.robots.readers import fitted_spheres
from ik_service.robots.readers.catalog import link_shapes
from ik_service.robots.readers.fitted_spheres import link_solids, named_configurations
from ik_service.robots.readers.sphere_fit import MOSTLY, fit_spheres
from objectives.errors import InputError
from tests.robots import covered_robots
from tests.robots.covered_robots import WEDGED

ARM = covered_robots.ARM.format(shape='<mesh filename="upper.stl" scale="0.001 0.001 0.001"/>')


@pytest.fixture
def arm(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trimesh.creation.box((500, 60, 60)).export(tmp_path / "upper.stl")  # mm
    (tmp_path / "arm.urdf").write_text(ARM)
    return tmp_path / "arm.urdf"


def solids_of(arm):
    return link_solids(link_shapes(arm), arm)


def rest_of(robot):
    return np.array([*named_configurations(robot).values()])


def gaps(solid, spheres):
    """Return the distances of surface points from the union of spheres, and of the spheres' points from the solid."""
    points = solid.surface[::7]
    uncovered = (np.linalg.norm(points[:, None] - spheres[:, :3], axis=-1) - spheres[:, 3]).min(axis=1)
    directions = np.random.default_rng(0).normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    around = (spheres[:, None, :3] + spheres[:, None, 3:] * directions).reshape(-1, 3)
    return uncovered, solid.signed_distance(around)


def test_a_robot_is_checked_after_one_step_and_its_model_is_kept(arm, monkeypatch):
    assert load_robot(arm).collision_model is None
    robot = load_robot(arm, collision="spheres")
    assert set(robot.collision_model.spheres) == {"base", "upper", "fore"}
    assert robot.collision_model.pairs == (("base", "fore"),)
    check = robot.collision([[0.0, 0.0], [0.0, 3.0]])  # stretched, and folded: the fore arm comes back to the base
    assert check.is_free.tolist() == [True, False]
    assert f"{robot.collision_model.sphere_count} spheres" in robot.collision_words

    def never(*_arguments, **_options):
        raise AssertionError("fitted again")

    monkeypatch.setattr(fitted_spheres, "fit_spheres", never)
    again = load_robot(arm, collision="spheres")
    assert again.collision_model.content_hash == robot.collision_model.content_hash
    trimesh.creation.box((500, 80, 60)).export(arm.with_name("upper.stl"))  # another mesh: the kept model is not its
    with pytest.raises(AssertionError, match="fitted again"):
        load_robot(arm, collision="spheres")


def test_a_damaged_kept_file_and_a_folder_that_cannot_be_written_are_no_errors(arm, monkeypatch, tmp_path):
    first = load_robot(arm, collision="spheres").collision_model
    (kept,) = (tmp_path / "cache" / "ik_service" / "spheres").iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b"fore", b"hind")):
        kept.write_bytes(damaged)
        assert load_robot(arm, collision="spheres").collision_model.content_hash == first.content_hash
        assert kept.read_bytes() == whole
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load_robot(arm, collision="spheres").collision_model.content_hash == first.content_hash


def test_a_file_of_spheres_beside_the_robot_comes_first(arm):
    arm.with_name("arm.collision.json").write_text('{"spheres": {"upper": [[0.1, 0, 0, 0.02]]}}')
    assert load_robot(arm, collision="spheres").collision_model.sphere_count == 1


@pytest.mark.parametrize("fit", ["balanced", "outer", "inner"])
def test_the_surface_of_the_spheres_follows_the_surface_of_the_links(arm, fit):
    robot, solids = load_robot(arm), solids_of(arm)
    model = fit_spheres(robot, solids, rest_of(robot), per_link=20, fit=fit)
    assert 60 <= model.sphere_count <= 90
    for link, solid in solids.items():
        uncovered, beyond = gaps(solid, model.spheres[link])
        if fit == "balanced":
            assert max(uncovered.max(), beyond.max()) < 0.045
            assert uncovered.max() > 0.0
            assert beyond.max() > 0.0
        elif fit == "outer":
            assert uncovered.max() < 1e-3
        else:
            assert beyond.max() < 0.012


def test_more_spheres_are_nearer_to_the_surface(arm):
    robot, solids = load_robot(arm), solids_of(arm)
    rest, errors = rest_of(robot), []
    for per_link in (3, 12, 48):
        model = fit_spheres(robot, solids, rest, per_link=per_link)
        found = [gaps(solid, model.spheres[link]) for link, solid in solids.items()]
        errors.append(np.mean([np.abs(uncovered).max() for uncovered, _ in found]))
    assert errors[0] > 1.2 * errors[1] > 1.4 * errors[2]


def test_shapes_that_do_not_touch_at_zero_have_spheres_that_do_not_touch_there(arm):
    text = ARM.replace('<origin xyz="0.5 0 0"/>', '<origin xyz="0.05 0 0"/>')  # the fore arm is 10 mm above the base
    arm.write_text(text)
    robot = load_robot(arm, collision="spheres")
    assert ("base", "fore") in robot.collision_model.pairs
    assert robot.collision([0.0, 0.0]).is_free[0]
    assert not robot.collision([0.7, 0.0]).is_free[0]


def test_shapes_that_nearly_always_touch_are_left_out_and_a_robot_that_is_never_free_is_refused(arm):
    inside = '<link name="ring"><collision><geometry><box size="0.3 0.3 0.3"/></geometry></collision></link>'
    fixed = '<joint name="hold" type="fixed"><parent link="fore"/><child link="ring"/></joint>'
    swallowed = ARM.replace('<origin xyz="0.5 0 0"/>', "").replace("</robot>", f"{inside}{fixed}</robot>")
    arm.write_text(swallowed)
    left_out = load_robot(arm, collision="spheres").collision_model.left_out
    assert ("base", "ring") in {*left_out[MOSTLY], *left_out["always in contact"]}
    arm.write_text(WEDGED)
    with pytest.raises(InputError, match=r"No configuration of 'wedged' that was tried is free.*spheres --free"):
        load_robot(arm, collision="spheres")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("upper.stl", "none.stl", "mesh 'none.stl' is not there"),
        ("<cylinder", "<cone", "Link 'fore' has shapes that cannot be read: cone"),
    ],
)
def test_a_shape_that_cannot_be_read_is_named(arm, old, new, message):
    arm.write_text(ARM.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_robot(arm, collision="spheres")


def test_texts_open_no_mesh_of_a_stranger(arm):
    with pytest.raises(InputError, match="collision is 'spheres'"):
        load_urdf(arm.read_text(), collision="spheres")


def test_a_mesh_whose_reader_is_missing_names_the_extra(arm, monkeypatch):
    def missing(_path):
        raise ImportError("missing `pip install pycollada`")

    monkeypatch.setattr(trimesh, "load_mesh", missing)
    with pytest.raises(InputError, match=r"upper.stl' needs a further package\. Install the extra 'meshes'"):
        load_robot(arm, collision="spheres")


def test_a_mesh_that_is_wound_inwards_is_covered_and_one_triangle_too(arm):
    outwards = load_robot(arm, collision="spheres").collision_model.spheres["upper"]
    box = trimesh.creation.box((500, 60, 60))
    trimesh.Trimesh(box.vertices, box.faces[:, ::-1], process=False).export(arm.with_name("upper.stl"))
    inwards = load_robot(arm, collision="spheres").collision_model.spheres["upper"]
    np.testing.assert_allclose(inwards, outwards, atol=5e-3)  # other points of the surface are drawn
    trimesh.Trimesh([[0, 0, 0], [500, 0, 0], [0, 60, 0]], [[0, 1, 2]]).export(arm.with_name("upper.stl"))
    sheet = load_robot(arm, collision="spheres").collision_model.spheres["upper"]
    assert np.linalg.norm(sheet[:, :3] - [0.4, 0.01, 0.0], axis=1).min() < 0.3
