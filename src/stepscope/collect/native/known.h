/* The code objects and stacks that a sampler has seen: numbers, and copies of what describes a code object, taken while
 * it runs. No reference is held, so another code object may come to lie where one was: its fields tell them apart. */

#ifndef STEPSCOPE_COLLECT_KNOWN_H
#define STEPSCOPE_COLLECT_KNOWN_H

#include "stacks.h"
#include <stdlib.h>

enum { MOST_CODES = 20000, MOST_STACKS = 20000, LONGEST_TEXT = 4096, LONGEST_CODE = 1 << 20, FILE_NAME = 0, NAME, QUALNAME, LINES, BYTECODE, TEXTS };

typedef struct {
    uintptr_t address, file, name, name_hash, lines;
    int32_t first_line;
    int32_t number;
} Code;

/* Copies for Python to read; `width` of the characters of the first three. */
typedef struct {
    uint8_t *text[TEXTS];
    size_t size[TEXTS];
    int width[TEXTS];
    int32_t first_line;
} Copied;

typedef struct {
    uint64_t hash;
    uint32_t start, length; /* of its pairs of code number and offset */
    int32_t id;             /* the id it is written with; a negative one: not at all */
} Stack;

typedef struct {
    Code *codes;
    Copied *copies; /* those that Python has not read yet, from `told_codes` on */
    Stack *stacks;
    int32_t *pairs;
    uint32_t *code_slots, *stack_slots; /* number + 1, at its hash or behind it */
    uint32_t code_count, told_codes, stack_count, told_stacks, pair_count, pair_room;
} Known;

enum { CODE_SLOTS = 1 << 16, STACK_SLOTS = 1 << 16 }; /* more than twice as many as are kept */

static int known_make(Known *known)
{
    known->codes = calloc(MOST_CODES, sizeof *known->codes);
    known->copies = calloc(MOST_CODES, sizeof *known->copies);
    known->stacks = calloc(MOST_STACKS, sizeof *known->stacks);
    known->code_slots = calloc(CODE_SLOTS, sizeof *known->code_slots);
    known->stack_slots = calloc(STACK_SLOTS, sizeof *known->stack_slots);
    return known->codes && known->copies && known->stacks && known->code_slots && known->stack_slots ? 0 : -1;
}

static void free_copied(Copied *copied)
{
    for (int index = 0; index < TEXTS; index++)
        free(copied->text[index]);
    memset(copied, 0, sizeof *copied);
}

/* Forget all; what is learnt from now on is told anew. */
static void known_clear(Known *known)
{
    for (uint32_t index = 0; known->copies && index < known->code_count; index++)
        free_copied(&known->copies[index]);
    if (known->code_count)
        memset(known->code_slots, 0, CODE_SLOTS * sizeof *known->code_slots);
    if (known->stack_count)
        memset(known->stack_slots, 0, STACK_SLOTS * sizeof *known->stack_slots);
    known->code_count = known->told_codes = known->stack_count = known->told_stacks = known->pair_count = 0;
}

