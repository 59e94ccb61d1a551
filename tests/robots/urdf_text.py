"""URDF in short: a robot is a root and joints, each of which brings the link that it moves."""


def joint(name, kind, parent, child, xyz="", rpy="", axis="", limit=(), mimic=(), inside=""):
    """A joint with its child link; `limit` is lower, upper and a speed; `mimic` a leader, multiplier and offset."""
    origin = (f' xyz="{xyz}"' if xyz else "") + (f' rpy="{rpy}"' if rpy else "")
    parts = [f'<parent link="{parent}"/><child link="{child}"/>', f"<origin{origin}/>" if origin else ""]
    parts.append(f'<axis xyz="{axis}"/>' if axis else "")
    if limit:
        speed = f' velocity="{limit[2]}"' if len(limit) > 2 else ""
        parts.append(f'<limit lower="{limit[0]}" upper="{limit[1]}" effort="1"{speed}/>')
    if mimic:
        leader, multiplier, offset = (*mimic, *(1.0, 0.0)[len(mimic) - 1 :])
        parts.append(f'<mimic joint="{leader}" multiplier="{multiplier}" offset="{offset}"/>')
    body = "".join([*parts, inside])
    return f'<link name="{child}"/><joint name="{name}" type="{kind}">{body}</joint>'


def urdf(name, root, *joints):
    """A robot from its root link and the joints below it."""
    return f'<robot name="{name}"><link name="{root}"/>{"".join(joints)}</robot>'
