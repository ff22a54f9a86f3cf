/* The Python module of the native reader; its functions are declared in `_native.pyi`. */

#include "native.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The reader is one translation unit, so that the compiler inlines across its parts. Each part uses earlier parts. */
#include "scan.c"
#include "tags.c"
#include "rows.c"
#include "around.c"
#include "walk.c"
#include "tokens.c"
#include "values.c"

/* The numbers in a buffer of 32-bit integers. */
typedef struct {
    const int32_t *at;
    int64_t count;
} Numbers;

/* The arrays of a tree, as laid out by `automaton_tables.py`. */
typedef struct {
    Numbers nodes, tables, entries, targets, below, widths, spaces, conditions, ups, says, several, more, unread;
} Parts;

static int32_t power_of_two(int32_t least)
{
    int32_t found = 1;
    while (found < least)
        found *= 2;
    return found;
}

/* Build a tree from its arrays; 0 without memory. */
static int build(Tree *tree, const Parts *p, const uint8_t *names, size_t names_size)
{
    tree->node_count = (int32_t)(p->nodes.count / NODE_SIZE);
    tree->table_count = (int32_t)(p->tables.count / 3);
    tree->entry_count = (int32_t)(p->entries.count / 2);
    tree->row_count = (int32_t)p->widths.count;
    tree->space_count = (int32_t)(p->spaces.count / 2);
    tree->up_count = (int32_t)(p->ups.count / UP_SIZE);
    int64_t buckets = 0;
    for (int32_t i = 0; i < tree->table_count; i++)
        buckets += power_of_two(2 * p->tables.at[3 * i + 1] + 1);
    const Numbers given[] = {p->nodes, p->targets, p->below, p->widths, p->spaces, p->conditions, p->ups, p->says, p->several,
                             p->more,    p->unread};
    void *parts[sizeof given / sizeof *given];
    size_t sizes[] = {sizeof(Name) * (size_t)tree->entry_count, sizeof(Table) * (size_t)tree->table_count,
                      sizeof(int32_t) * (size_t)buckets, names_size};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        total += (sizes[i] + 7) / 8 * 8;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        total += ((size_t)given[i].count + 1) / 2 * 8;
    if (!(tree->memory = PyMem_Calloc(total + 8, 1)))
        return 0;
    uint8_t *at = tree->memory;
    for (size_t i = 0; i < sizeof given / sizeof *given; at += ((size_t)given[i++].count + 1) / 2 * 8)
        parts[i] = memcpy(at, given[i].at, sizeof(int32_t) * (size_t)given[i].count);
    tree->nodes = parts[0];
    tree->targets = parts[1];
    tree->below = parts[2];
    tree->widths = parts[3];
    tree->spaces = parts[4];
    tree->conditions = parts[5];
    tree->ups = parts[6];
    tree->says = parts[7];
    tree->several = parts[8];
    tree->more = parts[9];
    tree->unread = parts[10];
    tree->entries = (Name *)at;
    tree->tables = (Table *)(at += (sizes[0] + 7) / 8 * 8);
    tree->buckets = (int32_t *)(at += (sizes[1] + 7) / 8 * 8);
    tree->names = memcpy(at + (sizes[2] + 7) / 8 * 8, names, names_size);
    memset(tree->buckets, 0xFF, sizes[2]);
    for (int32_t i = 1; i < tree->node_count; i++) {
        int32_t flags = tree->nodes[i].flags;
        if (!(flags & ~(VALUE | TEXT | SAYS)) && (flags & VALUE ? tree->nodes[i].slot >= 0 : !(flags & TEXT)))
            tree->nodes[i].flags |= LEAF;
    }
    for (int32_t i = 0; i < tree->row_count; i++)
        tree->cell_count += tree->widths[i];
    int32_t bucket = 0;
    for (int32_t i = 0; i < tree->table_count; i++) {
        int32_t first = p->tables.at[3 * i], count = p->tables.at[3 * i + 1];
        Table *table = tree->tables + i;
        table->bucket = bucket;
        table->mask = power_of_two(2 * count + 1) - 1;
        table->other = p->tables.at[3 * i + 2];
        table->first = first;
        table->count = count;
        for (int32_t j = first; j < first + count; j++) {
            Name *name = tree->entries + j;
            name->at = p->entries.at[2 * j];
            name->size = p->entries.at[2 * j + 1];
            const uint8_t *text = tree->names + name->at;
            name->head = load(text, text + name->size);
            name->mask = first_bytes(name->size + 1);
            name->closed = name->head | (name->mask & ~first_bytes(name->size) & EVERY('>'));
            uint32_t place = name_hash(name->head, text, name->size);
            while (tree->buckets[bucket + (int32_t)(place & (uint32_t)table->mask)] >= 0)
                place++;
            tree->buckets[bucket + (int32_t)(place & (uint32_t)table->mask)] = j;
        }
        bucket += table->mask + 1;
    }
    return 1;
}

