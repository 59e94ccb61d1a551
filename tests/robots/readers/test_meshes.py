"""Meshes of links: found and read, distances from them, and the spheres that cover them, judged by trimesh's shapes."""

import sys

import collada
import numpy as np
import pytest
import trimesh

from ik_service import RobotFileError
from ik_service.collision.covering import cover_solid, covering_figures, shape_solid
from ik_service.collision.shapes import MeshReference
from ik_service.robots import Box, Sphere
from ik_service.robots.readers.mesh_file import find_mesh, read_mesh
from ik_service.robots.readers.mesh_solid import link_solid, mesh_solid
from objectives import InputError

TURN = (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4))  # a quarter about z
SIZE = (0.2, 0.1, 0.4)
ROUNDING = 1e-6  # [m] of float32, in which meshes are asked


def collada_of(mesh):
    """The mesh as a document of COLLADA, in metres with z up."""
    document = collada.Collada()
    document.assetInfo.upaxis = collada.asset.UP_AXIS.Z_UP
    vertices = collada.source.FloatSource("vertices", mesh.vertices.ravel(), ("X", "Y", "Z"))
    geometry = collada.geometry.Geometry(document, "box", "box", [vertices])
    inputs = collada.source.InputList()
    inputs.addInput(0, "VERTEX", "#vertices")
    geometry.primitives.append(geometry.createTriangleSet(mesh.faces.ravel(), inputs, "material"))
    document.geometries.append(geometry)
    node = collada.scene.Node("node", children=[collada.scene.GeometryNode(geometry)])
    document.scenes.append(collada.scene.Scene("scene", [node]))
    document.scene = document.scenes[0]
    return document


@pytest.fixture
def folder(tmp_path):
    """A package with a robot file and meshes of a box."""
    inside = tmp_path / "my_robot" / "meshes"
    inside.mkdir(parents=True)
    (tmp_path / "my_robot" / "urdf").mkdir()
    trimesh.creation.box(SIZE).export(inside / "box.stl")
    trimesh.creation.box(SIZE).export(inside / "box.obj")
    collada_of(trimesh.creation.box(SIZE)).write(inside / "box.dae")
    return tmp_path


def reference(address, scale=(1.0, 1.0, 1.0), pose=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)):
    return MeshReference(address, scale, pose)


@pytest.mark.parametrize(
    "address",
    ["package://my_robot/meshes/box.stl", "../meshes/box.stl", "../meshes/box.obj", "../meshes/box.dae", "file://{}"],
)
def test_a_mesh_is_found_and_put_into_the_frame_of_its_link(folder, address):
    full = folder / "my_robot" / "meshes" / "box.stl"
    mesh = read_mesh(
        reference(address.format(full), (2.0, 1.0, 0.5), (1.0, 2.0, 3.0, *TURN)),
        folder / "my_robot" / "urdf" / "arm.urdf",
    )
    corners = [[0.95, 1.8, 2.9], [1.05, 2.2, 3.1]]  # scaled, turned, then moved
    np.testing.assert_allclose([mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)], corners, atol=1e-7)
    assert mesh.faces.shape == (12, 3)


def test_packages_are_looked_for_by_argument_by_the_environment_and_around_the_file(
    folder, tmp_path_factory, monkeypatch
):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "arm.urdf"
    address, expected = "package://my_robot/meshes/box.stl", folder / "my_robot" / "meshes" / "box.stl"
    for given in (folder, folder / "my_robot"):
        assert find_mesh(address, elsewhere, [given]) == expected
    (folder / "my_robot" / "package.xml").write_text("<package><name>my_robot</name></package>")
    with pytest.raises(RobotFileError, match="Name the folder that has the package"):
        find_mesh(address, elsewhere)
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(folder))
    assert find_mesh(address, elsewhere) == expected
    with pytest.raises(RobotFileError, match=r"mesh 'none\.stl' is not there\.$"):
        find_mesh("none.stl", elsewhere)


