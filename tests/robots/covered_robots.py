"""Robots whose links get spheres: an arm, and a robot in contact in all its configurations."""

ARM = """<robot name="arm">
  <link name="base"><collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
  <link name="upper"><collision><origin xyz="0.25 0 0"/><geometry>{shape}</geometry></collision></link>
  <link name="fore"><collision><origin xyz="0.25 0 0" rpy="0 1.5707963 0"/>
    <geometry><cylinder radius="0.04" length="0.4"/></geometry></collision></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.1"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.5 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""

BLOCK = '<collision><geometry><box size="{0} 0.4 0.4"/></geometry></collision>'
# the slider is in a block or in the other wherever it is, and in neither nearly always
WEDGED = f"""<robot name="wedged">
  <link name="base"/><link name="left">{BLOCK.format(2.0)}</link><link name="right">{BLOCK.format(2.0)}</link>
  <link name="slider">{BLOCK.format(1.0)}</link>
  <joint name="a" type="fixed"><parent link="base"/><child link="left"/><origin xyz="-1.3 0 0"/></joint>
  <joint name="b" type="fixed"><parent link="base"/><child link="right"/><origin xyz="1.3 0 0"/></joint>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="slider"/>
    <limit lower="-0.5" upper="0.5" effort="1" velocity="1"/></joint>
</robot>"""
