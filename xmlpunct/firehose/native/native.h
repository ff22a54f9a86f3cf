/* The types that the parts of the native reader share.
 *
 * `walk.c` walks over a split and fills rows, with `scan.c` (bytes), `tags.c` (names, namespaces, attributes), `rows.c`
 * (texts, rows) and `around.c` (values of ancestors). `values.c` reads the texts in rows, `tokens.c` finds the ends of
 * tokens, `native.c` is the Python module. */

#ifndef XMLPUNCT_NATIVE_H
#define XMLPUNCT_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* A function outside of the hot path: not inlined, so that the hot path stays small. */
#if defined(__GNUC__)
#define RARE __attribute__((noinline))
#else
#define RARE
#endif

/* Flags of a node: actions at an element, besides following the tree. The module exports them as `Flag`. */
#define FLAGS(FLAG)                                                                                                     \
    FLAG(ROW, 1)         /* it is a tuple or a punctuation */                                                           \
    FLAG(VALUE, 2)       /* its text is a value */                                                                      \
    FLAG(TEXT, 4)        /* its text is collected, as a value or for a check at its end */                              \
    FLAG(MARKS, 8)       /* it has a namespace that is not read: the slots in `below` may be missing because of that */ \
    FLAG(INTO, 16)       /* its text is part of its parent's text */                                                    \
    FLAG(NESTED, 32)     /* has the name of a tuple, inside a tuple */                                                  \
    FLAG(UNDECLARED, 64) /* not among the inferred columns; outside of tuples: a tuple's name in another namespace */   \
    FLAG(GUESSED, 128)   /* columns are inferred: undeclared attributes and text of it count as overlooked */           \
    FLAG(SAYS, 256)      /* part of a punctuation: undeclared attributes may constrain it */                            \
    FLAG(BLANK, 512)     /* part of a punctuation that holds elements and no text */                                    \
    FLAG(OPEN, 1024)     /* an undeclared part of a punctuation: constrains nothing if its text is "*" */               \
    FLAG(WRONG, 2048)    /* libxml2 must read the split */                                                              \
    FLAG(LEAF, 4096)     /* the only action is to take its text, if it is a value */                                    \
    FLAG(ITEM, 8192)     /* it is an item of an array */                                                                \
    FLAG(CHOICE, 16384)  /* an attribute or its position selects its node: `below` is the number of the condition */    \
    FLAG(OUTSIDE, 32768) /* outside of tuples and punctuations */                                                       \
    FLAG(KEPT, 65536)    /* outside, but never divided between splits */                                                \
    FLAG(SAID, 131072)   /* outside, and holds values of tuples that follow: see `below` */                             \
    FLAG(RAW, 262144)    /* the whole element, with its markup, is a value */                                           \
    FLAG(COUNTS, 524288) /* the positions of its children matter */

#define CONSTANT(name, number) name = number,
enum { FLAGS(CONSTANT) };
#undef CONSTANT

typedef struct {
    int32_t flags, slot, row, children, attributes, below, below_count, more;
} Node; /* 32 bytes, so that indexing is fast */

/* Further fields that few nodes have. An item: its row kind, its parent's row kind, and the first of its cells in the
 * tuple's row. A RAW element: its slot. */
typedef struct {
    int32_t item, above, first, raw;
} More;

/* The sizes of the types in 32-bit integers. */
#define NODE_SIZE ((int64_t)(sizeof(Node) / sizeof(int32_t)))
#define MORE_SIZE ((int64_t)(sizeof(More) / sizeof(int32_t)))
#define CONDITION_SIZE ((int64_t)(sizeof(Condition) / sizeof(int32_t)))
#define UP_SIZE ((int64_t)(sizeof(Up) / sizeof(int32_t)))

/* A name: its first 8 bytes, its offset in the tree's names, and a pattern for a tag that ends after it. */
typedef struct {
    uint64_t head, closed, mask; /* closed: the name and `>`, up to 8 bytes; mask: the bytes that closed covers */
    int32_t at, size;
} Name;

/* If an attribute has a value, an element has node `yes`, else `no`. With an empty name, `space` is the number of a
 * counter: `value` 0 increments the counter, another `value` is compared with it. */
typedef struct {
    int32_t name, name_size, space, value, value_size, yes, no;
} Condition;

/* A hash table of names, with buckets from `bucket`; an absent name leads to the node `other`. */
typedef struct {
    int32_t bucket, mask, other, first, count; /* its entries are the `count` entries from `first` */
} Table;

/* An ancestor value of tuples of a kind: of the element `levels` above the tuple, or of an element `hops` below that.
 * It is the attribute with number `around`, or a text (-1). `needed`: a tuple without it is a reject. */
typedef struct {
    int32_t kind, slot, levels, around, hops, needed;
} Up;

