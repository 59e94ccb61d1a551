"""A robot whose joints are of all types but floating, in odd frames, with one that follows another."""

from ik_service.robots import RobotModel, load_urdf

CHAIN = """<robot name="chain">
  <link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/><link name="tip"/>
  <joint name="base_a" type="planar"><parent link="base"/><child link="a"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.4 -0.3 0.2"/><axis xyz="0.6 0 0.8"/></joint>
  <joint name="a_b" type="revolute"><parent link="a"/><child link="b"/>
    <origin xyz="0 0.1 0.2" rpy="0.1 0.7 0"/><axis xyz="0 0.6 0.8"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="b_c" type="ball"><parent link="b"/><child link="c"/><origin xyz="0.3 0 0.1" rpy="-0.6 0.2 1.0"/></joint>
  <joint name="c_d" type="prismatic"><parent link="c"/><child link="d"/>
    <origin xyz="0.1 0 0" rpy="0 0.5 0"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="d_tip" type="revolute"><parent link="d"/><child link="tip"/>
    <mimic joint="a_b" multiplier="-0.5" offset="0.2"/><origin xyz="0 0.3 0"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""


def chain_robot() -> RobotModel:
    """Return the robot."""
    return load_urdf(CHAIN)
