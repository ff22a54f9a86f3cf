/* What Python sees of the native reader: `_native.pyi` says what there is. */

#include "native.h"

#include <limits.h>
#include <stdlib.h>

/* The numbers in a buffer of 32-bit integers. */
typedef struct {
    const int32_t *at;
    int64_t count;
} Numbers;

static int32_t most(Numbers numbers, int64_t first, int64_t step)
{
    int32_t found = -1;
    for (int64_t i = first; i < numbers.count; i += step)
        if (numbers.at[i] > found)
            found = numbers.at[i];
    return found;
}

static int32_t power_of_two(int32_t least)
{
    int32_t found = 1;
    while (found < least)
        found *= 2;
    return found;
}

/* Lay out a tree; 0 without memory. */
static int build(Tree *tree, Numbers nodes, Numbers tables, Numbers entries, Numbers targets, Numbers below,
                 Numbers widths, Numbers spaces, Numbers conditions, const uint8_t *names, size_t names_size)
{
    tree->node_count = (int32_t)(nodes.count / 9);
    tree->table_count = (int32_t)(tables.count / 3);
    tree->entry_count = (int32_t)(entries.count / 2);
    tree->row_count = (int32_t)widths.count;
    tree->space_count = (int32_t)(spaces.count / 2);
    int64_t buckets = 0;
    for (int32_t i = 0; i < tree->table_count; i++)
        buckets += power_of_two(2 * tables.at[3 * i + 1] + 1);
    size_t sizes[] = {
        sizeof(Name) * (size_t)tree->entry_count,  sizeof(Node) * (size_t)tree->node_count,
        sizeof(Table) * (size_t)tree->table_count, sizeof(int32_t) * (size_t)targets.count,
        sizeof(int32_t) * (size_t)buckets,         sizeof(int32_t) * (size_t)below.count,
        sizeof(int32_t) * (size_t)widths.count,    sizeof(int32_t) * (size_t)spaces.count,
        names_size,                                sizeof(int32_t) * (size_t)conditions.count,
    };
    void *parts[sizeof sizes / sizeof *sizes];
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        total += (sizes[i] + 7) / 8 * 8;
    if (!(tree->memory = PyMem_Calloc(total + 8, 1)))
        return 0;
    for (size_t i = 0, at = 0; i < sizeof sizes / sizeof *sizes; at += (sizes[i++] + 7) / 8 * 8)
        parts[i] = tree->memory + at;
    tree->entries = parts[0];
    tree->nodes = memcpy(parts[1], nodes.at, sizes[1]);
    tree->tables = parts[2];
    tree->targets = memcpy(parts[3], targets.at, sizes[3]);
    tree->buckets = parts[4];
    tree->below = memcpy(parts[5], below.at, sizes[5]);
    tree->widths = memcpy(parts[6], widths.at, sizes[6]);
    tree->spaces = memcpy(parts[7], spaces.at, sizes[7]);
    tree->names = memcpy(parts[8], names, sizes[8]);
    tree->conditions = memcpy(parts[9], conditions.at, sizes[9]);
    memset(tree->buckets, 0xFF, sizes[4]);
    for (int32_t i = 1; i < tree->node_count; i++) {
        int32_t flags = tree->nodes[i].flags;
        if (!(flags & ~(VALUE | TEXT | SAYS)) && (flags & VALUE || !(flags & TEXT)))
            tree->nodes[i].flags |= LEAF;
    }
    for (int32_t i = 0; i < tree->row_count; i++)
        tree->cell_count += tree->widths[i];
    int32_t bucket = 0;
    for (int32_t i = 0; i < tree->table_count; i++) {
        int32_t first = tables.at[3 * i], count = tables.at[3 * i + 1];
        Table *table = tree->tables + i;
        table->bucket = bucket;
        table->mask = power_of_two(2 * count + 1) - 1;
        table->other = tables.at[3 * i + 2];
        table->first = first;
        table->count = count;
        for (int32_t j = first; j < first + count; j++) {
            Name *name = tree->entries + j;
            name->at = entries.at[2 * j];
            name->size = entries.at[2 * j + 1];
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

/* Whether all numbers of a tree lead to where something is. */
static int is_sound(Numbers nodes, Numbers tables, Numbers entries, Numbers targets, Numbers below, Numbers widths,
                    Numbers spaces, Numbers conditions, int64_t names_size)
{
    int64_t count = nodes.count / 9, names = entries.count / 2;
    if (count < 1 || nodes.count % 9 || tables.count % 3 || entries.count % 2 || spaces.count % 2
        || targets.count != names * (spaces.count / 2 + 2))
        return 0;
    if (most(nodes, 2, 9) >= widths.count || most(nodes, 3, 9) >= tables.count / 3
        || most(nodes, 4, 9) >= tables.count / 3 || most(tables, 2, 3) >= count)
        return 0;
    for (int64_t i = 0; i < names; i++)
        if (entries.at[2 * i] < 0 || entries.at[2 * i + 1] < 1 || entries.at[2 * i] + (int64_t)entries.at[2 * i + 1] > names_size)
            return 0;
    if (conditions.count % 7)
        return 0;
    for (int64_t i = 0; i < conditions.count; i += 7) {
        const int32_t *one = conditions.at + i;
        for (int j = 0; j < 7; j++)
            if (one[j] < 0)
                return 0;
        if (one[0] + (int64_t)one[1] > names_size || one[3] + (int64_t)one[4] > names_size || one[5] >= count
            || one[6] >= count || one[2] > spaces.count / 2)
            return 0;
    }
    for (int64_t i = 0; i < spaces.count; i += 2)
        if (spaces.at[i] < 0 || spaces.at[i + 1] < 1 || spaces.at[i] + (int64_t)spaces.at[i + 1] > names_size)
            return 0;
    for (int64_t i = 0; i < tables.count; i += 3)
        if (tables.at[i] < 0 || tables.at[i + 1] < 0 || tables.at[i + 2] < 0 || tables.at[i] + (int64_t)tables.at[i + 1] > names)
            return 0;
    for (int64_t i = 0; i < widths.count; i++)
        if (widths.at[i] < 0 || widths.at[i] > 1 << 20)
            return 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t *node = nodes.at + 9 * i;
        if (node[2] < 0 || node[3] < 0 || node[4] < 0 || node[5] < 0 || node[6] < 0
            || (!(node[0] & CHOICE) && node[5] + (int64_t)node[6] > below.count) || node[1] >= widths.at[node[2]])
            return 0;
        if (node[0] & CHOICE && node[5] >= conditions.count / 7)
            return 0;
        if (node[0] & CHOICE) {
            /* what it may be comes behind it, so that choices have an end */
            const int32_t *one = conditions.at + 7 * (int64_t)node[5];
            for (int j = 5; j < 7; j++)
                if (nodes.at[9 * (int64_t)one[j]] & CHOICE && one[j] <= i)
                    return 0;
        }
        if (node[7] < 0 || node[7] >= widths.count || node[8] < 0
            || (node[0] & ITEM && node[8] + (int64_t)widths.at[node[7]] > widths.at[node[2]]))
            return 0;
        for (int32_t j = 0; j < (node[0] & CHOICE ? 0 : node[6]); j++)
            if (below.at[node[5] + j] < 0 || below.at[node[5] + j] >= widths.at[node[2]])
                return 0;
        for (int which = 3; which < 5; which++) {
            const int32_t *table = tables.at + 3 * node[which];
            int64_t wide = spaces.count / 2 + 2, limit = which == 3 ? count : widths.at[node[2]];
            for (int64_t j = table[0] * wide; j < (table[0] + table[1]) * wide; j++)
                if (targets.at[j] < (which == 3 ? 0 : -1) || targets.at[j] >= limit)
                    return 0;
        }
    }
    return 1;
}

static PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    Py_buffer given[9];
    Limits limits;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*y*y*(LLLLLLLL)", given, given + 1, given + 2, given + 3, given + 4,
                          given + 5, given + 6, given + 7, given + 8, &limits.depth, &limits.text, &limits.attribute,
                          &limits.name, &limits.attributes, &limits.namespaces, &limits.inside, &limits.tag))
        return NULL;
    Numbers n[8];
    for (int i = 0; i < 8; i++) {
        n[i].at = given[i + 1].buf;
        n[i].count = given[i + 1].len / 4;
    }
    Tree *tree = NULL;
    if (!is_sound(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], given[0].len)) {
        PyErr_SetString(PyExc_ValueError, "these numbers make no tree");
    } else if ((tree = (Tree *)type->tp_alloc(type, 0))) {
        tree->limits = limits;
        if (!build(tree, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], given[0].buf, (size_t)given[0].len)) {
            Py_CLEAR(tree);
            PyErr_NoMemory();
        }
    }
    for (int i = 0; i < 9; i++)
        PyBuffer_Release(given + i);
    (void)named;
    return (PyObject *)tree;
}

