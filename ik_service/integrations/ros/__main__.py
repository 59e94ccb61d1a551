"""`python -m ik_service.integrations.ros --ros-args ...`: the node until it is interrupted."""

try:
    from ik_service.integrations.ros.node import main
except ModuleNotFoundError as error:
    raise SystemExit(str(error)) from None

if __name__ == "__main__":
    main()
