// What the modules of kernels and the pretended device have to know of each other.
#pragma once
#include <cstddef>

struct Dim { unsigned x, y, z; };
struct Place { Dim thread, block, block_size, grid; };
struct Kernel {  // beside each kernel, as pretended_NAME
    void (*run)(void **arguments);
    int argument_count;
    const size_t *sizes;  // of the arguments, in bytes
    const char *name;
    int has_barriers;
};

extern "C" {
const Place *pretended_place();           // of the thread that asks
void pretended_pause();                   // before a thread reaches for memory that others may write
void pretended_meet(int is_whole_block);  // a barrier of the block, or of the warp
long *pretended_number(const char *name); // that a test chooses, or that counts what has been done
}
