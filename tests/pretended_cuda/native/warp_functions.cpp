// A CUDA device that is pretended on a CPU, in place of the half of Warp's native library that talks to CUDA.
//
//   memory    is closed to the host but while the device works; it is filled with a pattern when it is new, and stays
//             closed once it is freed, as do the pages before and behind every array
//   threads   of a kernel have stacks of their own and run in an order that is chosen; see Order
//   streams   do their work when somebody waits for it (late), or at once
//   graphs    do what was recorded again, with the addresses that it was recorded with
//
// What would end the context of a card ends the process, and the last line on stderr says why. What a card refuses is
// an error of Warp. The device knows nothing of speed, of the order in which memory becomes visible to other threads on
// a card, or of what the compiler for a card makes of a kernel.
#include "streams.h"

// ------------------------------------------------------------------------------------------ memory, copies and filling

API void *wp_alloc_device(void *, size_t size, const char *) { return allocate(size); }
API void *wp_alloc_device_default(void *, size_t size, const char *) { return allocate(size); }
API void *wp_alloc_device_async(void *, size_t size, void *, const char *) { return allocate(size); }
API void wp_free_device(void *, void *address) { ONE_AT_A_TIME; release_later(address); }
API void wp_free_device_default(void *, void *address) { ONE_AT_A_TIME; release_later(address); }
API void wp_free_device_async(void *, void *address, void *) { ONE_AT_A_TIME; release_later(address); }
API void *wp_alloc_pinned(size_t size, const char *) {
    ONE_AT_A_TIME;
    char *address = (char *)aligned_alloc(PAGE, (size / PAGE + 1) * PAGE);
    memset(address, (int)pattern, size);
    pinned[address] = size + 1;
    return address;
}
API void wp_free_pinned(void *address) {
    ONE_AT_A_TIME;
    finish_all();
    pinned.erase((char *)address);
    free(address);
}
static void require(const void *address, bool device, const char *what) {
    if (on_device(address) != device) end(std::string(what) + " is on the wrong side");
}
API bool wp_memcpy_h2d(void *, void *to, void *from, size_t size, void *stream) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    require(to, true, "the end of a copy to the device"), require(from, false, "the begin of a copy to the device");
    count("bytes_to_device", (long)size);
    if (is_pinned(from)) submit(stream_of(stream), [=] { memcpy(to, from, size); });
    else {  // other memory is read before the call returns
        Bytes bytes((char *)from, (char *)from + size);
        submit(stream_of(stream), [=] { memcpy(to, bytes.data(), size); });
    }
    return true;
}
API bool wp_memcpy_d2h(void *, void *to, void *from, size_t size, void *stream) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    require(to, false, "the end of a copy to the host"), require(from, true, "the begin of a copy to the host");
    count("bytes_to_host", (long)size);
    Stream *own = stream_of(stream);
    if (is_pinned(to)) { submit(own, [=] { memcpy(to, from, size); }); return true; }
    if (is_recording()) return refuse("copy to pageable memory while a stream is capturing");
    submit(own, [=] { memcpy(to, from, size); });
    finish(own);
    return true;
}
API bool wp_memcpy_d2d(void *, void *to, void *from, size_t size, void *stream) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    require(to, true, "the end of a copy on the device"), require(from, true, "the begin of a copy on the device");
    submit(stream_of(stream), [=] { memmove(to, from, size); });
    return true;
}
API bool wp_memset_device(void *, void *to, int value, size_t size, void *stream) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    require(to, true, "what is filled");
    submit(stream_of(stream), [=] { memset(to, value, size); });
    return true;
}
API void wp_memtile_device(void *, void *to, void *value, size_t size, size_t times) {
    ONE_AT_A_TIME;
    require(to, true, "what is filled");
    Bytes bytes((char *)value, (char *)value + size);
    submit(stream_now, [=] { for (size_t k = 0; k < times; ++k) memcpy((char *)to + k * size, bytes.data(), size); });
}
// Copies between arrays with gaps, and their filling, are done by Warp's own functions for CPUs.
static bool (*copy_on_host)(void *, void *, int, int, int);
static void (*fill_on_host)(void *, int, void *, int);
static size_t descriptor_size;
API void pretended_host_functions(void *copy, void *fill, size_t size) {
    copy_on_host = (decltype(copy_on_host))copy, fill_on_host = (decltype(fill_on_host))fill, descriptor_size = size;
}
static Bytes described(void *array, int kind) {
    if (kind) end("it knows no arrays that are indexed");
    return Bytes((char *)array, (char *)array + descriptor_size);
}
API bool wp_array_copy_device(void *, void *to, void *from, int to_kind, int from_kind, int size) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    Bytes a = described(to, to_kind), b = described(from, from_kind);
    submit(stream_now, [=]() mutable { copy_on_host(a.data(), b.data(), 0, 0, size); });
    return true;
}
API void wp_array_fill_device(void *, void *array, int kind, void *value, int size) {
    ONE_AT_A_TIME;
    Bytes a = described(array, kind), v((char *)value, (char *)value + size);
    submit(stream_now, [=]() mutable { fill_on_host(a.data(), 0, v.data(), size); });
}

