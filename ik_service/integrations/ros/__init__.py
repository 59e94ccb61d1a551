"""The solver as a node of ROS 2: MoveIt's services of kinematics, and joint commands that follow a moving pose.

`adapter` decides the meaning of requests and imports nothing of ROS: any objects with the fields of the messages will
do. `node` and `command_loop` carry messages. `python -m ik_service.integrations.ros` starts both.
"""
