"""How long a robot file can keep the service busy: CPU time of the worst files that the reader's caps let through."""

import resource
import time

from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service.errors import RobotFileError
from ik_service.robots import load_urdf
from ik_service.robots.readers.urdf import MAX_COUNT
from ik_service.robots.readers.xml_reader import MAX_ATTRIBUTE_LENGTH, MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS
from ik_service.service.documents.robot import robot_body

JOINT = (
    "<joint name='j{k}' type='{kind}'><parent link='l{parent}'/><child link='l{k}'/>"
    "<origin xyz='0 0 0.1' rpy='0.1 0.2 0.3'/><axis xyz='0 0 1'/><limit lower='-1' upper='1'/>{more}</joint>"
)
LINKS = "".join(f"<link name='l{k}'/>" for k in range(MAX_COUNT))


def tree(kind: str = "revolute", *, star: bool = False, follow: int = 0) -> str:
    """A robot with as many joints as allowed: a chain or a star; `follow`: each joint follows that one after it."""
    joints = []
    for k in range(1, MAX_COUNT):
        leader = k + follow
        more = f"<mimic joint='j{leader}'/>" if follow and 0 < leader < MAX_COUNT else ""
        joints.append(JOINT.format(k=k, kind=kind, parent=0 if star else k - 1, more=more))
    return LINKS + "".join(joints)


def nested(name_length: int) -> str:
    """As many elements as allowed below as many levels as allowed."""
    depth = MAX_DEPTH - 3
    opened = f"<a name='{'n' * name_length}'>" * depth
    return f"<link name='l0'/>{opened}{'<b/>' * (MAX_ELEMENTS - depth - 2)}{'</a>' * depth}"


def files() -> dict[str, str]:
    """The files, by what is bad about them."""
    attributes = " ".join(f"a{k}=''" for k in range(MAX_BYTES // 11))
    found = {
        "chain of revolute joints": tree(),
        "star of revolute joints": tree(star=True),
        "chain of floating joints": tree("floating"),
        "chain of fixed joints": tree("fixed"),
        "each joint follows the next": tree(follow=1),
        "each joint follows the one before": tree(follow=-1),
        "as many elements as allowed": nested(1),
        "the same below long names": nested(MAX_ATTRIBUTE_LENGTH),
        "as many attributes as fit": f"<link name='l0' {attributes}/>",
        "as much text as fits": "<link name='l0'/>" + "x" * (MAX_BYTES - 100),
        "as many comments as fit": "<link name='l0'/>" + "<!---->" * (MAX_BYTES // 7 - 20),
    }
    return {name: f"<robot name='r'>{text}</robot>" for name, text in found.items()}


def show(report: Report) -> None:
    """Add a line for each file."""
    report.table("file", "bytes", "read [s]", "describe [s]", "peak so far [MB]", "")
    for name, text in files().items():
        started = time.process_time()
        note = ""
        try:
            robot = load_urdf(text)
        except RobotFileError as error:
            read, described, note = time.process_time() - started, 0.0, f"refused: {str(error)[:60]}"
        else:
            read = time.process_time() - started
            robot_body("r", robot)
            described = time.process_time() - started - read
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        report.row(name, len(text), f"{read:.2f}", f"{described:.2f}", f"{peak:.0f}", note)


if __name__ == "__main__":
    benchmark("Robot files that the reader's caps let through", show)