static void known_free(Known *known)
{
    known_clear(known);
    free(known->codes), free(known->copies), free(known->stacks), free(known->pairs);
    free(known->code_slots), free(known->stack_slots);
    memset(known, 0, sizeof *known);
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* -- code --------------------------------------------------------------------------------------------------------- */

static int copy_out(Copied *copied, int which, uintptr_t from, size_t size, size_t most)
{
    if (size > most)
        return -1;
    copied->size[which] = size;
    copied->text[which] = malloc(size + 1);
    return copied->text[which] && (size == 0 || copy(copied->text[which], from, size) == 0) ? 0 : -1;
}

/* A str: what the bits of `state` mean is the same from 3.9 to 3.13. */
static int copy_text(const Layout *layout, Copied *copied, int which, uintptr_t text)
{
    uint8_t head[TEXT_STATE + 4];
    if (copy(head, text, sizeof head) < 0)
        return -1;
    uint32_t state = (uint32_t)number_at(head, TEXT_STATE);
    int width = (int)(state >> 2 & 7), compact = state >> 5 & 1, ascii = state >> 6 & 1;
    size_t length = word_at(head, SIZE_OF);
    if (!compact || !(width == 1 || width == 2 || width == 4) || length > LONGEST_TEXT)
        return -1;
    copied->width[which] = width;
    uintptr_t from = text + (uintptr_t)(ascii ? layout->ascii : layout->wide);
    return copy_out(copied, which, from, length * (size_t)width, LONGEST_TEXT);
}

static int copy_bytes(Copied *copied, int which, uintptr_t object)
{
    uint8_t head[BYTES_BEGIN];
    if (copy(head, object, sizeof head) < 0)
        return -1;
    return copy_out(copied, which, object + BYTES_BEGIN, word_at(head, SIZE_OF), LONGEST_CODE);
}

static int copy_bytecode(const Layout *layout, Copied *copied, const uint8_t *head, uintptr_t address)
{
    if (layout->unit)
        return copy_bytes(copied, BYTECODE, word_at(head, layout->bytecode));
    return copy_out(copied, BYTECODE, address + (uintptr_t)layout->bytecode, 2 * word_at(head, SIZE_OF), LONGEST_CODE);
}

static int learn_code(Known *known, const Layout *layout, const uint8_t *head, const Code *code, uint32_t slot)
{
    Copied *copied = &known->copies[known->code_count];
    copied->first_line = code->first_line;
    if (copy_text(layout, copied, FILE_NAME, code->file) < 0 || copy_text(layout, copied, NAME, code->name) < 0 ||
        copy_text(layout, copied, QUALNAME, word_at(head, layout->qualname)) < 0 ||
        copy_bytes(copied, LINES, code->lines) < 0 || copy_bytecode(layout, copied, head, code->address) < 0) {
        free_copied(copied);
        return -1;
    }
    known->codes[known->code_count] = *code;
    known->codes[known->code_count].number = (int32_t)known->code_count;
    known->code_slots[slot] = ++known->code_count;
    return (int32_t)known->code_count - 1;
}

static int same_code(const Code *one, const Code *other)
{
    return one->address == other->address && one->file == other->file && one->name == other->name &&
           one->name_hash == other->name_hash && one->lines == other->lines && one->first_line == other->first_line;
}

/* The number of the code object of a spot; -1: it cannot be known. */
static int number_of_code(Known *known, const Reader *reader, int spot)
{
    const Layout *layout = reader->layout;
    const uint8_t *head = reader->head[spot];
    Code code = {reader->spots[spot].code, word_at(head, layout->file), word_at(head, layout->name),
                 reader->name_hash[spot], word_at(head, layout->lines), number_at(head, layout->first_line), 0};
    uint32_t slot = (uint32_t)(mixed(mixed(code.name_hash, code.address), code.lines) % CODE_SLOTS);
    while (known->code_slots[slot]) {
        const Code *other = &known->codes[known->code_slots[slot] - 1];
        if (same_code(other, &code))
            return other->number;
        slot = (slot + 1) % CODE_SLOTS;
    }
    return known->code_count < MOST_CODES ? learn_code(known, layout, head, &code, slot) : -1;
}

/* -- stacks ------------------------------------------------------------------------------------------------------- */

static int room_for(Known *known, uint32_t pairs)
{
    if (known->pair_count + pairs <= known->pair_room)
        return 0;
    uint32_t room = 2 * known->pair_room + pairs + 4096;
    int32_t *grown = realloc(known->pairs, (size_t)room * 2 * sizeof *grown);
    if (!grown)
        return -1;
    known->pairs = grown;
    known->pair_room = room;
    return 0;
}

static int same_stack(const Known *known, const Stack *stack, uint64_t hash, uint32_t length, const int32_t *pairs)
{
    return stack->hash == hash && stack->length == length &&
           memcmp(known->pairs + 2 * (size_t)stack->start, pairs, (size_t)length * 2 * sizeof *pairs) == 0;
}

/* The number of the stack that `reader` has read, from the innermost to `within`, exclusive; -1: cannot be known.
 * Where `within` does not run the stack is empty. */
static int number_of_stack(Known *known, const Reader *reader, uintptr_t within)
{
    int depth = 0;
    while (depth < reader->depth && reader->spots[depth].code != within)
        depth++;
    if (within && depth == reader->depth)
        depth = 0;
    if (room_for(known, (uint32_t)depth) < 0)
        return -1;
    int32_t *pairs = known->pairs + 2 * (size_t)known->pair_count;
    uint64_t hash = (uint64_t)depth;
    for (int index = 0; index < depth; index++) {
        const Spot *spot = &reader->spots[index];
        int number = number_of_code(known, reader, index);
        if (number < 0)
            return -1;
        pairs[2 * index] = number, pairs[2 * index + 1] = spot->offset;
        hash = mixed(mixed(hash, (uint64_t)number), (uint64_t)(uint32_t)spot->offset);
    }
    uint32_t slot = (uint32_t)(hash % STACK_SLOTS);
    while (known->stack_slots[slot]) {
        if (same_stack(known, &known->stacks[known->stack_slots[slot] - 1], hash, (uint32_t)depth, pairs))
            return (int)known->stack_slots[slot] - 1;
        slot = (slot + 1) % STACK_SLOTS;
    }
    if (known->stack_count >= MOST_STACKS)
        return -1;
    Stack stack = {hash, known->pair_count, (uint32_t)depth, -1};
    known->stacks[known->stack_count] = stack;
    known->pair_count += (uint32_t)depth;
    known->stack_slots[slot] = ++known->stack_count;
    return (int)known->stack_count - 1;
}

#endif
