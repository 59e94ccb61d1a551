/* Gives an exported Panda numbers that nothing can be computed with; ends with how many were taken wrongly. */
#include "panda_ik.h"
#include <math.h>
#include <stdlib.h>
#define WANT(code, call) wrong += (call) != PANDA_##code
#define SOLVE(memory, bytes) panda_solve(&problems, NULL, &results, memory, bytes)
int main(void)
{
    static const double bad[4] = {NAN, INFINITY, 1e300, -1e10};
    double positions[6] = {0.4, 0.1, 0.5, 0.4, 0.1, 0.5}, orientations[8] = {1, 0, 0, 0, 1};
    double lower[14], upper[14], change[14], start[14], pose[7] = {0.4, 0.1, 0.5, 1};
    uint8_t frozen[14] = {0};
    float joint_q[14];
    size_t size = panda_workspace_size(2), limits_size = panda_limits_workspace_size(2);
    void *workspace = malloc(size), *limits_workspace = malloc(limits_size);
    panda_problems problems = {.count = 2, .positions = positions, .orientations_xyzw = orientations};
    panda_results results = {.joint_q = joint_q};
    panda_controller controller;
    panda_tick_input input = {.targets = pose, .dt = 1e-3};
    panda_tick_result result;
    int k, wrong = 0;
    for (k = 0; k < 4; ++k) {
        positions[k] = bad[k];
        WANT(BAD_NUMBER, SOLVE(workspace, size));
        positions[k] = 0.4;
        orientations[k] = bad[k];
        WANT(BAD_NUMBER, SOLVE(workspace, size));
        orientations[k] = k == 0;
    }
    orientations[4] = 0.0;
    WANT(BAD_NUMBER, SOLVE(workspace, size));
    orientations[4] = 1.0;
    WANT(OK, SOLVE(workspace, size));
    WANT(SMALL_WORKSPACE, SOLVE(workspace, size - 1));
    for (k = 0; k < 14; ++k) {
        lower[k] = -2.0;
        upper[k] = change[k] = 2.0;
        start[k] = k % 7 == 3 ? -1.0 : 0.1;
    }
    problems.joint_limit_lower = lower;
    problems.joint_limit_upper = upper;
    problems.initial_joint_q = start;
    problems.max_change = change;
    problems.frozen = frozen;
    problems.initial_joint_q_count = problems.joint_limit_count = 2;
    WANT(OK, SOLVE(limits_workspace, limits_size));
    WANT(SMALL_WORKSPACE, SOLVE(limits_workspace, size));
    for (k = 0; k < 4; ++k) {
        lower[13] = bad[k];
        wrong += SOLVE(limits_workspace, limits_size) != (k == 3 ? PANDA_OK : PANDA_BAD_LIMITS);
        lower[13] = -2.0;
        start[13] = bad[k];
        WANT(BAD_NUMBER, SOLVE(limits_workspace, limits_size));
        start[13] = 0.1;
    }
    problems.initial_joint_q_count = problems.joint_limit_count = 1;
    WANT(OK, SOLVE(limits_workspace, limits_size));
    WANT(OK, panda_controller_init(&controller, NULL));
    WANT(NOT_RESET, panda_tick(&controller, &input, &result));
    WANT(INVALID, result.status);
    WANT(NOT_RESET, panda_tick(&controller, &input, NULL));
    WANT(OK, panda_controller_reset(&controller, NULL, NULL));
    for (k = 0; k < 4; ++k) {
        pose[k] = bad[k];
        input.deadline_ns = k % 2; /* or long past */
        WANT(OK, panda_tick(&controller, &input, &result));
        wrong += k < 2 && result.status != PANDA_INVALID;
        pose[k] = k == 3;
    }
    WANT(OK, panda_tick(&controller, &input, NULL));
    free(limits_workspace);
    free(workspace);
    return wrong;
}
