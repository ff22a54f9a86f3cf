/* A hash index: which rows have a hash, in the order in which they were added.
 *
 * Open addressing with linear probing. A slot holds one row's number, or says where the list of several begins: most
 * keys have one row, and cost one slot. Slots are taken out by shifting those behind them, so nothing is left of what
 * is gone. `hash_index.py` says what each method does, and does it with sorted runs where this could not be
 * compiled. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY INT64_MIN
#define FIRST_ROOM 64
#define AHEAD 12 /* fetch slots so many hashes ahead, not to wait for memory (scaling.py --only large) */

#if defined(__GNUC__)
#define FETCH(slot) __builtin_prefetch(slot)
#else
#define FETCH(slot) ((void)(slot))
#endif

typedef struct {
    uint64_t hash;
    int64_t row; /* a row's number; ~list of several; EMPTY */
} Slot;

typedef struct {
    int64_t row, next; /* `next` is -1 at the end, and chains what is free */
} Entry;

typedef struct {
    int64_t first, last; /* entries; of a free list, `first` is the next free one */
} List;

typedef struct {
    PyObject_HEAD
    Slot *slots;
    int64_t capacity, used; /* slots: a power of two of them, and how many are taken */
    Entry *entries;
    int64_t entry_room, entry_count, free_entry;
    List *lists;
    int64_t list_room, list_count, free_list;
    int64_t rows;
} Index;

/* The slot of a hash, or the empty one where it would be. */
static int64_t find(const Index *self, uint64_t hash)
{
    int64_t mask = self->capacity - 1, at = (int64_t)(hash & (uint64_t)mask);
    while (self->slots[at].row != EMPTY && self->slots[at].hash != hash)
        at = (at + 1) & mask;
    return at;
}

/* Ask for the slot of the hash `AHEAD` places behind `at`. */
static void fetch(const Index *self, const uint64_t *hashes, int64_t at, int64_t count)
{
    if (at + AHEAD < count)
        FETCH(&self->slots[hashes[at + AHEAD] & (uint64_t)(self->capacity - 1)]);
}

static int resize(Index *self, int64_t capacity)
{
    Slot *old = self->slots, *slots = malloc((size_t)capacity * sizeof(Slot));
    if (!slots)
        return 0;
    int64_t before = self->capacity;
    for (int64_t i = 0; i < capacity; i++)
        slots[i].row = EMPTY;
    self->slots = slots;
    self->capacity = capacity;
    for (int64_t i = 0; i < before; i++)
        if (old[i].row != EMPTY)
            slots[find(self, old[i].hash)] = old[i];
    free(old);
    return 1;
}

/* Take out a slot, and shift back those behind it that could no longer be found. */
static void take_out(Index *self, int64_t at)
{
    int64_t mask = self->capacity - 1, next = at;
    for (;;) {
        next = (next + 1) & mask;
        if (self->slots[next].row == EMPTY)
            break;
        int64_t home = (int64_t)(self->slots[next].hash & (uint64_t)mask);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            self->slots[at] = self->slots[next];
            at = next;
        }
    }
    self->slots[at].row = EMPTY;
    self->used--;
}

static int64_t new_entry(Index *self, int64_t row)
{
    int64_t at = self->free_entry;
    if (at >= 0) {
        self->free_entry = self->entries[at].next;
    } else {
        if (self->entry_count == self->entry_room) {
            int64_t room = self->entry_room ? 2 * self->entry_room : FIRST_ROOM;
            Entry *grown = realloc(self->entries, (size_t)room * sizeof(Entry));
            if (!grown)
                return -1;
            self->entries = grown;
            self->entry_room = room;
        }
        at = self->entry_count++;
    }
    self->entries[at] = (Entry){row, -1};
    return at;
}

static void free_entry(Index *self, int64_t at)
{
    self->entries[at].next = self->free_entry;
    self->free_entry = at;
}

static int64_t new_list(Index *self)
{
    int64_t at = self->free_list;
    if (at >= 0) {
        self->free_list = self->lists[at].first;
        return at;
    }
    if (self->list_count == self->list_room) {
        int64_t room = self->list_room ? 2 * self->list_room : FIRST_ROOM;
        List *grown = realloc(self->lists, (size_t)room * sizeof(List));
        if (!grown)
            return -1;
        self->lists = grown;
        self->list_room = room;
    }
    return self->list_count++;
}

static void free_list(Index *self, int64_t at)
{
    self->lists[at].first = self->free_list;
    self->free_list = at;
}

/* Make room for as many more slots. */
static int reserve(Index *self, int64_t more)
{
    int64_t capacity = self->capacity;
    while (3 * (self->used + more) > 2 * capacity)
        capacity *= 2;
    return capacity == self->capacity || resize(self, capacity);
}

