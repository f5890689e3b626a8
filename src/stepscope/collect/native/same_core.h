/* A sampling thread on the core of the thread that it looks at, while the process computes on several cores.
 *
 * A core that sleeps takes 50 µs and more to wake, one that works a tenth of it. Where operators have as many threads
 * as there are cores, a core is free only while the training thread is at work alone: a look that wakes it comes late
 * just then, and sees what comes next. Measured with a hook of 60 µs between operators of two threads: 16 to 31 % of the
 * samples, where its time was 36 to 44 %; on the same core 33 to 43 %.
 *
 * It is followed once a second; threads that this one makes in between may run anywhere. */

#ifndef STEPSCOPE_COLLECT_SAME_CORE_H
#define STEPSCOPE_COLLECT_SAME_CORE_H

#include "fields.h"

#ifdef __linux__
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSOR = 39 }; /* field of /proc/PID/stat: see proc(5); in that of a process it is the main thread's */
static const double SEVERAL = 1.25; /* cores: a thread beside the training thread may be at work for a quarter */

typedef struct {
    cpu_set_t allowed;
    long long cpu, wall; /* of the process, in ns, at the last look */
    int known, several, main_thread;
} Core;

static long long clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Called by the thread that is to be looked at: only the main thread's core is told. */
static void core_begin(Core *core)
{
    core->main_thread = syscall(SYS_gettid) == getpid();
    core->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), core->wall = clock_ns(CLOCK_MONOTONIC);
}

static int core_of_main_thread(void)
{
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (size <= 0)
        return -1;
    text[size] = 0;
    char *at = strrchr(text, ')'); /* the end of field 2, which may hold blanks and brackets */
    for (int field = 2; at && field < PROCESSOR; field++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at) : -1;
}

static void core_follow(Core *core)
{
    long long cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
    core->several = (double)(cpu - core->cpu) > SEVERAL * (double)(wall - core->wall);
    core->cpu = cpu, core->wall = wall;
    if (!core->main_thread || !core->several)
        return;
    int number = core_of_main_thread();
    if (!core->known)
        core->known = sched_getaffinity(0, sizeof core->allowed, &core->allowed) == 0;
    if (number < 0 || number >= CPU_SETSIZE || !core->known)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(number, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static void core_leave(Core *core)
{
    if (core->known && core->several)
        (void)sched_setaffinity(0, sizeof core->allowed, &core->allowed);
}
#else
typedef struct {
    int none;
} Core;

static void core_begin(Core *core) { (void)core; }
static void core_follow(Core *core) { (void)core; }
static void core_leave(Core *core) { (void)core; }
#endif

#endif
