"""Trust in files: a file is trusted if only this user and root can have written it, as in ssh.

A file is read or its code run only if both the file and its folder belong to this user or to root, and neither a group
nor others may write there. A group without another member does not count: some systems make files with such a group,
and Kubernetes mounts volumes in a container with one.
"""

import functools
import grp
import os
import pwd
import stat
from contextlib import suppress

ROOT = 0  # user and group


def why_untrusted(path: str | os.PathLike[str]) -> str | None:
    """Give the reason not to trust a file or folder, as the end of a sentence, or None; links are followed."""
    found = os.stat(path)
    return f"belongs to user {found.st_uid}" if is_foreign(found) else why_others_may_write(found)


def is_foreign(found: os.stat_result) -> bool:
    """Return whether a file belongs to a user other than this one and root."""
    return found.st_uid not in (ROOT, os.geteuid())


def why_others_may_write(found: os.stat_result) -> str | None:
    """Return the users besides its owner who may write a file, as the end of a sentence; None if nobody."""
    if found.st_mode & stat.S_IWOTH:
        who = "every user"
    elif found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        who = f"group {found.st_gid}"
    else:
        return None
    return f"can be written by {who} (mode {stat.S_IMODE(found.st_mode):04o})"


@functools.cache
def _is_own_group(gid: int) -> bool:
    """Return whether this user is the only known member of a group; groups of containers have no known members."""
    if gid not in (os.getegid(), *os.getgroups()):
        return False
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return True
    names = {"root"}
    with suppress(KeyError):
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    members = {*group.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == gid)}
    return group.gr_name in names and members <= names
