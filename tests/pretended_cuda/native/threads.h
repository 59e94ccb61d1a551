// The threads of a kernel: each has a stack of its own, and they run in the order that is chosen.
#pragma once
#include "kernel.h"
#include "memory.h"
#include <csetjmp>

enum State { READY, AT_BARRIER, ENDED };
struct Group { int alive = 0, waiting = 0; std::vector<struct Thread *> threads; };
struct Thread {
    ucontext_t context;  // of its begin
    jmp_buf place_left;  // where it goes on, once it has begun
    bool has_begun;
    char *stack;
    Place place;
    State state;
    Group *warp, *block, *meets;  // the group whose barrier it waits at
};

static const size_t STACK = 512 << 10, WARP = 32, THREADS_AT_ONCE = 1024;
static auto &stacks = kept<std::vector<char *>>();  // not in use
static Thread *current;
static jmp_buf scheduler;
static const Kernel *kernel_now;
static void **arguments_now;
static Place place_now;
static uint64_t roll(uint64_t sides) {
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return (dice >> 11) % sides;
}

static void leave(State state) {
    current->state = state;
    if (!_setjmp(current->place_left)) _longjmp(scheduler, 1);  // unlike swapcontext it asks nothing of the kernel
}
// Called by kernels: where they run, before they reach for memory, and at barriers.
API const Place *pretended_place() { return &place_now; }
API void pretended_pause() {
    if (current && order == RANDOM && roll(pause_each) == 0) leave(READY);
}
API void pretended_meet(int whole_block) {
    if (!current) return;
    current->meets = whole_block ? current->block : current->warp;
    leave(AT_BARRIER);
}

static Place place_of(size_t thread, size_t block, size_t block_size, Dim grid) {
    Dim at{unsigned(block % grid.x), unsigned(block / grid.x % grid.y), unsigned(block / grid.x / grid.y)};
    return Place{{(unsigned)thread, 0, 0}, at, {(unsigned)block_size, 1, 1}, grid};
}
static void begin() {
    kernel_now->run(arguments_now);
    current->state = ENDED;
    _longjmp(scheduler, 1);
}
static void go_on(Thread *one) {
    if (_setjmp(scheduler)) return;
    if (one->has_begun) _longjmp(one->place_left, 1);
    one->has_begun = true;
    setcontext(&one->context);
}
static void let_go(Group *group) {
    for (Thread *one : group->threads)
        if (one->state == AT_BARRIER && one->meets == group) one->state = READY;
    group->waiting = 0;
}
// How many threads a block has that do anything: those beyond the size of the launch end before their first step.
static size_t busy(size_t block, size_t block_size, size_t size) {
    return std::min(block_size, size - std::min(size, block * block_size));
}
static void add_block(std::vector<Thread *> &live, size_t block, size_t block_size, Dim grid, size_t size) {
    size_t threads = busy(block, block_size, size);
    if (threads == 0) return;
    Group *all = new Group, *warp = nullptr;
    for (size_t k = 0; k < threads; ++k) {
        if (k % WARP == 0) warp = new Group;
        Thread *one = new Thread{{}, {}, false, nullptr, place_of(k, block, block_size, grid), READY, warp, all, nullptr};
        for (Group *group : {warp, all}) group->alive++, group->threads.push_back(one);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        if (stacks.empty()) stacks.push_back((char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, flags, -1, 0));
        one->stack = stacks.back();
        stacks.pop_back();
        getcontext(&one->context);
        one->context.uc_stack.ss_sp = one->stack;
        one->context.uc_stack.ss_size = STACK;
        makecontext(&one->context, begin, 0);
        live.push_back(one);
    }
}
static void retire(Thread *one) {
    stacks.push_back(one->stack);
    for (Group *group : {one->warp, one->block}) {
        if (--group->alive == 0) delete group;
        else {
            group->threads.erase(std::find(group->threads.begin(), group->threads.end(), one));
            if (group->waiting == group->alive) let_go(group);
        }
    }
    delete one;
}
// Threads until they have all ended; blocks come in turn as others end.
static void run_with_stacks(const std::vector<size_t> &blocks, size_t block_size, Dim grid, size_t size) {
    std::vector<Thread *> live;
    size_t next = 0;
    while (next < blocks.size() || !live.empty()) {
        while (next < blocks.size() && (live.empty() || live.size() + block_size <= THREADS_AT_ONCE))
            add_block(live, blocks[next++], block_size, grid, size);
        if (order == RANDOM)
            for (size_t k = live.size(); k > 1; --k) std::swap(live[k - 1], live[roll(k)]);
        bool has_run = false;
        for (size_t k = 0; k < live.size(); ++k) {
            Thread *one = live[order == BACKWARDS ? live.size() - 1 - k : k];
            if (one->state != READY) continue;
            has_run = true;
            if (order == RANDOM && roll(4) == 0) continue;  // it falls behind the others
            current = one;
            place_now = one->place;
            go_on(one);
            current = nullptr;
            if (one->state == AT_BARRIER && ++one->meets->waiting == one->meets->alive) let_go(one->meets);
        }
        std::vector<Thread *> left;
        for (Thread *one : live)
            if (one->state == ENDED) retire(one);
            else left.push_back(one);
        bool may_go_on = left.size() < live.size();
        live.swap(left);
        if (!has_run && !may_go_on) end(running + " waits for ever: its threads are at different barriers");
    }
}
static void run_kernel(const Kernel *kernel, Dim grid, size_t block_size, size_t size, std::vector<Bytes> &given) {
    std::vector<void *> arguments;
    for (Bytes &one : given) arguments.push_back(one.data());
    kernel_now = kernel, arguments_now = arguments.data();
    running = std::string("kernel ") + kernel->name;
    std::vector<size_t> blocks(size_t(grid.x) * grid.y * grid.z);
    for (size_t k = 0; k < blocks.size(); ++k) blocks[k] = order == BACKWARDS ? blocks.size() - 1 - k : k;
    if (order == RANDOM)
        for (size_t k = blocks.size(); k > 1; --k) std::swap(blocks[k - 1], blocks[roll(k)]);
    if (order == RANDOM || kernel->has_barriers) run_with_stacks(blocks, block_size, grid, size);
    else
        for (size_t block : blocks)
            for (size_t k = 0, threads = busy(block, block_size, size); k < threads; ++k) {
                place_now = place_of(order == BACKWARDS ? threads - 1 - k : k, block, block_size, grid);
                kernel->run(arguments.data());
            }
    count("threads", (long)size);
    running.clear();
}