// -------------------------------------------------------------------------------------------------- modules and launches

API void *wp_cuda_load_module(void *, const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) refuse(dlerror());
    return module;
}
API void wp_cuda_unload_module(void *, void *) {}  // recorded graphs may still run its kernels
API void *wp_cuda_get_kernel(void *, void *module, const char *name) {
    return dlsym(module, (std::string("pretended_") + name).c_str());
}
// Whether a word of a kernel's arguments is an address of the host that is in use, which a card cannot reach.
static bool is_of_host(uint64_t word) {
    if (word < (uint64_t(1) << 32) || word >> 47 || on_device((void *)word) || is_pinned((void *)word)) return false;
    unsigned char resident;
    return mincore((void *)(word / PAGE * PAGE), 1, &resident) == 0;
}
API size_t wp_cuda_launch_kernel(
    void *, void *given, size_t size, int most_blocks, int block_size, int strides, int, int, void **values, void *stream,
    void *) {
    ONE_AT_A_TIME;
    auto *kernel = (const Kernel *)given;
    if (!kernel || lost) { refuse(lost ? "unspecified launch failure" : "invalid resource handle"); return 1; }
    if (size == 0) return 0;
    std::vector<Bytes> arguments;
    for (int k = 0; k < kernel->argument_count; ++k) {
        char *bytes = (char *)values[k];
        arguments.emplace_back(bytes, bytes + kernel->sizes[k]);
        for (size_t at = 0; k > 0 && at + 8 <= kernel->sizes[k]; at += 8) {
            uint64_t word;
            memcpy(&word, bytes + at, 8);
            if (!is_of_host(word)) continue;
            count("host_addresses");
            say(std::string("kernel ") + kernel->name + " is given an address of the host, in argument " + std::to_string(k));
        }
    }
    if (block_size <= 0) block_size = 256;
    size_t blocks = (size + block_size - 1) / block_size;
    if (strides && most_blocks > 0) blocks = std::min<size_t>(blocks, most_blocks);
    if (blocks > 2147483647u) { refuse("invalid argument: blocks of a grid"); return 1; }
    count("launches");
    Dim grid{(unsigned)blocks, 1, 1};
    submit(stream_of(stream), [=]() mutable { run_kernel(kernel, grid, block_size, size, arguments); });
    return 0;
}
API int wp_cuda_get_max_shared_memory(void *) { return 232448; }
API bool wp_cuda_configure_kernel_shared_memory(void *, int) { return true; }
API int wp_cuda_get_kernel_static_shared_memory(void *, void *) { return 0; }
API bool wp_cuda_set_kernel_cluster_attrs(void *, int, int, int) { return true; }
API int wp_cuda_get_max_cluster_dim(void *, void *, int, int) { return 1; }

// --------------------------------------------------------------------------------------------------- streams and graphs

