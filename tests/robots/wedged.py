"""A robot that is in contact wherever it is."""

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