/* True if a slot, or each slot of the list that a number below -1 refers to, is in rows of this width. */
static int is_slot(Numbers several, int32_t slot, int32_t width)
{
    if (slot >= -1)
        return slot < width;
    int64_t at = -(int64_t)slot - 2;
    if (at >= several.count || several.at[at] < 0 || at + several.at[at] >= several.count)
        return 0;
    for (int32_t i = 1; i <= several.at[at]; i++)
        if (several.at[at + i] < 0 || several.at[at + i] >= width)
            return 0;
    return 1;
}

/* True if the range of `size` elements from `at` is within `count` elements. */
static int is_within(int64_t at, int64_t size, int64_t count)
{
    return at >= 0 && size >= 0 && at + size <= count;
}

/* True if all indices in a node are valid; its tables were checked before. */
static int is_node(const Parts *p, int64_t number, int32_t around)
{
    const Node *nodes = (const Node *)p->nodes.at, *node = nodes + number;
    int64_t count = p->nodes.count / NODE_SIZE;
    if (node->row < 0 || node->row >= p->widths.count || node->children < 0 || node->attributes < 0
        || node->children >= p->tables.count / 3 || node->attributes >= p->tables.count / 3)
        return 0;
    int32_t width = p->widths.at[node->row];
    if (!is_slot(p->several, node->slot, width) || (node->flags & VALUE && node->slot == -1)
        || !is_within(node->more, 1, p->more.count / MORE_SIZE))
        return 0;
    const More *more = (const More *)p->more.at + node->more;
    if (node->flags & RAW && !is_within(more->raw, 1, width))
        return 0;
    if (node->flags & ITEM
        && (!is_within(more->item, 1, p->widths.count) || !is_within(more->above, 1, p->widths.count)
            || !is_within(more->first, p->widths.at[more->item], width)))
        return 0;
    if (node->flags & CHOICE) {
        /* a choice leads to later choices only, so that they terminate */
        if (!is_within(node->below, 1, p->conditions.count / CONDITION_SIZE))
            return 0;
        const Condition *one = (const Condition *)p->conditions.at + node->below;
        return !(nodes[one->yes].flags & CHOICE && one->yes <= number) && !(nodes[one->no].flags & CHOICE && one->no <= number);
    }
    int is_outside = node->flags & OUTSIDE;
    if (!is_within(node->below, node->below_count, is_outside ? p->says.count / 2 : p->below.count))
        return 0;
    for (int32_t i = 0; !is_outside && i < node->below_count; i++)
        if (p->below.at[node->below + i] < 0 || p->below.at[node->below + i] >= width)
            return 0;
    for (int which = 0; which < 2; which++) {
        const int32_t *table = p->tables.at + 3 * (which ? node->attributes : node->children);
        int64_t wide = p->spaces.count / 2 + 2;
        for (int64_t i = table[0] * wide; i < (table[0] + (int64_t)table[1]) * wide; i++) {
            int32_t target = p->targets.at[i];
            if (!which ? target < 0 || target >= count
                       : is_outside ? target < -1 || target >= around : !is_slot(p->several, target, width))
                return 0;
        }
    }
    return 1;
}

