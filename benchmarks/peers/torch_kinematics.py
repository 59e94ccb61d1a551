"""PyTorch Kinematics, run in its own environment: `python torch_kinematics.py GIVEN.npz ANSWERS.npz`."""

import os
import sys
import time

import numpy as np
import pytorch_kinematics
import torch


def main() -> None:
    """Save positions of the link, and the times of poses alone and with a gradient [s]."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    given, found = np.load(sys.argv[1]), {}
    for kind in ("float32", "float64"):
        chain = pytorch_kinematics.build_serial_chain_from_urdf(bytes(given["urdf"]), str(given["link"]))
        chain = chain.to(dtype=getattr(torch, kind))
        joint_q = torch.tensor(given["joint_q"], dtype=getattr(torch, kind))
        times: dict[str, list[float]] = {"poses": [], "gradient": []}
        for _ in range(int(given["repeats"]) + 1):
            begun = time.process_time()
            with torch.no_grad():
                matrix = chain.forward_kinematics(joint_q).get_matrix()
            times["poses"].append(time.process_time() - begun)
            begun = time.process_time()
            wanted = joint_q.clone().requires_grad_()
            chain.forward_kinematics(wanted).get_matrix().sum().backward()
            times["gradient"].append(time.process_time() - begun)
        found |= {f"{name}_{kind}": np.array(own[1:]) for name, own in times.items()}  # the first warms up
        found[f"positions_{kind}"] = matrix[:, :3, 3].double().numpy()
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
