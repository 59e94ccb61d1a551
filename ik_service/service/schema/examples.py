"""Examples of the schema. Each one solves on a built-in robot: a test posts them all."""

from typing import Any

SOLVE_REQUESTS: dict[str, dict[str, Any]] = {
    "one_pose": {
        "targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}]
    },
    "several_problems": {
        "targets": [
            {
                "link": "panda_hand",
                "positions": [[0.4, 0.1, 0.5], [0.5, -0.2, 0.4], [0.3, 0.3, 0.6]],
                "orientations_xyzw": [[1, 0, 0, 0], [1, 0, 0, 0], [0.7071068, 0.7071068, 0, 0]],
            }
        ],
        "options": {
            "seeds": 16,
            "max_iterations": 40,
            "position_tolerance_m": 0.001,
            "orientation_tolerance_rad": 0.01,
        },
    },
    "tool_and_free_axis": {
        "targets": [
            {
                "link": "panda_hand",
                "positions": [[0.45, 0, 0.3]],
                "orientations_xyzw": [[1, 0, 0, 0]],
                "offset": {"position": [0, 0, 0.1034]},
                "row_weights": [1, 1, 1, 1, 1, 0],
            }
        ],
        "include": ["active_limits"],
    },
    "position_only_with_start": {
        "targets": [{"link": "panda_hand", "positions": [[0.3, 0.2, 0.7]]}],
        "initial_joint_q": [[0, -0.785, 0, -2.356, 0, 1.571, 0.785]],
    },
    "hand_and_elbow": {
        "targets": [
            {
                "link": "panda_hand",
                "positions": [[0.3915, 0.2327, 0.5578]],
                "orientations_xyzw": [[0.980532, 0.170675, 0.089824, -0.03687]],
            },
            {"link": "panda_link4", "positions": [[-0.0513, 0.0013, 0.6555]]},
        ]
    },
    "two_arms": {
        "targets": [
            {"link": "left_panda_hand", "positions": [[0.4, 0.3, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]},
            {"link": "right_panda_hand", "positions": [[0.5, -0.2, 0.4]], "orientations_xyzw": [[1, 0, 0, 0]]},
        ],
        "include": ["islands", "advice"],
    },
    "look_and_stay_near": {
        "targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5], [0.5, -0.2, 0.4]]}],
        "objectives": [
            {"type": "look_at", "link": "panda_hand", "target_points": [0.6, 0, 0], "weight": 0.1},
            {"type": "posture", "joint_q_reference": [0, -0.785, 0, -2.356, 0, 1.571, 0.785], "weight": 0.001},
        ],
        "include": ["islands"],
    },
    "balance": {
        "targets": [
            {"link": "left_sole", "positions": [[0, 0.1, 0]], "orientations_xyzw": [[0, 0, 0, 1]]},
            {"link": "right_sole", "positions": [[0, -0.1, 0]], "orientations_xyzw": [[0, 0, 0, 1]]},
        ],
        "objectives": [{"type": "center_of_mass", "target_positions": [0, 0, 0], "row_weights": [1, 1, 0]}],
    },
    "objectives_alone": {
        "objectives": [
            {"type": "line", "link": "panda_hand", "points": [0.4, 0, 0.3], "directions": [0, 1, 0]},
            {"type": "axis_align", "link": "panda_hand", "axis": [0, 0, 1], "target_axis": [0, 0, -1]},
            {"type": "damping", "weight": 0.01},
        ],
        "initial_joint_q": [[0, -0.785, 0, -2.356, 0, 1.571, 0.785], [0.5, -0.6, 0, -2.2, 0, 1.6, 0.8]],
    },
}

_CHOICE = {"group": [0, 0, 1], "cost": [0.5, 0, 0], "criterion": "manipulability"}
SOLVE_ANY_REQUESTS: dict[str, dict[str, Any]] = {"two_groups": {**SOLVE_REQUESTS["several_problems"], **_CHOICE}}

_PATH: dict[str, Any] = {"targets": SOLVE_REQUESTS["several_problems"]["targets"], "dt": 1.0}
FOLLOW_REQUESTS: dict[str, dict[str, Any]] = {"three_waypoints": {**_PATH, "velocity": 2.0}}
CLIP_REQUESTS: dict[str, dict[str, Any]] = {"three_frames": {**_PATH, "held": {"panda_hand": [False, True, True]}}}

EXAMPLE_ROBOTS = dict.fromkeys((*SOLVE_REQUESTS, *SOLVE_ANY_REQUESTS, *CLIP_REQUESTS, *FOLLOW_REQUESTS), "panda") | {
    "two_arms": "dual_panda",
    "balance": "humanoid",
}
"""The robot that each example is for."""

SOLVE_ANSWER: dict[str, Any] = {
    "robot": "panda",
    "joint_names": [f"panda_joint{k}" for k in range(1, 8)],
    "coordinate_names": [f"panda_joint{k}" for k in range(1, 8)],
    "joint_q": [[0.16657266, -0.4592632, 0.06765315, -2.3575606, 0.03166246, 1.8990537, 1.0024211]],
    "success": [True],
    "status": ["converged"],
    "position_error_m": [6.6e-8],
    "orientation_error_rad": [1.7e-7],
    "iterations": [4],
    "seed_index": [0],
    "cost": [3.3e-14],
    "limit_margin": [0.7142394],
    "resolved": {"engine": "compiled", "seeds": 1024, "device": "cpu", "collision": "self"},
    "timing_ms": {"queue": 0.1, "solve": 2.8, "total": 3.2},
}

_ARMS = [[f"{side}_panda_joint{k}" for k in range(1, 8)] for side in ("left", "right")]

_ARM_Q = [
    [0.02262278, -0.4978896, -0.01932314, -2.39001, -0.00972539, 1.892185, 0.7941154],
    [0.111173, -0.07756051, 0.08500288, -2.244477, 0.00795091, 2.167181, 0.9768541],
]

TWO_ARMS_ANSWER: dict[str, Any] = {
    "robot": "dual_panda",
    "joint_names": [*_ARMS[0], *_ARMS[1]],
    "coordinate_names": [*_ARMS[0], *_ARMS[1]],
    "joint_q": [[*_ARM_Q[0], *_ARM_Q[1]]],
    "success": [True],
    "status": ["converged"],
    "position_error_m": [1.3e-7],
    "orientation_error_rad": [6.3e-7],
    "iterations": [4],
    "seed_index": [0],
    "cost": [6.8e-14],
    "limit_margin": [0.68179],
    "targets": [
        {"link": "left_panda_hand", "position_error_m": [1.3e-7], "orientation_error_rad": [6.3e-7]},
        {"link": "right_panda_hand", "position_error_m": [1.1e-7], "orientation_error_rad": [1.4e-7]},
    ],
    "islands": [
        [
            {
                "joints": _ARMS[0],
                "rows": ["target left_panda_hand"],
                "success": True,
                "status": "converged",
                "seed_index": 0,
                "iterations": 3,
                "cost": 5.5e-14,
            },
            {
                "joints": _ARMS[1],
                "rows": ["target right_panda_hand"],
                "success": True,
                "status": "converged",
                "seed_index": 0,
                "iterations": 4,
                "cost": 1.3e-14,
            },
        ]
    ],
    "proof": [0],
    "advice": ["Every target is met within its tolerance."],
    "resolved": {"engine": "compiled", "seeds": 1024, "device": "cpu", "collision": "self"},
    "timing_ms": {"queue": 0.1, "solve": 3.9, "total": 4.4},
}
