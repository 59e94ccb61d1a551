// What stands before the kernels of a module, after Warp's headers: the words of CUDA for the pretended device.
#pragma once
#include "kernel.h"
#include <cstdio>
#include <cstdlib>
#include <utility>

#define __CUDA_ARCH__ 900
#define __global__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define threadIdx (pretended_place()->thread)
#define blockIdx (pretended_place()->block)
#define blockDim (pretended_place()->block_size)
#define gridDim (pretended_place()->grid)
#define __syncwarp(...) pretended_meet(0)
#define __syncthreads() pretended_meet(1)

namespace pretended {

// Warp's function of that name, after a pause in which other threads may run.
#define PAUSING(name)                                                                                                  \
    template <typename... A> inline decltype(auto) name(A &&...given) {                                                \
        pretended_pause();                                                                                             \
        return wp::name(static_cast<A &&>(given)...);                                                                  \
    }
PAUSING(address)
PAUSING(array_store)
PAUSING(atomic_add)
PAUSING(atomic_sub)
PAUSING(atomic_min)
PAUSING(atomic_max)
PAUSING(atomic_cas)
PAUSING(atomic_exch)

// Calls a kernel with arguments by their addresses.
template <auto kernel> struct Call;
template <typename... A, void (*kernel)(A...)> struct Call<kernel> {
    static constexpr size_t sizes[] = {sizeof(A)...};
    static constexpr int argument_count = sizeof...(A);
    template <size_t... k> static void with(void **given, std::index_sequence<k...>) { kernel(*(A *)given[k]...); }
    static void run(void **given) { with(given, std::index_sequence_for<A...>()); }
};

}  // namespace pretended

#define PRETENDED_KERNEL(kernel, has_barriers)                                                                         \
    extern "C" __attribute__((visibility("default"))) const Kernel pretended_##kernel{                                 \
        pretended::Call<kernel>::run, pretended::Call<kernel>::argument_count, pretended::Call<kernel>::sizes,         \
        #kernel, has_barriers};