API void *wp_cuda_stream_create(void *, int) {
    ONE_AT_A_TIME;
    return *streams.insert(new Stream).first;
}
API void wp_cuda_stream_destroy(void *, void *given) {
    ONE_AT_A_TIME;
    auto *stream = (Stream *)given;
    finish(stream);
    streams.erase(stream);
    if (stream_now == stream) stream_now = &null_stream;
}
API int wp_cuda_stream_query(void *stream) { ONE_AT_A_TIME; return stream_of(stream)->waiting.empty() ? 0 : 600; }
API void wp_cuda_stream_register(void *, void *) {}
API void wp_cuda_stream_unregister(void *, void *) {}
API bool wp_cuda_stream_synchronize(void *stream) { ONE_AT_A_TIME; return wait_for(stream_of(stream)); }
API void wp_cuda_stream_wait_event(void *, void *, bool) { ONE_AT_A_TIME; if (!is_recording()) finish_all(); }
API void wp_cuda_stream_wait_stream(void *, void *, void *, bool) { ONE_AT_A_TIME; if (!is_recording()) finish_all(); }
API int wp_cuda_stream_is_capturing(void *stream) { ONE_AT_A_TIME; return stream_of(stream)->recording != nullptr; }
API int wp_cuda_stream_is_blocking(void *) { return 0; }
API int wp_cuda_stream_get_priority(void *) { return 0; }
API uint64_t wp_cuda_stream_get_capture_id(void *stream) { ONE_AT_A_TIME; return stream_of(stream)->recording_number; }
API int wp_cuda_thread_exchange_capture_mode(int mode) { return mode; }
API void *wp_cuda_event_create(void *, unsigned) { return malloc(1); }
API void wp_cuda_event_destroy(void *event) { free(event); }
API int wp_cuda_event_query(void *) { return 0; }
API void wp_cuda_event_record(void *, void *, bool) {}
API bool wp_cuda_event_synchronize(void *) { ONE_AT_A_TIME; finish_all(); return true; }
API float wp_cuda_event_elapsed_time(void *, void *) { return 0.0f; }

API bool wp_cuda_graph_begin_capture(void *, void *given, int, int) {
    ONE_AT_A_TIME;
    Stream *stream = stream_of(given);
    if (stream->recording) return refuse("stream is already capturing");
    stream->recording = new Graph;
    stream->recording_number = ++recordings;
    return true;
}
API bool wp_cuda_graph_end_capture(void *, void *given, void **graph) {
    ONE_AT_A_TIME;
    Stream *stream = stream_of(given);
    if (!stream->recording) return refuse("stream is not capturing");
    count("graphs"), count("graph_nodes", (long)stream->recording->work.size());
    *graph = stream->recording;
    stream->recording = nullptr, stream->recording_number = 0;
    std::vector<char *> freed;
    freed.swap(freed_in_recording);
    for (char *address : freed) release_later(address);
    return true;
}
API bool wp_cuda_graph_pause_capture(void *, void *given, void **graph) {
    ONE_AT_A_TIME;
    Stream *stream = stream_of(given);
    if (!stream->recording) return refuse("stream is not capturing");
    *graph = stream->recording;
    stream->recording = nullptr;
    return true;
}
API bool wp_cuda_graph_resume_capture(void *, void *given, void *graph) {
    ONE_AT_A_TIME;
    Stream *stream = stream_of(given);
    if (stream->recording) return refuse("stream is already capturing");
    stream->recording = (Graph *)graph;
    return true;
}
// The loop looks at the condition before each turn; so there is nothing to set at the end of its body.
API bool wp_cuda_graph_insert_while(void *, void *given, int, bool, int *condition, void **body, uint64_t *) {
    ONE_AT_A_TIME;
    Stream *stream = stream_of(given);
    if (!stream->recording) return refuse("stream is not capturing");
    count("loops");
    auto *graph = new Graph;  // for as long as the process: copies of the whole graph share it
    stream->recording->work.push_back([=] {
        while (*condition)
            for (const Work &work : graph->work) work();
    });
    *body = graph;
    return true;
}
API bool wp_cuda_graph_set_condition(void *, void *, int, bool, int *, uint64_t) { return true; }
API bool wp_cuda_graph_check_conditional_body(void *) { return true; }
API bool wp_cuda_graph_create_exec(void *, void *, void *graph, void **executable) {
    *executable = new Graph(*(Graph *)graph);
    return true;
}
API bool wp_cuda_graph_launch(void *given, void *stream) {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    Stream *own = stream_of(stream);
    if (own->recording) return refuse("graph launched while stream is capturing");
    count("graph_launches");
    submit(own, [graph = *(Graph *)given] { for (const Work &work : graph.work) work(); });
    return true;
}
API bool wp_cuda_graph_exec_destroy(void *, void *graph) { delete (Graph *)graph; return true; }
API bool wp_cuda_graph_destroy(void *, void *graph) { delete (Graph *)graph; return true; }