/* Add a row where there is room for it. */
static int add_one(Index *self, uint64_t hash, int64_t row)
{
    Slot *slot = &self->slots[find(self, hash)];
    if (slot->row == EMPTY) {
        *slot = (Slot){hash, row};
        self->used++;
    } else if (slot->row >= 0) {
        int64_t list = new_list(self), first = list < 0 ? -1 : new_entry(self, slot->row);
        int64_t last = first < 0 ? -1 : new_entry(self, row);
        if (last < 0)
            return 0;
        self->entries[first].next = last;
        self->lists[list] = (List){first, last};
        slot->row = ~list;
    } else {
        List *list = &self->lists[~slot->row];
        int64_t last = new_entry(self, row);
        if (last < 0)
            return 0;
        self->entries[list->last].next = last;
        list->last = last;
    }
    self->rows++;
    return 1;
}

/* Take out rows of a list, given in its order with its hash; how many there were. */
static int64_t remove_some(Index *self, const Slot *given, int64_t count)
{
    int64_t at = find(self, given->hash), removed = 0;
    Slot *slot = &self->slots[at];
    int64_t number = ~slot->row;
    List *list = &self->lists[number];
    int64_t before = -1, entry = list->first, i = 0;
    while (entry >= 0 && i < count) {
        int64_t next = self->entries[entry].next;
        while (i < count && given[i].row < self->entries[entry].row)
            i++;
        if (i < count && given[i].row == self->entries[entry].row) {
            if (before < 0)
                list->first = next;
            else
                self->entries[before].next = next;
            if (list->last == entry)
                list->last = before;
            free_entry(self, entry);
            removed++;
        } else {
            before = entry;
        }
        entry = next;
    }
    if (list->first < 0) {
        free_list(self, number);
        take_out(self, at);
    } else if (list->first == list->last) {
        slot->row = self->entries[list->first].row;
        free_entry(self, list->first);
        free_list(self, number);
    }
    return removed;
}

/* Two buffers of as many 8-byte numbers. */
static int two(PyObject *args, Py_buffer *hashes, Py_buffer *rows)
{
    if (!PyArg_ParseTuple(args, "y*y*", hashes, rows))
        return 0;
    if (hashes->len == rows->len && hashes->len % 8 == 0)
        return 1;
    PyBuffer_Release(hashes);
    PyBuffer_Release(rows);
    PyErr_SetString(PyExc_ValueError, "a hash for each row, of 8 bytes each");
    return 0;
}

static PyObject *index_add(Index *self, PyObject *args)
{
    Py_buffer hashes, rows;
    if (!two(args, &hashes, &rows))
        return NULL;
    const uint64_t *hash = hashes.buf;
    const int64_t *row = rows.buf;
    int64_t count = hashes.len / 8;
    int whole = reserve(self, count);
    for (int64_t i = 0; i < count && whole; i++) {
        fetch(self, hash, i, count);
        whole = add_one(self, hash[i], row[i]);
    }
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&rows);
    if (!whole)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static int by_hash_and_row(const void *one, const void *other)
{
    const Slot *a = one, *b = other;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : (a->row > b->row) - (a->row < b->row);
}

static PyObject *index_remove(Index *self, PyObject *args)
{
    Py_buffer hashes, rows;
    if (!two(args, &hashes, &rows))
        return NULL;
    const uint64_t *hash = hashes.buf;
    const int64_t *row = rows.buf;
    int64_t count = hashes.len / 8, listed = 0, room = 0;
    Slot *of_lists = NULL; /* what is in lists is taken out list by list, in order */
    int whole = 1;
    for (int64_t i = 0; i < count && whole; i++) {
        fetch(self, hash, i, count);
        int64_t at = find(self, hash[i]);
        if (self->slots[at].row == row[i]) {
            take_out(self, at);
            self->rows--;
        } else if (self->slots[at].row < 0 && self->slots[at].row != EMPTY) {
            if (listed == room) {
                room = room ? 2 * room : FIRST_ROOM;
                Slot *grown = realloc(of_lists, (size_t)room * sizeof(Slot));
                whole = grown != NULL;
                of_lists = whole ? grown : of_lists;
            }
            if (whole)
                of_lists[listed++] = (Slot){hash[i], row[i]};
        }
    }
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&rows);
    if (listed)
        qsort(of_lists, (size_t)listed, sizeof(Slot), by_hash_and_row);
    for (int64_t i = 0, next; i < listed; i = next) {
        for (next = i + 1; next < listed && of_lists[next].hash == of_lists[i].hash; next++)
            ;
        self->rows -= remove_some(self, of_lists + i, next - i);
    }
    free(of_lists);
    if (!whole)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

