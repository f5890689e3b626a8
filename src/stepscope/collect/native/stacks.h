/* The stack of a thread that runs on while it is read: no lock is taken, no object touched, no reference held.
 *
 * Frames that end and begin while one goes from the innermost to the outermost leave nonsense. So the frames that were
 * there last time are all copied in one call of the system, and so are those that are met on the way, with all others,
 * once more: only a chain that holds within one copy is a stack. */

#ifndef STEPSCOPE_COLLECT_STACKS_H
#define STEPSCOPE_COLLECT_STACKS_H

#include "memory.h"

/* Of a job that makes short calls one look in 25 failed six times, which took time from just those calls. */
enum { DEEPEST_STACK = 400, ATTEMPTS = 40, MOST_THREADS = 4096 };

typedef struct {
    uintptr_t code;
    int32_t offset; /* of the instruction, in bytes, as f_lasti; -1: before the first */
} Spot;

/* One reader's working memory: too much for a thread's stack. */
typedef struct {
    const Layout *layout;
    uintptr_t code_type;
    uintptr_t thread; /* the state of the thread that was read last */
    int frame_bytes, found, length, depth; /* frames known, of the stack, and with code */
    int order[DEEPEST_STACK];
    uint8_t state[THREAD_BYTES], via[2 * WORD];
    uintptr_t address[DEEPEST_STACK];
    uint8_t frame[DEEPEST_STACK][FRAME_BYTES];
    Spot spots[DEEPEST_STACK]; /* innermost first */
    uint8_t head[DEEPEST_STACK][HEAD_BYTES]; /* the code objects of the spots */
    uintptr_t name_hash[DEEPEST_STACK];      /* of their names */
    struct iovec to[DEEPEST_STACK + 2], from[DEEPEST_STACK + 2];
} Reader;

static int frame_bytes_of(const Layout *layout)
{
    return layout->owner >= 0 ? layout->owner + 1 : layout->instruction + (layout->unit ? 4 : WORD);
}

/* -- the thread --------------------------------------------------------------------------------------------------- */

static int read_state(Reader *reader, uintptr_t thread)
{
    return copy(reader->state, thread, THREAD_BYTES);
}

/* Is `thread` still in the list of threads? One that is gone may look well for long. */
static int is_linked(Reader *reader, uintptr_t thread)
{
    uintptr_t before = word_at(reader->state, 0), after = word_at(reader->state, WORD), back = 0;
    if (before)
        return copy(&back, before + WORD, WORD) == 0 && back == thread;
    return after && copy(&back, after, WORD) == 0 && back == thread;
}

static int is_wanted(Reader *reader, long long ident)
{
    return (long long)word_at(reader->state, reader->layout->thread_id) == ident;
}

/* The thread `ident`, found from `anchor`, the state of a thread that lives; its state is read. 0: not there. */
static int find_thread(Reader *reader, uintptr_t anchor, long long ident)
{
    if (reader->thread && read_state(reader, reader->thread) == 0 && is_wanted(reader, ident) &&
        is_linked(reader, reader->thread))
        return 1;
    for (int direction = 0; direction < 2; direction++) {
        uintptr_t thread = anchor;
        for (int count = 0; thread && count < MOST_THREADS; count++) {
            if (read_state(reader, thread) < 0)
                break;
            if (is_wanted(reader, ident)) {
                reader->thread = thread;
                return 1;
            }
            thread = word_at(reader->state, direction * WORD);
        }
    }
    reader->thread = 0;
    return 0;
}

/* -- the frames --------------------------------------------------------------------------------------------------- */

/* Copy the thread's state and the frames at all known addresses, at one moment or nearly so. */
static int copy_known(Reader *reader)
{
    int number = 0, indirect = reader->layout->indirect >= 0;
    uintptr_t via = word_at(reader->state, reader->layout->thread_frame);
    reader->to[number] = piece(reader->state, THREAD_BYTES);
    reader->from[number++] = piece((const void *)reader->thread, THREAD_BYTES);
    if (indirect) {
        reader->to[number] = piece(reader->via, sizeof reader->via);
        reader->from[number++] = piece((const void *)via, sizeof reader->via);
    }
    for (int index = 0; index < reader->found; index++) {
        reader->to[number] = piece(reader->frame[index], (size_t)reader->frame_bytes);
        reader->from[number++] = piece((const void *)reader->address[index], (size_t)reader->frame_bytes);
    }
    if (copy_many(reader->to, reader->from, number) < 0)
        return -1;
    return !indirect || word_at(reader->state, reader->layout->thread_frame) == via ? 0 : -1;
}

