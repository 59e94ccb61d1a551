"""`python -m ik_service.ros --ros-args ...`: the node until it is interrupted."""

from ik_service.ros.node import main

if __name__ == "__main__":
    main()
