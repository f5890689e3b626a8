/* Reading memory that may go away while it is read, and where Python keeps what a stack is made of.
 *
 * The system copies: memory that is no longer there gives an error in place of a crash. What was read may be half old
 * and half new all the same; stacks.h looks twice. */

#ifndef STEPSCOPE_COLLECT_MEMORY_H
#define STEPSCOPE_COLLECT_MEMORY_H

#include "fields.h"
#include <string.h>

#ifdef __linux__
#include <sys/uio.h>
#include <unistd.h>

/* `to` and `from` of the same number and sizes; 0: all of it was copied. */
static int copy_many(struct iovec *to, struct iovec *from, int number)
{
    size_t whole = 0;
    for (int index = 0; index < number; index++)
        whole += to[index].iov_len;
    ssize_t copied = process_vm_readv(getpid(), to, (unsigned long)number, from, (unsigned long)number, 0);
    return copied >= 0 && (size_t)copied == whole ? 0 : -1;
}
#else
struct iovec {
    void *iov_base;
    size_t iov_len;
};

static int copy_many(struct iovec *to, struct iovec *from, int number)
{
    (void)to, (void)from, (void)number;
    return -1;
}
#endif

static struct iovec piece(const void *base, size_t size)
{
    struct iovec part = {(void *)base, size};
    return part;
}

static int copy(void *to, uintptr_t from, size_t size)
{
    struct iovec there = piece(to, size), here = piece((const void *)from, size);
    return from && size ? copy_many(&there, &here, 1) : -1;
}

/* Offsets in bytes in the structs of one minor version of CPython, with the lock and without debugging, 64 bits. They
 * do not change within a version; a reader that finds anything else than Python itself says is not used. */
typedef struct {
    int minor;
    int thread_id, thread_frame;     /* of a thread's state; prev, next and interp are its first three words */
    int indirect;                    /* where the frame is in what thread_frame points to; -1: that is the frame */
    int code, previous, instruction; /* of a frame */
    int owner, foreign;              /* a frame whose `owner` is at least `foreign` runs no code of Python; -1: none */
    int unit;                        /* bytes an instruction counts for; 0: `instruction` is a pointer */
    int first_line, file, name, qualname, lines, bytecode; /* of a code object; no qualname before 3.11: the name */
    int ascii, wide;                 /* where the characters of a text begin */
} Layout;

enum { WORD = sizeof(void *), SIZE_OF = 2 * WORD, BYTES_BEGIN = 4 * WORD, TEXT_HASH = 3 * WORD, TEXT_STATE = 4 * WORD };

static const Layout layouts[] = {
    {9, 176, 24, -1, 32, 24, 104, -1, 0, 1, 40, 104, 112, 112, 120, 48, 48, 72},
    {10, 176, 24, -1, 32, 24, 96, -1, 0, 2, 40, 104, 112, 112, 120, 48, 48, 72},
    {11, 152, 56, 8, 32, 48, 56, -1, 0, 0, 72, 112, 120, 128, 136, 184, 48, 72},
    {12, 136, 56, 0, 0, 8, 56, 70, 3, 0, 68, 112, 120, 128, 136, 192, 40, 56},
    {13, 152, 72, -1, 0, 8, 56, 70, 3, 0, 68, 112, 120, 128, 136, 200, 40, 56},
};

enum { THREAD_BYTES = 184, HEAD_BYTES = 144, FRAME_BYTES = 108 }; /* the furthest offset above, with its field */

static const Layout *layout_of(int minor)
{
    for (size_t index = 0; sizeof(void *) == 8 && index < sizeof layouts / sizeof *layouts; index++)
        if (layouts[index].minor == minor)
            return &layouts[index];
    return NULL;
}

static uintptr_t word_at(const uint8_t *base, int offset)
{
    uintptr_t word;
    memcpy(&word, base + offset, sizeof word);
    return word;
}

static int32_t number_at(const uint8_t *base, int offset)
{
    int32_t number;
    memcpy(&number, base + offset, sizeof number);
    return number;
}

#endif
