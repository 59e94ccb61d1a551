/* Prints what ticks with deadlines take by a clock of its own: deadline, time, iterations, status. */
#define _POSIX_C_SOURCE 199309L
#include "panda_ik.h"
#include <stdio.h>
#include <time.h>
static long microseconds; /* of a clock that goes on by one whenever it is read */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = 0;
    now->tv_nsec = ++microseconds * 1000;
    return 0;
}
int main(void)
{
    static const int deadlines[] = {1, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1000}; /* of two, to learn what answers take */
    static const double target[7] = {-0.5, 0.3, 0.4, 0, 1, 0, 0};
    static panda_controller controller;
    panda_tick_settings settings = panda_tick_defaults;
    panda_tick_input input = {target, NULL, NULL, 1e-3, 1};
    panda_tick_result result;
    for (size_t k = 0; k < PANDA_ACTIVE_DOFS; ++k) settings.velocity[k] = 1e6;
    if (panda_controller_init(&controller, &settings) != PANDA_OK) return 1;
    for (size_t k = 0; k < sizeof deadlines / sizeof *deadlines; ++k) {
        long begun = microseconds;
        panda_controller_reset(&controller, NULL, NULL);
        input.deadline_ns = (begun + deadlines[k]) * 1000 + 1;
        if (panda_tick(&controller, &input, &result) != PANDA_OK) return 1;
        printf("%d %ld %d %d\n", deadlines[k], microseconds - begun, (int)result.iterations[0], (int)result.status);
    }
    return 0;
}