/* An element outside of tuples is on the path of an ancestor value: `hops` of the path lead to it. */
typedef struct {
    int32_t up, hops;
} Says;

typedef struct {
    int64_t depth, text, attribute, name, attributes, namespaces, inside, tag;
} Limits;

/* The paths of some streams as one tree, and the widths of the rows that a walk fills. */
typedef struct {
    PyObject_HEAD
    uint8_t *memory; /* one block that holds all following arrays */
    const uint8_t *names;
    Node *nodes;
    Condition *conditions;
    Table *tables;
    Name *entries;
    int32_t *targets; /* by entry and by namespace: the node, or for an attribute the slot */
    int32_t *buckets, *below, *widths, *spaces; /* spaces: by namespace, its offset in `names` and its size */
    int32_t *several;                           /* lists of slots with the same value: count, then the slots */
    int32_t *unread;                            /* by cell of all kinds, whether a second value is no fault */
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

/* A row without its cells: start and end, number of tuples before it, and whether it has undeclared constraints. */
typedef struct {
    int32_t at, end, before, dropped;
} Head;

/* The rows of one kind: heads, and cells, each an offset and a size (-1: no value). */
typedef struct {
    Buffer heads, cells;
    int32_t count;
} Rows;

typedef struct {
    const uint8_t *at;
    int32_t size;
} Span;

/* An offset and a size (-1: no value). */
typedef struct {
    int32_t start, size;
} Cell;

#define NEVER INT32_MAX

/* An ancestor value in an open element: `texts` for tuples in it, and the offset `read` of the first tuple that read
 * them. `own`: the `found` values in the element itself, which its end adds to its parent's `texts`. */
typedef struct {
    int32_t count, read, found;
    Cell texts[2], own[2]; /* two suffice, because more than one value is an error */
} Given;

/* An ancestor value of an element that is open at the beginning of the split. */
typedef struct {
    int32_t depth, up, count, read;
    Cell texts[2];
} Recalled;

/* An ancestor value that arrived after a tuple that needed it. */
typedef struct {
    int32_t kind, slot, at, end;
} Late;

/* A slot of a row with more than one value. */
typedef struct {
    int32_t kind, row, slot;
} Fault;

/* A name that is absent from the tree, with the number of its occurrences. */
typedef struct {
    int32_t node, attribute;
    Span space, local;
    int64_t count;
} Seen;

typedef struct {
    uint64_t head;
    Span name, tag;
    int32_t node, last, spaces; /* last: the last child, in `order`; spaces: number of namespaces in scope around it */
    int32_t start, size, pieces, parts; /* text so far: one piece of the split, or several in scratch; parts: children */
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

/* The name and `=` of an attribute in an earlier tag: tags with the same name mostly have the same attributes. */
typedef struct {
    uint64_t head, closed, mask;
    int32_t size;
} Hint;

#define HINTED_TAGS 16
#define HINTED 8 /* attributes of each tag */
#define DEEPEST 250 /* libxml2 refuses a nesting depth of 256 */
#define MOST_TEXT 9990000 /* libxml2 refuses texts, comments, ... of ten million bytes */
#define MOST_ATTRIBUTES 256

typedef struct {
    const Tree *tree;
    const uint8_t *data, *end;
    int64_t whole; /* the size of the split; the data may be a part of it */
    Limits limits;
    Rows *rows;
    Buffer side, spaces, faults, seen, buckets, late;
    int32_t depth, kept, first; /* open elements; at the beginning; of these, the number that never closed */
    int32_t outer, outer_at;    /* depth and offset of the outermost open tuple, punctuation or undivided element */
    int32_t row, row_at, row_fault, dropped, marked, overlooked;
    int32_t rooted, part; /* a root has begun; the data may end anywhere, and the walk stops at a root's end */
    int32_t *cells; /* of the open row */
    int64_t inside, *counts, *missed;
    int32_t *first_cell;
    uint8_t *marks;
    int32_t sound; /* the offset up to which all markup is complete */
    int32_t *order;   /* by entry, the entry that followed it last time; then by table, the first entry */
    Given *given;     /* by depth and number of the ancestor value; NULL if tuples have none */
    Cell *around;     /* by depth and number of the attribute that is an ancestor value */
    int32_t *counters;
    uint8_t holds[DEEPEST + 1]; /* by depth, whether the element holds a tuple */
    Space unprefixed; /* the default namespace */
    Attribute attributes[MOST_ATTRIBUTES]; /* of the current tag */
    Hint hints[HINTED_TAGS][HINTED];
    Buffer scratch[DEEPEST + 1];
    Open open[DEEPEST + 1];
} Walk;

/* How a walk ended: at the end of the data; inside an incomplete token; at markup that libxml2 must read; without
 * memory. */
enum { DONE, PART, PASS, NO_MEMORY };

#endif
