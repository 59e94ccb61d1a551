"""Texts of an export for GPUs: header, source, README."""

from string import Template

TYPES = Template("""\
#include <cuda.h>

/* What is loaded into a context: filled by ${prefix}_load; not to be changed. */
typedef struct {
    CUmodule modules[$modules];
    CUfunction kernels[$kernels];
    CUdeviceptr constants;
    int32_t threads; /* that the device runs side by side, about */
    CUresult result; /* what the driver said last, after ${PREFIX}_DRIVER_ERROR */
} ${prefix}_device;
""")
FUNCTIONS = Template("""\
enum {
    ${PREFIX}_DRIVER_ERROR = 5, /* see `result` */
    ${PREFIX}_NO_CUBIN = 6   /* none of the cubins is for this device */
};

/* Loads the cubins in a folder into the current context; allocates a few kilobytes of device memory. */
int32_t ${prefix}_load(${prefix}_device *gpu, const char *folder);

/* Gives back what was loaded. */
void ${prefix}_unload(${prefix}_device *gpu);

/* Returns the bytes of device memory that ${prefix}_solve needs for so many problems and seeds. */
size_t ${prefix}_workspace_size(const ${prefix}_device *gpu, int32_t count, int32_t seeds);

/*
 * Solves problems in the context in which the cubins were loaded, waits for the stream, and returns one of the codes
 * above. All arrays of problems and results are in device memory, and so is the workspace, aligned to 256 bytes;
 * options, which may be NULL, are not. That a target is not reached is no error: see `success`. Answers do not depend
 * on what else is in the batch. A ${prefix}_device serves one call at a time.
 */
int32_t ${prefix}_solve(
    ${prefix}_device *gpu,
    const ${prefix}_problems *problems,
    const ${prefix}_options *options,
    const ${prefix}_results *results,
    CUdeviceptr workspace,
    size_t workspace_size,
    CUstream stream);
""")
SOURCE = Template("""\
/* Generated with ${prefix}_ik.h; see there. C99, and C++. */
#include "${prefix}_ik.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ${prefix}_coordinate_names[${PREFIX}_COORDINATES] = {
$names
};

/* ---- layouts of warp-lang $warp ---- */

$layouts

/* ---- the robot ---- */
$constants

/* ---- kernels; their names hold ${PREFIX}_ABI, so that no others are loaded ---- */
static const char *const module_names[] = {
$module_names
};
static const int module_counts[] = { $module_counts };
static const char *const kernel_names[] = {
$kernel_names
};
static const int architectures[] = { $architectures };

/* A call, and what the driver has said so far. */
typedef struct {
    ${prefix}_device *gpu;
    CUstream stream;
} gpu_call;

static void launch(gpu_call *call, int kernel, size_t size, unsigned block, void **arguments)
{
    size_t blocks = (size + block - 1) / block;
    if (call->gpu->result != CUDA_SUCCESS || size == 0) return;
    call->gpu->result = cuLaunchKernel(call->gpu->kernels[kernel], (unsigned)blocks, 1, 1, block, 1, 1, 0,
        call->stream, arguments, NULL);
}

$take

$functions

static int architecture_of(CUdevice device)
{
    int major = 0, minor = 0, best = 0;
    size_t k;
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    for (k = 0; k < sizeof architectures / sizeof architectures[0]; ++k) {
        int one = architectures[k];
        if (one / 10 == major && one % 10 <= minor && one > best) best = one;
    }
    return best;
}

static void upload(${prefix}_device *gpu, size_t at, const void *from, size_t bytes)
{
    if (gpu->result == CUDA_SUCCESS) gpu->result = cuMemcpyHtoD(gpu->constants + at, from, bytes);
}

int32_t ${prefix}_load(${prefix}_device *gpu, const char *folder)
{
    CUdevice device;
    char path[4096];
    int architecture, processors = 0, m, k = 0;
    memset(gpu, 0, sizeof *gpu);
    gpu->result = cuCtxGetDevice(&device);
    if (gpu->result == CUDA_SUCCESS)
        gpu->result = cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (gpu->result != CUDA_SUCCESS) return ${PREFIX}_DRIVER_ERROR;
    gpu->threads = processors * $threads_per_processor;
    architecture = architecture_of(device);
    if (architecture == 0) return ${PREFIX}_NO_CUBIN;
    for (m = 0; m < $modules; ++m) {
        int length = snprintf(path, sizeof path, "%s/%s.sm%d.cubin", folder, module_names[m], architecture), end;
        if (length < 0 || (size_t)length >= sizeof path) return ${PREFIX}_BAD_ARGUMENT;
        if (gpu->result == CUDA_SUCCESS) gpu->result = cuModuleLoad(&gpu->modules[m], path);
        for (end = k + module_counts[m]; k < end; ++k)
            if (gpu->result == CUDA_SUCCESS)
                gpu->result = cuModuleGetFunction(&gpu->kernels[k], gpu->modules[m], kernel_names[k]);
    }
    if (gpu->result == CUDA_SUCCESS) gpu->result = cuMemAlloc(&gpu->constants, $constants_size);
$uploads
    if (gpu->result != CUDA_SUCCESS) return ${PREFIX}_DRIVER_ERROR;
    return ${PREFIX}_OK;
}

void ${prefix}_unload(${prefix}_device *gpu)
{
    int m;
    if (gpu->constants != 0) cuMemFree(gpu->constants);
    for (m = 0; m < $modules; ++m)
        if (gpu->modules[m] != NULL) cuModuleUnload(gpu->modules[m]);
    memset(gpu, 0, sizeof *gpu);
}

$solve""")
SOLVE = Template("""\
/* How many attempts the workspace has rows for, and how many blocks of threads work on them. */
static void set_sizes(solve_frame *f, int32_t count, int32_t seeds, int32_t threads)
{
    int64_t attempts = (int64_t)count * seeds;
    f->count = count;
    f->rows = (size_t)(attempts < $rows_max ? attempts : $rows_max);
    f->blocks = ((size_t)threads < f->rows ? (size_t)threads : f->rows) / $block + 1;
}

size_t ${prefix}_workspace_size(const ${prefix}_device *gpu, int32_t count, int32_t seeds)
{
    solve_frame f;
    memset(&f, 0, sizeof f);
    set_sizes(&f, count < 1 ? 1 : count, seeds < 1 ? 1 : seeds, gpu->threads);
    return NUMBERS_SIZE + lay_out_solve(&f, NULL);
}

/* Solves an island: the first wave has all problems, each later one those that the waves before have not solved. */
static void solve_island(solve_frame *f, void (*list)(solve_frame *), void (*solve)(solve_frame *),
    void (*keep)(solve_frame *))
{
    int64_t count = f->count, seeds = f->numbers.settings[$SEEDS], rows = (int64_t)f->rows;
    int64_t threads = (int64_t)f->blocks * $block, first = 0, wave_seeds = threads / count, number = 0;
    if (wave_seeds < 1) wave_seeds = 1;
    while (first < seeds) {
        int64_t attempts, first_attempt, busy = threads < count * seeds ? threads : count * seeds;
        if (wave_seeds > seeds - first) wave_seeds = seeds - first;
        attempts = count * wave_seeds > busy ? count * wave_seeds : busy;
        for (first_attempt = 0; first_attempt < attempts; first_attempt += rows) {
            f->wave.number = (int32_t)number;
            f->wave.attempts = (int32_t)attempts;
            f->wave.first_attempt = (int32_t)first_attempt;
            f->wave.rows = (int32_t)(attempts - first_attempt < rows ? attempts - first_attempt : rows);
            f->wave.threads = (int32_t)threads;
            f->busy = (int32_t)(threads < f->wave.rows ? threads : f->wave.rows);
            if (number > 0 && first_attempt == 0) list(f);
            solve(f);
            keep(f);
        }
        first += wave_seeds;
        wave_seeds = first;
        ++number;
    }
}

static void set_zero(solve_frame *f, int32_t *at, size_t count)
{
    if (f->call.gpu->result == CUDA_SUCCESS)
        f->call.gpu->result = cuMemsetD32Async((CUdeviceptr)(uintptr_t)at, 0, count, f->call.stream);
}

int32_t ${prefix}_solve(
    ${prefix}_device *gpu,
    const ${prefix}_problems *problems,
    const ${prefix}_options *options,
    const ${prefix}_results *results,
    CUdeviceptr workspace,
    size_t workspace_size,
    CUstream stream)
{
    static const ${prefix}_options defaults = ${PREFIX}_OPTIONS;
    CUresult ended;
    solve_frame f;
    int32_t code;

    if (gpu == NULL || gpu->constants == 0) return ${PREFIX}_BAD_ARGUMENT;
    if (options == NULL) options = &defaults;
    code = check(problems, options, results);
    if (code != ${PREFIX}_OK || problems->count == 0) return code;
    if (workspace % 256 != 0) return ${PREFIX}_BAD_ARGUMENT;
    if (workspace == 0 || workspace_size < ${prefix}_workspace_size(gpu, problems->count, options->seeds))
        return ${PREFIX}_SMALL_WORKSPACE;
    memset(&f, 0, sizeof f);
    f.call.gpu = gpu;
    f.call.stream = stream;
    gpu->result = CUDA_SUCCESS;
    set_sizes(&f, problems->count, options->seeds, gpu->threads);
    f.device_numbers = (char *)(uintptr_t)workspace;
    lay_out_solve(&f, f.device_numbers + NUMBERS_SIZE);
$given
$taken
    set_numbers(&f, problems, options);
    set_addresses_of_solve(&f);
    gpu->result = cuMemcpyHtoDAsync(workspace, &f.numbers, sizeof f.numbers, stream);
    if (gpu->result == CUDA_SUCCESS && ${PREFIX}_ORIENTATIONS) /* they are normalised in place */
        gpu->result = cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)f.given_orientations_xyzw,
            (CUdeviceptr)(uintptr_t)problems->orientations_xyzw,
            (size_t)f.count * ${PREFIX}_TARGETS * 4 * sizeof(double), stream);
    set_zero(&f, f.storage_next_row, 1);
    set_zero(&f, f.storage_listed_count, $waves);
    set_zero(&f, f.storage_first_seed, $waves);
$read
$islands
$judge
    if (gpu->result == CUDA_SUCCESS)
        gpu->result = cuMemcpyDtoHAsync(f.numbers.fault, workspace + offsetof(solve_numbers, fault),
            sizeof f.numbers.fault, stream);
    ended = cuStreamSynchronize(stream);
    if (gpu->result == CUDA_SUCCESS) gpu->result = ended;
    if (gpu->result != CUDA_SUCCESS) return ${PREFIX}_DRIVER_ERROR;
    return f.numbers.fault[0] != 0 ? ${PREFIX}_BAD_NUMBER : ${PREFIX}_OK;
}
""")
CMAKE = Template("""\
cmake_minimum_required(VERSION 3.18)
project(${prefix}_ik VERSION $version LANGUAGES C)
find_package(CUDAToolkit REQUIRED)

add_library(${prefix}_ik STATIC ${prefix}_ik.c)
set_target_properties(${prefix}_ik PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories(${prefix}_ik PUBLIC $${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(${prefix}_ik PUBLIC CUDA::cuda_driver)
""")
README = Template("""\
# Inverse kinematics of $robot in C, on NVIDIA GPUs

Made by `ik-service export --device cuda` ($version, warp-lang $warp). Neither Python nor Warp is needed to build or run
it: a C compiler, the header `cuda.h` and the driver library.

| file | what it is |
|---|---|
| `${prefix}_ik.h` | the interface |
| `${prefix}_ik.c` | loads the cubins, launches the kernels |
| `*.smNN.cubin` | the kernels for compute capability N.N and later minor versions: $architectures |
| `CMakeLists.txt` | a static library `${prefix}_ik` |

`${prefix}_load` reads the cubins from a folder into the current context; `${prefix}_solve` works on arrays in device
memory and waits for its stream. Cubins, source and header come from one export: the names of the kernels hold
`${PREFIX}_ABI`.

The tests compile the cubins and run this source with all its launches over kernels compiled for CPUs, with the bytes of
the solver's threads as answers. No card was at hand yet to run it on. Answers differ in the last bits from those of a
CPU, and divisions in the kernels of the islands are not exact to the last bit.
""")
