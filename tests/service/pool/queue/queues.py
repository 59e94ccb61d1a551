"""Queues, and what waits in them."""

from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.solve_request import QueuedRequest
from tests.service.pool.conftest import numbered

LINKS = [f"panda_link{k}" for k in range(1, 8)]


def queue(**limits):
    return FairQueue(**{"request_limit": 1000, "problem_limit": 10**6, "group_limit": 100, **limits})


def work(robot, count=1, link="panda_hand", *, owner=None, is_large=False, deadline=100.0, seeds=None):
    each = QueuedRequest(robot, numbered(0, count, link=link, seeds=seeds), 0.0, deadline, owner=owner)
    each.is_small = not is_large
    return each


def put(one, *queued_requests):
    """Let requests wait whose kernels are there."""
    for each in queued_requests:
        one.require_room(each.owner, each.problem_count)
        one.put(each, is_open=True)


def sizes(shares):
    return [(share.queued, share.rows.start, share.rows.stop) for share in shares]


def waits(one, seconds_of):
    """The function that tells how long a request would wait, by the seconds that a problem of its kind takes."""
    return lambda each: one.seconds_until(each.owner, each.key, seconds_of, is_small=each.is_small)
