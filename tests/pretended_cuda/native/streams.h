// Streams, which do their work late or at once, and graphs of recorded work.
#pragma once
#include "threads.h"

struct Graph { std::vector<Work> work; };
struct Stream { std::deque<Work> waiting; Graph *recording = nullptr; uint64_t recording_number = 0; };
static Stream &null_stream = kept<Stream>(), *stream_now = &null_stream;
static auto &streams = *new std::set<Stream *>{&null_stream};
static uint64_t recordings = 0;

static Stream *stream_of(void *given) {  // all bits: the stream of the context
    return given == (void *)~uintptr_t(0) ? stream_now : given ? (Stream *)given : &null_stream;
}
static bool is_recording() {
    return std::any_of(streams.begin(), streams.end(), [](Stream *one) { return one->recording; });
}
static void finish(Stream *stream) {
    if (stream->waiting.empty()) return;
    Working now;
    while (!stream->waiting.empty()) {
        Work work = std::move(stream->waiting.front());
        stream->waiting.pop_front();
        work();
    }
}
static void finish_all() { for (Stream *one : streams) finish(one); }
static void submit(Stream *stream, Work work) {
    if (stream->recording) { stream->recording->work.push_back(std::move(work)); return; }
    if (lost) return;
    stream->waiting.push_back(std::move(work));
    if (!late) finish(stream);
}
static bool wait_for(Stream *stream) {
    count("waits");
    if (lost) return refuse("unspecified launch failure");
    if (stream->recording) return refuse("operation not permitted when stream is capturing");
    finish(stream);
    return true;
}
static void release_later(void *given) {
    char *address = (char *)given;
    if (is_recording()) freed_in_recording.push_back(address);
    else if (address) submit(stream_now, [=] { release(address); });
}
