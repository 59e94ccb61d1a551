"""The solver as a node of ROS 2: MoveIt's services of kinematics, and joint commands that follow a moving pose.

What a request means is decided by `adapter`, which imports nothing of ROS: it reads and fills any objects that have the
fields of the messages. `node` and `command_loop` carry messages. `python -m ik_service.integrations.ros` starts both.
"""