/* True if all indices in a tree are valid. */
static int is_sound(const Parts *p, int64_t names_size, int32_t around, int32_t counters)
{
    int64_t count = p->nodes.count / NODE_SIZE, names = p->entries.count / 2, space_count = p->spaces.count / 2;
    if (count < 1 || p->nodes.count % NODE_SIZE || p->tables.count % 3 || p->entries.count % 2 || p->spaces.count % 2
        || p->conditions.count % CONDITION_SIZE || p->ups.count % UP_SIZE || p->says.count % 2
        || p->targets.count != names * (space_count + 2) || around < 0 || counters < 0)
        return 0;
    for (int64_t i = 0; i < names; i++)
        if (p->entries.at[2 * i + 1] < 1 || !is_within(p->entries.at[2 * i], p->entries.at[2 * i + 1], names_size))
            return 0;
    for (int64_t i = 0; i < space_count; i++)
        if (p->spaces.at[2 * i + 1] < 1 || !is_within(p->spaces.at[2 * i], p->spaces.at[2 * i + 1], names_size))
            return 0;
    for (int64_t i = 0; i < p->conditions.count / CONDITION_SIZE; i++) {
        const Condition *one = (const Condition *)p->conditions.at + i;
        if (!is_within(one->name, one->name_size, names_size) || !is_within(one->yes, 1, count)
            || !is_within(one->no, 1, count) || one->value < 0 || one->space < 0)
            return 0;
        if (one->name_size ? !is_within(one->value, one->value_size, names_size) || one->space > space_count
                           : one->space >= counters)
            return 0;
    }
    for (int64_t i = 0; i < p->tables.count; i += 3)
        if (!is_within(p->tables.at[i], p->tables.at[i + 1], names) || !is_within(p->tables.at[i + 2], 1, count))
            return 0;
    int64_t cells = 0;
    for (int64_t i = 0; i < p->widths.count; cells += p->widths.at[i++])
        if (p->widths.at[i] < 0 || p->widths.at[i] > 1 << 20)
            return 0;
    if (p->unread.count != cells)
        return 0;
    for (int64_t i = 0; i < p->ups.count / UP_SIZE; i++) {
        const Up *up = (const Up *)p->ups.at + i;
        if (!is_within(up->kind, 1, p->widths.count) || !is_within(up->slot, 1, p->widths.at[up->kind]) || up->levels < 1
            || up->around < -1 || up->around >= around || up->hops < 0 || (!up->hops && up->around < 0))
            return 0;
    }
    for (int64_t i = 0; i < p->says.count / 2; i++) {
        const Says *says = (const Says *)p->says.at + i;
        if (!is_within(says->up, 1, p->ups.count / UP_SIZE) || says->hops < 1 || says->hops > DEEPEST)
            return 0;
    }
    for (int64_t i = 0; i < count; i++)
        if (!is_node(p, i, around))
            return 0;
    return 1;
}

static PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    Py_buffer given[14], *g = given;
    Limits limits;
    int around, counters;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*y*y*y*y*y*y*y*(ii)(LLLLLLLL)", g, g + 1, g + 2, g + 3, g + 4, g + 5, g + 6,
                          g + 7, g + 8, g + 9, g + 10, g + 11, g + 12, g + 13, &around, &counters, &limits.depth, &limits.text,
                          &limits.attribute, &limits.name, &limits.attributes, &limits.namespaces, &limits.inside,
                          &limits.tag))
        return NULL;
    Numbers n[13];
    for (int i = 0; i < 13; i++) {
        n[i].at = given[i + 1].buf;
        n[i].count = given[i + 1].len / 4;
    }
    Parts parts = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12]};
    Tree *tree = NULL;
    if (!is_sound(&parts, given[0].len, around, counters)) {
        PyErr_SetString(PyExc_ValueError, "these numbers make no tree");
    } else if ((tree = (Tree *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0))) {
        tree->limits = limits;
        tree->around_count = around;
        tree->counter_count = counters;
        if (!build(tree, &parts, given[0].buf, (size_t)given[0].len)) {
            Py_CLEAR(tree);
            PyErr_NoMemory();
        }
    }
    for (int i = 0; i < 14; i++)
        PyBuffer_Release(given + i);
    (void)named;
    return (PyObject *)tree;
}