static uintptr_t innermost(const Reader *reader)
{
    if (reader->layout->indirect >= 0)
        return word_at(reader->via, reader->layout->indirect);
    return word_at(reader->state, reader->layout->thread_frame);
}

/* Where in the list of known addresses `frame` is; `likely` is looked at first. */
static int index_of(const Reader *reader, uintptr_t frame, int likely)
{
    if (likely < reader->found && reader->address[likely] == frame)
        return likely;
    int index = 0;
    while (index < reader->found && reader->address[index] != frame)
        index++;
    return index;
}

/* Follow the chain of frames into `order`, the indices of the copies. 0: whole, and all copied at that one moment;
 * 1: there were others, whose addresses are known now; -1: nonsense. */
static int follow(Reader *reader)
{
    uintptr_t met[DEEPEST_STACK], frame = innermost(reader);
    uint8_t other[FRAME_BYTES];
    int number = 0, others = 0, likely = 0;
    for (; frame && number < DEEPEST_STACK; number++) {
        int index = index_of(reader, frame, likely);
        const uint8_t *bytes = reader->frame[index];
        if (index == reader->found) {
            if (copy(other, frame, (size_t)reader->frame_bytes) < 0)
                return -1;
            bytes = other, others = 1;
        }
        reader->order[number] = index;
        met[number] = frame;
        likely = index + 1;
        frame = word_at(bytes, reader->layout->previous);
    }
    reader->length = number;
    if (others) {
        memcpy(reader->address, met, (size_t)number * sizeof *met);
        reader->found = number;
    }
    return others;
}

/* -- the code ----------------------------------------------------------------------------------------------------- */

/* Memory of code that is gone is soon that of the next one, down to its name: only the hash of that is another. */
static int copy_heads(Reader *reader, int number)
{
    for (int index = 0; index < number; index++) {
        reader->to[index] = piece(reader->head[index], HEAD_BYTES);
        reader->from[index] = piece((const void *)reader->spots[index].code, HEAD_BYTES);
    }
    if (number && copy_many(reader->to, reader->from, number) < 0)
        return -1;
    for (int index = 0; index < number; index++) {
        uintptr_t name = word_at(reader->head[index], reader->layout->name);
        reader->to[index] = piece(&reader->name_hash[index], WORD);
        reader->from[index] = piece((const void *)(name + TEXT_HASH), WORD);
    }
    return number ? copy_many(reader->to, reader->from, number) : 0;
}

static int32_t offset_of(const Reader *reader, const uint8_t *frame, uintptr_t code)
{
    const Layout *layout = reader->layout;
    if (layout->unit) {
        int32_t last = number_at(frame, layout->instruction);
        return last < 0 ? -1 : last * layout->unit;
    }
    intptr_t offset = (intptr_t)(word_at(frame, layout->instruction) - (code + (uintptr_t)layout->bytecode));
    return offset < 0 || offset > INT32_MAX ? -1 : (int32_t)offset;
}

/* The frames as spots, and the heads of their code objects. */
static int take_spots(Reader *reader)
{
    const Layout *layout = reader->layout;
    reader->depth = 0;
    for (int index = 0; index < reader->length; index++) {
        const uint8_t *frame = reader->frame[reader->order[index]];
        if (layout->owner >= 0 && frame[layout->owner] >= layout->foreign)
            continue;
        Spot *spot = &reader->spots[reader->depth++];
        spot->code = word_at(frame, layout->code);
        spot->offset = offset_of(reader, frame, spot->code);
    }
    if (copy_heads(reader, reader->depth) < 0)
        return -1;
    for (int index = 0; index < reader->depth; index++)
        if (word_at(reader->head[index], WORD) != reader->code_type)
            return -1;
    return 0;
}

/* Read the stack of the thread `ident` into `spots` and `head`; 0: it is not there, or changes too quickly. */
static int read_stack(Reader *reader, uintptr_t anchor, long long ident)
{
    reader->depth = 0;
    if (ident <= 0 || !find_thread(reader, anchor, ident))
        return 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (copy_known(reader) < 0) {
            reader->found = 0;
            if (read_state(reader, reader->thread) < 0)
                return 0;
            continue;
        }
        int others = follow(reader);
        if (others < 0)
            reader->found = 0;
        if (others == 0 && reader->length && take_spots(reader) == 0)
            return 1;
    }
    return 0;
}

#endif