typedef struct {
    int64_t *places, *rows, count, room;
} Pairs;

static int push(Pairs *pairs, int64_t place, int64_t row)
{
    if (pairs->count == pairs->room) {
        int64_t room = 2 * pairs->room;
        int64_t *places = realloc(pairs->places, (size_t)room * 8);
        if (places)
            pairs->places = places;
        int64_t *rows = places ? realloc(pairs->rows, (size_t)room * 8) : NULL;
        if (!rows)
            return 0;
        pairs->rows = rows;
        pairs->room = room;
    }
    pairs->places[pairs->count] = place;
    pairs->rows[pairs->count++] = row;
    return 1;
}

static PyObject *index_probe(Index *self, PyObject *args)
{
    Py_buffer hashes;
    if (!PyArg_ParseTuple(args, "y*", &hashes))
        return NULL;
    const uint64_t *hash = hashes.buf;
    int64_t count = hashes.len / 8;
    Pairs pairs = {NULL, NULL, 0, count + 1};
    pairs.places = malloc((size_t)pairs.room * 8);
    pairs.rows = malloc((size_t)pairs.room * 8);
    int whole = pairs.places && pairs.rows;
    for (int64_t i = 0; i < count && whole; i++) {
        fetch(self, hash, i, count);
        int64_t row = self->slots[find(self, hash[i])].row;
        if (row >= 0)
            whole = push(&pairs, i, row);
        else if (row != EMPTY)
            for (int64_t entry = self->lists[~row].first; entry >= 0 && whole; entry = self->entries[entry].next)
                whole = push(&pairs, i, self->entries[entry].row);
    }
    PyBuffer_Release(&hashes);
    PyObject *result = !whole ? PyErr_NoMemory()
                              : Py_BuildValue("(y#y#)", (char *)pairs.places, (Py_ssize_t)(8 * pairs.count),
                                              (char *)pairs.rows, (Py_ssize_t)(8 * pairs.count));
    free(pairs.places);
    free(pairs.rows);
    return result;
}

static Py_ssize_t index_length(Index *self)
{
    return (Py_ssize_t)self->rows;
}

static PyObject *index_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Index *self = (Index *)allocate(type, 0);
    if (self) {
        self->free_entry = self->free_list = -1;
        if (!resize(self, FIRST_ROOM)) {
            Py_DECREF(self);
            return PyErr_NoMemory();
        }
    }
    return (PyObject *)self;
}

static void index_dealloc(Index *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    free(self->slots);
    free(self->entries);
    free(self->lists);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* For each hash, the place of the first that is equal. */
static PyObject *firsts(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer hashes;
    if (!PyArg_ParseTuple(args, "y*", &hashes))
        return NULL;
    const uint64_t *hash = hashes.buf;
    int64_t count = hashes.len / 8;
    Index seen = {.capacity = FIRST_ROOM};
    while (3 * count > 2 * seen.capacity)
        seen.capacity *= 2;
    seen.slots = malloc((size_t)seen.capacity * sizeof(Slot));
    PyObject *bytes = seen.slots ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * count)) : PyErr_NoMemory();
    if (bytes) {
        int64_t *first = (int64_t *)PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; i < seen.capacity; i++)
            seen.slots[i].row = EMPTY;
        for (int64_t i = 0; i < count; i++) {
            fetch(&seen, hash, i, count);
            Slot *slot = &seen.slots[find(&seen, hash[i])];
            if (slot->row == EMPTY)
                *slot = (Slot){hash[i], i};
            first[i] = slot->row;
        }
        Py_END_ALLOW_THREADS
    }
    free(seen.slots);
    PyBuffer_Release(&hashes);
    return bytes;
}

static PyMethodDef index_methods[] = {
    {"add", (PyCFunction)index_add, METH_VARARGS, NULL},
    {"remove", (PyCFunction)index_remove, METH_VARARGS, NULL},
    {"probe", (PyCFunction)index_probe, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot index_slots[] = {
    {Py_tp_new, index_new},
    {Py_tp_dealloc, index_dealloc},
    {Py_tp_methods, index_methods},
    {Py_sq_length, index_length},
    {0, NULL},
};

static PyType_Spec index_spec = {
    .name = "xmlpunct.operators._hash_index.HashIndex",
    .basicsize = sizeof(Index),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = index_slots,
};

static int add_types(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&index_spec);
    if (!type)
        return -1;
    int failed = PyModule_AddObjectRef(module, "HashIndex", type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, add_types}, {0, NULL}};

static PyMethodDef functions[] = {{"firsts", firsts, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_hash_index", .m_methods = functions, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__hash_index(void)
{
    return PyModuleDef_Init(&module);
}