static void tree_free(Tree *tree)
{
    PyMem_Free(tree->memory);
    Py_TYPE(tree)->tp_free((PyObject *)tree);
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

/* All that a walk has found, as Python objects; how far it came is from another walk over more. */
static PyObject *found_by(const Walk *w, const Walk *far)
{
    const Tree *tree = w->tree;
    PyObject *lists[6];
    int fine = 1;
    for (int i = 0; i < 6; i++)
        fine &= (lists[i] = PyList_New(0)) != NULL;
    PyObject *opened = lists[0], *rows = lists[1], *faults = lists[2], *counts = lists[3], *missed = lists[4], *seen = lists[5];
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
    PyObject *found = NULL;
    if (fine)
        found = Py_BuildValue("iiiiiOONOOOO", far->sound, far->first, far->outer ? far->outer - 1 : far->depth,
                              far->outer_at, far->rooted, opened, rows, bytes_of(&w->side), faults, counts, missed,
                              seen);
    for (int i = 0; i < 6; i++)
        Py_XDECREF(lists[i]);
    return found;
}

static PyObject *tree_walk(Tree *tree, PyObject *args)
{
    PyObject *data, *opened;
    int part;
    if (!PyArg_ParseTuple(args, "SSp", &data, &opened, &part))
        return NULL;
    int64_t whole = PyBytes_GET_SIZE(data), size = whole, open_size = PyBytes_GET_SIZE(opened);
    if (size + open_size > INT32_MAX / 2) /* places are of 32 bits */
        Py_RETURN_NONE;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(data);
    const uint8_t *before = (const uint8_t *)PyBytes_AS_STRING(opened);
    while (part && size && bytes[size - 1] != '>') /* what is cut in its middle looks wrong */
        size--;
    int status;
    Walk *far, *w;
    Py_BEGIN_ALLOW_THREADS
    far = w = walk_new(tree, bytes, size, whole, part);
    status = w ? walk(w, before, open_size) : NO_MEMORY;
    if (part && status < PASS && w->outer && w->overlooked && w->outer_at >= 0) {
        /* what was counted of the element that is not complete does not count yet */
        w = walk_new(tree, bytes, w->outer_at, whole, part);
        status = w ? walk(w, before, open_size) : NO_MEMORY;
    }
    Py_END_ALLOW_THREADS
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

static PyTypeObject TreeType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "xmlpunct.firehose._native.Tree",
    .tp_basicsize = sizeof(Tree),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = tree_new,
    .tp_dealloc = (destructor)tree_free,
    .tp_methods = tree_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, value_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddType(made, &TreeType) < 0)
        Py_CLEAR(made);
    return made;
}
