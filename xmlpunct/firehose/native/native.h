/* The native reader: what its parts know of each other.
 *
 * `walk.c` walks over a split and fills rows (`scan.h` knows bytes, `tags.h` names, namespaces and attributes, `rows.h`
 * texts and rows, `around.h` what is around tuples), `values.c` reads the texts in them, `tokens.c` only finds the ends of things, `native.c` is what Python sees. */

#ifndef XMLPUNCT_NATIVE_H
#define XMLPUNCT_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Beside the hot path: kept out of it, so that it stays small. */
#if defined(__GNUC__)
#define RARE __attribute__((noinline))
#else
#define RARE
#endif

/* What there is to do at an element, beside following the tree; `tree.py` has the same. */
enum {
    ROW = 1,         /* it is a tuple or a punctuation */
    VALUE = 2,       /* its text is a value */
    TEXT = 4,        /* its text is kept, be it only to be judged at its end */
    MARKS = 8,       /* it is in a namespace that is not read: what is below `below` is missing for that reason */
    INTO = 16,       /* its text is part of the text around it */
    NESTED = 32,     /* named as a tuple, inside one */
    UNDECLARED = 64, /* not among the columns that were guessed; outside: named as a tuple, in another namespace */
    GUESSED = 128,   /* whose attributes and text count as overlooked if they are undeclared */
    SAYS = 256,      /* part of a punctuation: attributes that nobody declared may constrain something */
    BLANK = 512,     /* part of a punctuation that holds elements and no text */
    OPEN = 1024,     /* an undeclared part of a punctuation: says nothing if it says "*" */
    WRONG = 2048,    /* not for us */
    ITEM = 8192,     /* it is an item of an array */
    CHOICE = 16384,  /* an attribute decides what it is: see the condition of number `below` */
    LEAF = 4096,     /* there is nothing to do but to take its text, if it is a value */
    OUTSIDE = 32768, /* in no tuple or punctuation */
    KEPT = 65536,    /* outside, but not cut either */
    SAID = 131072,   /* outside, and tuples behind it have something of it: see `below` */
    RAW = 262144,    /* as it stands it is a value */
    COUNTS = 524288, /* the places of elements in it matter */
};

typedef struct {
    int32_t flags, slot, row, children, attributes, below, below_count, more;
} Node; /* of 32 bytes: it is quick to find one */

/* What few nodes have: an item its kind of row, the kind that it belongs to, and the first of its cells among those of
 * the tuple; an element as it stands a slot. */
typedef struct {
    int32_t item, above, first, raw;
} More;

/* How many numbers make one of these. */
#define NODE_SIZE ((int64_t)(sizeof(Node) / sizeof(int32_t)))
#define MORE_SIZE ((int64_t)(sizeof(More) / sizeof(int32_t)))
#define CONDITION_SIZE ((int64_t)(sizeof(Condition) / sizeof(int32_t)))
#define UP_SIZE ((int64_t)(sizeof(Up) / sizeof(int32_t)))

/* A name: its first 8 bytes, and where it is among the tree's names; and how a tag ends (or goes on) that has it. */
typedef struct {
    uint64_t head, closed, mask; /* with `>` behind it, as far as 8 bytes hold it; and which bytes that are */
    int32_t at, size;
} Name;

/* Where an attribute has a value, an element is one node, else another. Without a name (of no size), `space` is the
 * number of a counter: the element is counted there if `value` is 0, else that is its place. */
typedef struct {
    int32_t name, name_size, space, value, value_size, yes, no;
} Condition;

/* Names by hash, from `bucket` on; a name that is not here leads to the node `other`. */
typedef struct {
    int32_t bucket, mask, other, first, count; /* its entries are `count` from `first` on */
} Table;

/* What tuples of a kind have in a slot from the element so many levels around them: an attribute, the one of number
 * `around` (-1: none); or `hops` below it an attribute or a text. Whether a tuple without it is no good. */
typedef struct {
    int32_t kind, slot, levels, around, hops, needed;
} Up;

/* Which value an element outside is on the way to, and how many of the hops lead to it. */
typedef struct {
    int32_t up, hops;
} Says;

typedef struct {
    int64_t depth, text, attribute, name, attributes, namespaces, inside, tag;
} Limits;

