/* Threads that solve the same problems side by side; targets.h has the numbers. */
#include "panda_ik.h"
#include "targets.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Clang's names for what GCC's runtime has. */
void *__tsan_memcpy(void *to, const void *from, size_t size) { return memcpy(to, from, size); }
void *__tsan_memset(void *to, int value, size_t size) { return memset(to, value, size); }

static const panda_problems problems = {PROBLEMS, positions, orientations_xyzw, NULL, 0};
static float answers[THREADS][PROBLEMS * PANDA_COORDINATES];
static void *workspaces[THREADS];

static void *solve(void *argument)
{
    int number = *(const int *)argument, run;
    panda_results results;
    memset(&results, 0, sizeof results);
    results.joint_q = answers[number];
    for (run = 0; run < RUNS; ++run)
        if (panda_solve(&problems, NULL, &results, workspaces[SHARED ? 0 : number],
                        panda_workspace_size(PROBLEMS)) != PANDA_OK) exit(2);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], k;
    for (k = 0; k < THREADS; ++k) {
        numbers[k] = k;
        workspaces[k] = malloc(panda_workspace_size(PROBLEMS));
        if (pthread_create(&threads[k], NULL, solve, &numbers[k]) != 0) exit(3);
    }
    for (k = 0; k < THREADS; ++k) pthread_join(threads[k], NULL);
    for (k = 1; k < THREADS; ++k)
        if (memcmp(answers[k], answers[0], sizeof answers[0]) != 0) exit(4);
    return 0;
}