static void tree_free(Tree *tree)
{
    PyTypeObject *type = Py_TYPE((PyObject *)tree);
    PyMem_Free(tree->memory);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(tree);
    Py_DECREF(type);
}

static PyObject *bytes_of(const Buffer *buffer)
{
    return PyBytes_FromStringAndSize((const char *)buffer->at, (Py_ssize_t)buffer->size);
}

/* An expanded name. */
static PyObject *name_of(Span space, Span local)
{
    char *text = PyMem_Malloc((size_t)space.size + (size_t)local.size + 2);
    if (!text)
        return PyErr_NoMemory();
    size_t size = 0;
    if (space.size) {
        text[size++] = '{';
        memcpy(text + size, space.at, (size_t)space.size);
        size += (size_t)space.size;
        text[size++] = '}';
    }
    memcpy(text + size, local.at, (size_t)local.size);
    PyObject *found = PyUnicode_DecodeUTF8(text, (Py_ssize_t)(size + (size_t)local.size), NULL);
    PyMem_Free(text);
    return found;
}

static int put(PyObject *list, PyObject *item)
{
    int found = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return found == 0;
}

/* The result of a walk as Python objects; how far it came is taken from `far`, another walk over more data. */
static PyObject *found_by(const Walk *w, const Walk *far)
{
    const Tree *tree = w->tree;
    PyObject *lists[8];
    int fine = 1;
    for (int i = 0; i < 8; i++)
        fine &= (lists[i] = PyList_New(0)) != NULL;
    PyObject *opened = lists[0], *rows = lists[1], *faults = lists[2], *counts = lists[3], *missed = lists[4], *seen = lists[5];
    PyObject *late = lists[6], *said = lists[7];
    int32_t outside = far->outer ? far->outer - 1 : far->depth;
    for (int32_t i = far->first; fine && i < far->depth; i++)
        fine = put(opened, Py_BuildValue("ii", (int)(far->open[i].tag.at - far->data), (int)far->open[i].tag.size));
    for (int32_t i = 0; fine && i < tree->row_count; i++) {
        Rows *of = w->rows + i;
        fine = put(rows, Py_BuildValue("NN", bytes_of(&of->heads), bytes_of(&of->cells)));
        fine = fine && put(counts, PyLong_FromLongLong(w->counts[i]));
    }
    for (int32_t i = 0; fine && i < tree->cell_count; i++)
        fine = put(missed, PyLong_FromLongLong(w->missed[i]));
    const Fault *fault = (const Fault *)w->faults.at;
    for (size_t i = 0; fine && i < w->faults.size / sizeof *fault; i++, fault++) {
        if (fault->row < w->rows[fault->kind].count)
            fine = put(faults, Py_BuildValue("iii", fault->kind, fault->row, fault->slot));
    }
    const Seen *name = (const Seen *)w->seen.at;
    for (size_t i = 0; fine && i < w->seen.size / sizeof *name; i++, name++)
        fine = put(seen, Py_BuildValue("iiNL", name->node, name->attribute, name_of(name->space, name->local), name->count));
    const Late *behind = (const Late *)w->late.at;
    for (size_t i = 0; fine && i < w->late.size / sizeof *behind; i++, behind++)
        fine = put(late, Py_BuildValue("iiii", behind->kind, behind->slot, behind->at, behind->end));
    for (int32_t i = 0; fine && i < (w->given ? outside * tree->up_count : 0); i++) {
        const Given *given = w->given + i; /* reads by the incomplete tuple do not count */
        int is_read = given->read < (w->outer ? w->outer_at : NEVER);
        if (given->count || is_read)
            fine = put(said, Py_BuildValue("iiiiiiii", i / tree->up_count, i % tree->up_count, given->count, is_read,
                                           given->texts[0].start, given->texts[0].size, given->texts[1].start,
                                           given->texts[1].size));
    }
    PyObject *found = NULL;
    if (fine)
        found = Py_BuildValue("iiiiiOONOOOOOO", far->sound, far->first, outside, far->outer_at, far->rooted, opened,
                              rows, bytes_of(&w->side), faults, counts, missed, seen, late, said);
    for (int i = 0; i < 8; i++)
        Py_XDECREF(lists[i]);
    return found;
}