/* The paths of some streams, as one tree; and how wide the rows are that it fills. */
typedef struct {
    PyObject_HEAD
    uint8_t *memory; /* holds all that follows */
    const uint8_t *names;
    Node *nodes;
    Condition *conditions;
    Table *tables;
    Name *entries;
    int32_t *targets; /* by entry and by namespace: the node, or for an attribute the slot */
    int32_t *buckets, *below, *widths, *spaces; /* spaces: by known namespace where in `names`, and its size */
    int32_t *several;                           /* slots that have the same value: their number, and they */
    More *more;
    Up *ups;
    Says *says;
    int32_t up_count, around_count, counter_count;
    int32_t node_count, table_count, entry_count, row_count, space_count, cell_count;
    Limits limits;
} Tree;

typedef struct {
    uint8_t *at;
    size_t size, room;
} Buffer;

/* What a row is beside its cells. */
typedef struct {
    int32_t at, end, before, dropped;
} Head;

/* The rows of one kind: heads, and cells, each a place and a size (-1: none). */
typedef struct {
    Buffer heads, cells;
    int32_t count;
} Rows;

typedef struct {
    const uint8_t *at;
    int32_t size;
} Span;

/* A place, and a size (-1: none). */
typedef struct {
    int32_t start, size;
} Cell;

#define NEVER INT32_MAX

/* What an open element has given to tuples, which first `read` it in the one that begins there. Those values which it
 * has `found` in itself it will give to the element around it. */
typedef struct {
    int32_t count, read, found;
    Cell texts[2], own[2]; /* one too many is as wrong as more */
} Given;

/* What an element that is open at the beginning of the split has given before. */
typedef struct {
    int32_t depth, up, count, read;
    Cell texts[2];
} Recalled;

/* An element that tuples would have something of, had it come before them. */
typedef struct {
    int32_t kind, slot, at, end;
} Late;

/* A value of a row that is given more than once. */
typedef struct {
    int32_t kind, row, slot;
} Fault;

/* What was overlooked by a name that the tree does not know. */
typedef struct {
    int32_t node, attribute;
    Span space, local;
    int64_t count;
} Seen;

typedef struct {
    uint64_t head;
    Span name, tag;
    int32_t node, last, spaces; /* what has come last below, in `order`; how many namespaces were in scope around it */
    int32_t start, size, pieces, parts; /* its text so far: one piece of the split, or more in its scratch; elements */
} Open;

typedef struct {
    Span prefix, uri;
    int32_t space;
} Space;

typedef struct {
    Span prefix, local, value, space;
    uint64_t head;
    int32_t number; /* of its namespace */
    int odd, declares;
} Attribute;

/* An attribute's name that has been seen, with `=` behind it. Tags of one name mostly have the same attributes. */
typedef struct {
    uint64_t head, closed, mask;
    int32_t size;
} Hint;

#define HINTED_TAGS 16
#define HINTED 8 /* attributes of each */
#define DEEPEST 250 /* libxml2 refuses what is nested 256 deep */
#define MOST_TEXT 9990000 /* and texts, comments, ... of ten million */
#define MOST_ATTRIBUTES 256

typedef struct {
    const Tree *tree;
    const uint8_t *data, *end;
    int64_t whole; /* the size of the split, of which the data may be a part */
    Limits limits;
    Rows *rows;
    Buffer side, spaces, faults, seen, buckets, late;
    int32_t depth, kept, first; /* open elements; those at the beginning; how many of them are open still */
    int32_t outer, outer_at;    /* the outermost tuple, punctuation, ... that is open: at which depth, and where */
    int32_t row, row_at, row_fault, dropped, marked, overlooked;
    int32_t rooted, part; /* whether there has been a root; whether the data may end anywhere, and a root's end ends it */
    int32_t *cells; /* of the row that is open */
    int64_t inside, *counts, *missed;
    int32_t *first_cell;
    uint8_t *marks;
    int32_t sound; /* where all that comes before is complete */
    int32_t *order;   /* by entry which one came behind it last time; then by table which one came first */
    Given *given;     /* by depth and number of what tuples have of it; NULL if they have nothing */
    Cell *around;     /* attributes, in the same way */
    int32_t *counters;
    uint8_t holds[DEEPEST + 1]; /* whether there is a tuple in it */
    Space unprefixed; /* what names without a prefix are in */
    Attribute attributes[MOST_ATTRIBUTES]; /* of the tag that is being read */
    Hint hints[HINTED_TAGS][HINTED];
    Buffer scratch[DEEPEST + 1];
    Open open[DEEPEST + 1];
} Walk;

/* How a walk ended: at the end of the data; inside something that is not complete; where it does not decide;
 * without memory. */
enum { DONE, PART, PASS, NO_MEMORY };

#endif
