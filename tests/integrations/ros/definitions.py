"""Definitions of the messages and services that the node speaks, for Python environments without a ROS installation.

The fields are those of Jazzy, names, types and order alike, so that what goes over the wire is what MoveIt sends. The
texts and their comments are our own. In a ROS installation the node takes the packages that are installed there.
"""

MESSAGES = {
    "std_msgs/String": "string data",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/MultiArrayDimension": "string label\nuint32 size\nuint32 stride",
    "std_msgs/MultiArrayLayout": "MultiArrayDimension[] dim\nuint32 data_offset",
    "std_msgs/Float64MultiArray": "MultiArrayLayout layout\nfloat64[] data",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Point32": "float32 x\nfloat32 y\nfloat32 z",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1",
    "geometry_msgs/Polygon": "Point32[] points",
    "geometry_msgs/Pose": "Point position\nQuaternion orientation",
    "geometry_msgs/PoseStamped": "std_msgs/Header header\nPose pose",
    "geometry_msgs/Transform": "Vector3 translation\nQuaternion rotation",
    "geometry_msgs/Twist": "Vector3 linear\nVector3 angular",
    "geometry_msgs/Wrench": "Vector3 force\nVector3 torque",
    "sensor_msgs/JointState": """
        std_msgs/Header header
        string[] name
        float64[] position
        float64[] velocity
        float64[] effort""",
    "sensor_msgs/MultiDOFJointState": """
        std_msgs/Header header
        string[] joint_names
        geometry_msgs/Transform[] transforms
        geometry_msgs/Twist[] twist
        geometry_msgs/Wrench[] wrench""",
    "trajectory_msgs/JointTrajectoryPoint": """
        float64[] positions
        float64[] velocities
        float64[] accelerations
        float64[] effort
        builtin_interfaces/Duration time_from_start""",
    "trajectory_msgs/JointTrajectory": "std_msgs/Header header\nstring[] joint_names\nJointTrajectoryPoint[] points",
    "shape_msgs/SolidPrimitive": "uint8 type\nfloat64[<=3] dimensions\ngeometry_msgs/Polygon polygon",
    "shape_msgs/MeshTriangle": "uint32[3] vertex_indices",
    "shape_msgs/Mesh": "MeshTriangle[] triangles\ngeometry_msgs/Point[] vertices",
    "shape_msgs/Plane": "float64[4] coef",
    "object_recognition_msgs/ObjectType": "string key\nstring db",
    "moveit_msgs/MoveItErrorCodes": "int32 val\nstring message\nstring source",
    "moveit_msgs/JointConstraint": """
        string joint_name
        float64 position
        float64 tolerance_above
        float64 tolerance_below
        float64 weight""",
    "moveit_msgs/BoundingVolume": """
        shape_msgs/SolidPrimitive[] primitives
        geometry_msgs/Pose[] primitive_poses
        shape_msgs/Mesh[] meshes
        geometry_msgs/Pose[] mesh_poses""",
    "moveit_msgs/PositionConstraint": """
        std_msgs/Header header
        string link_name
        geometry_msgs/Vector3 target_point_offset
        BoundingVolume constraint_region
        float64 weight""",
    "moveit_msgs/OrientationConstraint": """
        std_msgs/Header header
        geometry_msgs/Quaternion orientation
        string link_name
        float64 absolute_x_axis_tolerance
        float64 absolute_y_axis_tolerance
        float64 absolute_z_axis_tolerance
        uint8 parameterization
        float64 weight""",
    "moveit_msgs/VisibilityConstraint": """
        float64 target_radius
        geometry_msgs/PoseStamped target_pose
        int32 cone_sides
        geometry_msgs/PoseStamped sensor_pose
        float64 max_view_angle
        float64 max_range_angle
        uint8 sensor_view_direction
        float64 weight""",
    "moveit_msgs/Constraints": """
        string name
        JointConstraint[] joint_constraints
        PositionConstraint[] position_constraints
        OrientationConstraint[] orientation_constraints
        VisibilityConstraint[] visibility_constraints""",
    "moveit_msgs/CollisionObject": """
        std_msgs/Header header
        geometry_msgs/Pose pose
        string id
        object_recognition_msgs/ObjectType type
        shape_msgs/SolidPrimitive[] primitives
        geometry_msgs/Pose[] primitive_poses
        shape_msgs/Mesh[] meshes
        geometry_msgs/Pose[] mesh_poses
        shape_msgs/Plane[] planes
        geometry_msgs/Pose[] plane_poses
        string[] subframe_names
        geometry_msgs/Pose[] subframe_poses
        byte operation""",
    "moveit_msgs/AttachedCollisionObject": """
        string link_name
        CollisionObject object
        string[] touch_links
        trajectory_msgs/JointTrajectory detach_posture
        float64 weight""",
    "moveit_msgs/RobotState": """
        sensor_msgs/JointState joint_state
        sensor_msgs/MultiDOFJointState multi_dof_joint_state
        AttachedCollisionObject[] attached_collision_objects
        bool is_diff""",
    "moveit_msgs/PositionIKRequest": """
        string group_name
        RobotState robot_state
        Constraints constraints
        bool avoid_collisions
        string ik_link_name
        geometry_msgs/PoseStamped pose_stamped
        string[] ik_link_names
        geometry_msgs/PoseStamped[] pose_stamped_vector
        builtin_interfaces/Duration timeout""",
}
"""Fields of the messages, by package and name; a type without a package is of the same one."""

SERVICES = {
    "moveit_msgs/GetPositionIK": """
        PositionIKRequest ik_request
        ---
        RobotState solution
        MoveItErrorCodes error_code""",
    "moveit_msgs/GetPositionFK": """
        std_msgs/Header header
        string[] fk_link_names
        RobotState robot_state
        ---
        geometry_msgs/PoseStamped[] pose_stamped
        string[] fk_link_names
        MoveItErrorCodes error_code""",
}
"""Fields of the requests and, after a line of dashes, of the responses."""

PACKAGES = tuple(dict.fromkeys(name.partition("/")[0] for name in MESSAGES))
"""Packages of both, each after those that it needs."""