static PyObject *tree_walk(Tree *tree, PyObject *args)
{
    PyObject *data, *opened;
    Py_buffer said, texts;
    int part;
    if (!PyArg_ParseTuple(args, "SSpy*y*", &data, &opened, &part, &said, &texts))
        return NULL;
    int64_t whole = PyBytes_Size(data), size = whole, open_size = PyBytes_Size(opened);
    int64_t said_count = said.len / (int64_t)sizeof(Recalled);
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(data);
    const uint8_t *before = (const uint8_t *)PyBytes_AsString(opened);
    while (part && size && bytes[size - 1] != '>') /* a token cut in its middle looks malformed */
        size--;
    int status = PASS;
    Walk *far = NULL, *w = NULL;
    if (size + open_size + texts.len > INT32_MAX / 2) /* offsets have 32 bits */
        goto done;
    Py_BEGIN_ALLOW_THREADS
    far = w = walk_new(tree, bytes, size, whole, part);
    status = w ? walk(w, before, open_size, said.buf, said_count, texts.buf, texts.len) : NO_MEMORY;
    if (part && status < PASS && w->outer && w->overlooked && w->outer_at >= 0) {
        /* the counts must not include the incomplete element */
        w = walk_new(tree, bytes, w->outer_at, whole, part);
        status = w ? walk(w, before, open_size, said.buf, said_count, texts.buf, texts.len) : NO_MEMORY;
    }
    Py_END_ALLOW_THREADS
done:
    PyBuffer_Release(&said);
    PyBuffer_Release(&texts);
    PyObject *found = NULL;
    if (status == NO_MEMORY)
        PyErr_NoMemory();
    else if (status == PASS || (!part && (status == PART || w->outer)))
        found = Py_NewRef(Py_None);
    else
        found = found_by(w, far);
    if (w && w != far)
        walk_free(w);
    if (far)
        walk_free(far);
    return found;
}

static PyMethodDef tree_methods[] = {{"walk", (PyCFunction)tree_walk, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot tree_slots[] = {
    {Py_tp_new, tree_new},
    {Py_tp_dealloc, tree_free},
    {Py_tp_methods, tree_methods},
    {0, NULL},
};

static PyType_Spec tree_spec = {
    .name = "xmlpunct.firehose.native._native.Tree",
    .basicsize = sizeof(Tree),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = tree_slots,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, value_methods, NULL, NULL, NULL, NULL};

static PyType_Slot flag_slots[] = {{Py_tp_doc, "Flags of a node, by name."}, {0, NULL}};

static PyType_Spec flag_spec = {
    .name = "xmlpunct.firehose.native._native.Flag",
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = flag_slots,
};

#define NAMED(name, number) {#name, number},
static const struct {
    const char *name;
    long number;
} flags[] = {FLAGS(NAMED)};
#undef NAMED

/* A class with the flags as attributes. */
static PyObject *flag_type(void)
{
    PyObject *type = PyType_FromSpec(&flag_spec);
    for (size_t i = 0; type && i < sizeof flags / sizeof *flags; i++) {
        PyObject *number = PyLong_FromLong(flags[i].number);
        if (!number || PyObject_SetAttrString(type, flags[i].name, number) < 0)
            Py_CLEAR(type);
        Py_XDECREF(number);
    }
    return type;
}

static int add_type(PyObject *to, const char *name, PyObject *type)
{
    int status = type ? PyModule_AddObjectRef(to, name, type) : -1;
    Py_XDECREF(type);
    return status == 0;
}

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && !(add_type(made, "Tree", PyType_FromSpec(&tree_spec)) && add_type(made, "Flag", flag_type())))
        Py_CLEAR(made);
    return made;
}