// --------------------------------------------------------------------------------------- contexts and what the device is

static bool wait_for_all() {
    ONE_AT_A_TIME_WHILE_IT_WORKS;
    count("waits");
    if (is_recording()) return refuse("operation not permitted when stream is capturing");
    finish_all();
    return true;
}
static thread_local void *context_now;
API void *wp_cuda_device_get_primary_context(int) { return &null_stream; }
API void *wp_cuda_context_get_current() { return context_now; }
API void wp_cuda_context_set_current(void *context) { context_now = context; }
API void wp_cuda_context_push_current(void *) {}
API void wp_cuda_context_pop_current() {}
API bool wp_cuda_context_synchronize(void *) { return wait_for_all(); }
API uint64_t wp_cuda_context_check(void *) { return 0; }
API int wp_cuda_context_get_device_ordinal(void *) { return 0; }
API int wp_cuda_context_is_primary(void *) { return 1; }
API void *wp_cuda_context_get_stream(void *) { return stream_now; }
API void wp_cuda_context_set_stream(void *, void *stream, int) {
    ONE_AT_A_TIME;
    if (stream_of(stream) != stream_now && !is_recording()) finish(stream_now);
    stream_now = stream_of(stream);
}
API int wp_is_cuda_enabled() { return 1; }
API int wp_is_cuda_compatibility_enabled() { return 1; }
API bool wp_cuda_driver_is_initialized() { return true; }
API int wp_cuda_driver_version() { return 13000; }
API int wp_cuda_device_get_count() { return 1; }
API const char *wp_cuda_device_get_name(int) { return "pretended device"; }
API int wp_cuda_device_get_arch(int) { return 90; }
API int wp_cuda_device_get_sm_count(int) { return (int)processors; }
API int wp_cuda_device_get_max_shared_memory(int) { return 232448; }
API int wp_cuda_device_is_uva(int) { return 1; }
API int wp_cuda_device_get_pageable_memory_access(int) { return 0; }
API int wp_cuda_device_get_direct_managed_mem_access_from_host(int) { return 0; }
API int wp_cuda_device_get_host_native_atomic_supported(int) { return 0; }
API int wp_cuda_device_get_managed_memory_supported(int) { return 0; }
API int wp_cuda_device_get_concurrent_managed_access_supported(int) { return 0; }
API int wp_cuda_pointer_get_memory_kind(void *, void *address) { ONE_AT_A_TIME; return on_device(address) ? 1 : 0; }
API int wp_cuda_device_is_mempool_supported(int) { return 1; }
API int wp_cuda_device_is_ipc_supported(int) { return 0; }
API int wp_cuda_device_set_mempool_release_threshold(int, uint64_t) { return 1; }
API uint64_t wp_cuda_device_get_mempool_release_threshold(int) { return 0; }
API void wp_cuda_device_get_memory_info(int, size_t *unused_bytes, size_t *bytes) {
    for (size_t *asked : {unused_bytes, bytes}) if (asked) *asked = ARENA;
}
API void wp_cuda_device_get_uuid(int, char *uuid) { memset(uuid, 1, 16); }
API int wp_cuda_device_get_pci_domain_id(int) { return 0; }
API int wp_cuda_device_get_pci_bus_id(int) { return 0; }
API int wp_cuda_device_get_pci_device_id(int) { return 0; }
API int wp_cuda_is_peer_access_supported(int, int) { return 0; }
API int wp_cuda_is_mempool_access_enabled(int, int) { return 0; }
