/* A sampling thread that wakes on time.
 *
 * A look that comes late sees what the job does when it leaves the core: mostly sleeping. Two settings of Linux make
 * looks late, and both are of the calling thread alone, need no privilege and take no more CPU time:
 *  - timers may wait for others nearby, 50 µs by default. The end of the job's own sleep is such a neighbor.
 *  - a thread that wakes may have to wait for the slice of the one that runs, milliseconds. From Linux 6.12 on a thread
 *    that asks for a shorter slice goes first; it gets no larger share of the core. Older ones ignore the wish. */

#ifndef STEPSCOPE_COLLECT_PROMPT_H
#define STEPSCOPE_COLLECT_PROMPT_H

#include "fields.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLACK_NS = 1, SLICE_NS = 100000 }; /* the least there are; a look takes 20 to 50 µs */

/* The first version of struct sched_attr: C libraries do not have it. */
typedef struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} Scheduling;

static void wish_short_slice(void)
{
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    Scheduling now = {0};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) < 0 || now.policy != 0) /* SCHED_OTHER: none that was chosen */
        return;
    now.size = sizeof now;
    now.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
#endif
}

/* Best effort: where it is refused, looks come as late as before. */
static void wake_on_time(void)
{
    (void)prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    wish_short_slice();
}
#else
static void wake_on_time(void) {}
#endif

static PyObject *looker_prompt(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(unused))
{
    wake_on_time();
    Py_RETURN_NONE;
}

#endif