def test_what_is_no_mesh_is_refused_and_without_trimesh_the_extra_is_named(folder, monkeypatch):
    urdf = folder / "my_robot" / "meshes" / "arm.urdf"
    urdf.with_name("text.stl").write_text("no triangles")
    with pytest.raises(RobotFileError, match=r"cannot be read|0 triangles"):
        read_mesh(reference("text.stl"), urdf)
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(InputError, match=r"trimesh.*meshes"):
        read_mesh(reference("box.stl"), urdf)


@pytest.fixture
def box_mesh(folder):
    return read_mesh(reference("box.stl", pose=(0.3, 0.0, 0.0, *TURN)), folder / "my_robot" / "meshes" / "arm.urdf")


def test_distances_from_a_mesh_are_those_of_its_shape(folder, box_mesh):
    solid, shape = mesh_solid(box_mesh), Box(SIZE, (0.3, 0.0, 0.0, *TURN))
    points = np.random.default_rng(0).uniform(-0.6, 0.6, (500, 2, 3))
    np.testing.assert_allclose(solid.signed_distance(points), shape.signed_distance(points), atol=ROUNDING)
    assert np.abs(shape.signed_distance(solid.surface)).max() < ROUNDING
    np.testing.assert_allclose(solid.upper - solid.lower, [0.1, 0.2, 0.4], atol=ROUNDING)
    mirrored = read_mesh(reference("box.stl", (1.0, -1.0, 1.0)), folder / "my_robot" / "meshes" / "arm.urdf")
    found = mesh_solid(mirrored).signed_distance(points)  # it is not inside out
    np.testing.assert_allclose(found, Box(SIZE).signed_distance(points), atol=ROUNDING)


def test_a_link_is_the_union_of_its_parts(box_mesh):
    ball = Sphere(0.15, (0.3, 0.0, 0.1))
    solid, box = link_solid([ball], [box_mesh]), Box(SIZE, (0.3, 0.0, 0.0, *TURN))
    points = np.random.default_rng(0).uniform(-0.6, 0.6, (500, 3))
    expected = np.minimum(ball.signed_distance(points), box.signed_distance(points))
    np.testing.assert_allclose(solid.signed_distance(points), expected, atol=ROUNDING)
    assert solid.signed_distance(solid.surface).min() > -1e-3  # a ball's points lie on it, a mesh's on its triangles


@pytest.mark.parametrize(("stands_out", "looks_out"), [(0.03, 0.0), (0.02, 0.0), (0.02, 0.01)])
def test_spheres_stand_out_and_links_look_out_by_what_is_allowed(box_mesh, stands_out, looks_out):
    solid = mesh_solid(box_mesh)
    spheres = cover_solid(solid, stands_out, looks_out)
    box = Box(SIZE, (0.3, 0.0, 0.0, *TURN))
    fresh = shape_solid(box).surface  # none of the points that the spheres were chosen by
    beyond = (np.linalg.norm(fresh[:, None] - spheres[:, :3], axis=-1) - spheres[:, 3]).min(axis=1)
    assert beyond.max() < looks_out + 0.004
    figures = covering_figures(solid, spheres)
    assert figures.protrusion <= 1.2 * stands_out
    assert 0.0 < figures.gap_95 <= figures.protrusion
    assert figures.coverage == 1.0 if looks_out == 0.0 else 0.3 < figures.coverage < 1.0


def test_fewer_spheres_are_needed_where_more_is_allowed(box_mesh):
    solid = mesh_solid(box_mesh)
    counts = [len(cover_solid(solid, *allowed)) for allowed in ((0.01, 0.0), (0.02, 0.0), (0.02, 0.01))]
    assert counts[0] > counts[1] > counts[2] > 0


def test_figures_are_those_of_a_ball_around_a_ball():
    solid = shape_solid(Sphere(0.1))
    figures = covering_figures(solid, np.array([[0.0, 0.0, 0.0, 0.13]]))
    assert figures.coverage == 1.0
    np.testing.assert_allclose([figures.protrusion, figures.gap_95], 0.03, atol=1e-12)
    assert covering_figures(solid, np.array([[0.0, 0.0, 0.0, 0.05]])).coverage == 0.0
