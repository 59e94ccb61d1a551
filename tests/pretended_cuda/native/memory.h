// Numbers that tests choose and read, and the memory of the pretended device: who may reach it, and when.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
using Bytes = std::vector<char>;
using Work = std::function<void()>;


// Threads from first to last, each to its next barrier; from last to first; or any, which may be interrupted wherever it
// reaches for memory.
enum Order { FORWARDS, BACKWARDS, RANDOM };

template <typename T> static T &kept() { return *new T; }  // beyond the end of the process, when Python frees its last

static auto &numbers = kept<std::map<std::string, long>>();
static long &late = numbers["late"], &order = numbers["order"], &seed = numbers["seed"];
static long &pattern = numbers["pattern"];      // of every byte of new memory
static long &pause_each = numbers["pause_each"];  // accesses to memory from pause to pause, about, in random order
static long &lost = numbers["lost"];  // nonzero: as a card after an error that ends its context, or that is gone
static long &processors = numbers["processors"];  // multiprocessors, by which the product decides how much to launch

// Where a number is kept, for the tests to read and write; also counts of what has been done.
API long *pretended_number(const char *name) { return &numbers[name]; }
static uint64_t dice;
API void pretended_begin() { dice = 0x9E3779B97F4A7C15ull * (uint64_t)(seed + 1); }  // with the seed
static void count(const char *name, long more = 1) { numbers[name] += more; }

static auto &device_mutex = kept<std::recursive_mutex>();
#define ONE_AT_A_TIME std::lock_guard<std::recursive_mutex> guard(device_mutex)

static auto &refusal = kept<std::string>();  // the last one, for Warp
API const char *pretended_refusal() { return refusal.c_str(); }
static bool refuse(const std::string &why) {
    refusal = "CUDA error: " + why;
    count("refusals");
    return false;
}
#define ONE_AT_A_TIME_WHILE_IT_WORKS ONE_AT_A_TIME; if (lost) return refuse("unspecified launch failure")

static auto &running = kept<std::string>();  // what the device does
static void say(const std::string &what) {
    std::string line = "pretended device: " + what + "\n";
    if (write(2, line.data(), line.size())) {}
}
static bool is_ending = false;
[[noreturn]] static void end(const std::string &why) {
    say(why);
    is_ending = true;
    abort();
}

// --------------------------------------------------------------------------------------------------------------- memory

static const size_t ARENA = size_t(1) << 38, PAGE = 4096, ALIGNMENT = 256;
struct Array { char *pages; size_t size; };  // whole pages; its end is the end of the last one
static char *arena, *unused;
static auto &arrays = kept<std::map<char *, Array>>();   // that are not freed, by address
static auto &pinned = kept<std::map<char *, size_t>>();  // memory of the host that the device reaches, by address
static int working = 0;  // depth of calls in which the device works
static auto &freed_in_recording = kept<std::vector<char *>>();  // freed once nothing is recorded

static bool on_device(const void *p) { return arena && p >= arena && p < arena + ARENA; }
static bool is_pinned(const void *p) {
    auto next = pinned.upper_bound((char *)p);
    return next != pinned.begin() && (char *)p < std::prev(next)->first + std::prev(next)->second;
}

static void watch_faults();
static auto &opened = kept<std::vector<Array>>();  // while the device works

// Opens the array that an address is in, if there is one and the device works.
static bool open_array(const void *address) {
    if (!working || !on_device(address)) return false;
    auto next = arrays.upper_bound((char *)address);
    if (next == arrays.begin()) return false;
    const Array &array = std::prev(next)->second;
    if ((char *)address >= array.pages + array.size) return false;
    if (mprotect(array.pages, array.size, PROT_READ | PROT_WRITE)) return false;
    opened.push_back(array);
    return true;
}
struct Working {  // while one of these lives the device works, and arrays are opened as it reaches for them
    Working() { watch_faults(), ++working; }
    ~Working() {
        if (--working) return;
        for (const Array &array : opened) mprotect(array.pages, array.size, PROT_NONE);
        opened.clear();
    }
};

static struct sigaction before[NSIG];
static void fault(int signal_number, siginfo_t *info, void *) {
    bool is_access = signal_number == SIGSEGV || signal_number == SIGBUS;
    if (is_access && open_array(info->si_addr)) return;
    std::string who = !working ? "the host" : running.empty() ? "a copy" : running;
    if (signal_number == SIGILL) say(who + " computed a whole number beyond its type");
    else if (signal_number == SIGABRT) say(is_ending ? "it ends" : who + " fails as the line above says");
    else if (!on_device(info->si_addr)) say(who + " reached an address that nobody has");
    else if (working) say(who + " reached memory that is freed, or before or behind an array");
    else say("the host reached memory of the device");
    sigaction(signal_number, &before[signal_number], nullptr);  // it faults again, and Python tells where
}
static void watch_faults() {
    static thread_local Bytes stack;
    if (stack.empty()) {
        stack.resize(1 << 16);
        stack_t own{stack.data(), 0, stack.size()};
        sigaltstack(&own, nullptr);
    }
    struct sigaction now {}, found;
    now.sa_sigaction = fault;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, nullptr, &found);
    if (found.sa_sigaction == fault) return;  // pytest takes it away at its end, while some work may still wait
    for (int one : {SIGSEGV, SIGBUS, SIGILL, SIGABRT}) sigaction(one, &now, &before[one]);
}

static void *allocate(size_t size) {
    ONE_AT_A_TIME;
    watch_faults();
    if (!arena) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        unused = arena = (char *)mmap(nullptr, ARENA, PROT_NONE, flags, -1, 0);
        if (arena == MAP_FAILED) end("no room for its memory");
    }
    size_t used = (std::max<size_t>(size, 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    Array array{unused + PAGE, (used + PAGE - 1) / PAGE * PAGE};
    unused = array.pages + array.size;
    if (unused + PAGE > arena + ARENA) end("its memory is used up");
    mprotect(array.pages, array.size, PROT_READ | PROT_WRITE);
    if (size < (size_t(1) << 30)) memset(array.pages, (int)pattern, array.size);  // larger ones are never filled whole
    mprotect(array.pages, array.size, PROT_NONE);
    char *address = array.pages + array.size - used;
    arrays[address] = array;
    count("allocations");
    return address;
}
static void release(char *address) {
    auto found = arrays.find(address);
    if (found == arrays.end()) end("memory is freed that nobody has");
    Array array = found->second;
    arrays.erase(found);
    madvise(array.pages, array.size, MADV_DONTNEED);
    mprotect(array.pages, array.size, PROT_NONE);
}
