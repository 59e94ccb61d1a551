/* A driver without a GPU: device memory is that of the host, kernels are those compiled for CPUs. */
#include "cuda.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUfunc_st {
    const char *name;
    void (*run)(void **arguments);
};
extern struct CUfunc_st fake_kernels[]; /* ends with an entry without a name */
int fake_launches, fake_fails_at = -1;

CUresult cuCtxGetDevice(CUdevice *device) { *device = 0; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
        : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 2 : 1;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return CUDA_ERROR_FILE_NOT_FOUND;
    fclose(file);
    *module = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { (void)module; return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    for (*function = fake_kernels; (*function)->name != NULL; ++*function)
        if (strcmp((*function)->name, name) == 0) return CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes)
{
    *memory = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr memory) { free((void *)(uintptr_t)memory); return CUDA_SUCCESS; }
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemcpyHtoD(to, from, bytes);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t count, CUstream stream)
{
    (void)stream;
    while (count > 0) memcpy((void *)(uintptr_t)(at + 4 * --count), &value, 4);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { (void)stream; return CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
    unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream,
    void **arguments, void **extra)
{
    size_t threads = (size_t)grid_x * grid_y * grid_z * block_x * block_y * block_z, size;
    (void)stream;
    memcpy(&size, (char *)arguments[0] + 8, sizeof size);
    if (fake_launches++ == fake_fails_at || shared_bytes != 0 || extra != NULL) return CUDA_ERROR_NOT_FOUND;
    if (threads < size || threads >= size + block_x) return CUDA_ERROR_NOT_FOUND;
    function->run(arguments);
    return CUDA_SUCCESS;
}
