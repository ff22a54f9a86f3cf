/* The loops over bytes that cost most, compiled. `loops.py` says what each does, and does without them where they
 * could not be compiled: nothing but time depends on it.
 *
 * What is read is checked against the limits given, never against what the bytes say of themselves. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define MOST_FORMS 64
#define INLINE 12 /* Arrow keeps texts up to this size beside their length */

/* What a byte of a value means: nothing; its end; that the value does not stand as it is; that it does so behind
 * another of its kind; that this is no value. */
enum { PLAIN, STOP, SPOIL, BRACKET, FAIL };

static uint8_t in_text[256], in_quotes[256];

static void fill_classes(void)
{
    for (int byte = 0; byte < 32; byte++)
        in_text[byte] = in_quotes[byte] = SPOIL;
    in_text['\t'] = in_text['\n'] = PLAIN; /* in attributes they would be read as spaces */
    in_text['&'] = in_quotes['&'] = SPOIL;
    in_text[']'] = BRACKET;
    in_text['<'] = in_quotes['"'] = STOP;
    in_quotes['<'] = FAIL;
}

/* The forms that regions may have, as `scan/walk.py` lays them out. */
typedef struct {
    const int64_t *pieces; /* by piece: offset and length of the literal, and whether a quoted value follows */
    const int64_t *firsts; /* by form: its first piece; and how many pieces there are */
    const int64_t *ends;   /* by end: offset and length of the literal */
    const uint8_t *literals;
    int64_t forms, end_count;
} Program;

static inline uint64_t word(const uint8_t *at)
{
    uint64_t found;
    memcpy(&found, at, 8);
    return found;
}

static inline int same(const uint8_t *a, const uint8_t *b, int64_t size)
{
    for (; size >= 8; a += 8, b += 8, size -= 8)
        if (word(a) != word(b))
            return 0;
    for (; size > 0; a++, b++, size--)
        if (*a != *b)
            return 0;
    return 1;
}

/* The end of a region of some form that begins at `at`; -1 if there is none. `stop` is where a `<` stands. */
static int64_t match(const uint8_t *buffer, int64_t at, int64_t stop, const Program *program, int64_t form,
                     int64_t *values, uint8_t *spoiled)
{
    *spoiled = 0;
    for (int64_t i = program->firsts[form]; i < program->firsts[form + 1]; i++) {
        const int64_t *piece = program->pieces + 3 * i;
        if (piece[1] > stop - at || !same(buffer + at, program->literals + piece[0], piece[1]))
            return -1;
        at += piece[1];
        if (i + 1 == program->firsts[form + 1])
            return at;
        const uint8_t *class = piece[2] ? in_quotes : in_text;
        int64_t begin = at;
        for (uint8_t what; (what = class[buffer[at]]) != STOP; at++) {
            if (what == FAIL)
                return -1;
            if (what == SPOIL || (what == BRACKET && buffer[at + 1] == ']'))
                *spoiled = 1;
        }
        *values++ = begin;
        *values++ = at - begin;
    }
    return -1;
}

/* Where the literal of an end stands next; -1 if nowhere. */
static int64_t next_end(const uint8_t *buffer, int64_t at, int64_t stop, const uint8_t *literal, int64_t size)
{
    while (at <= stop - size) {
        const uint8_t *found = memchr(buffer + at, literal[0], (size_t)(stop - size - at + 1));
        if (!found)
            return -1;
        if (memcmp(found, literal, (size_t)size) == 0)
            return found - buffer;
        at = found - buffer + 1;
    }
    return -1;
}

/* What is found: of each region where it ends, its form (-1: none), and whether a value in it is spoiled; of each
 * form the places and sizes of the values in its regions, row by row. */
typedef struct {
    int64_t *end, *form, *values[MOST_FORMS];
    uint8_t *spoiled;
    int64_t regions, most, room[MOST_FORMS];
} Found;

/* Where the next region ends that is of no form; -1 if there is none. `ends` is where each end was seen last. */
static int64_t other_end(const uint8_t *buffer, int64_t at, int64_t stop, const Program *program, int64_t *ends)
{
    int64_t end = -1;
    for (int64_t i = 0; i < program->end_count; i++) {
        const int64_t *literal = program->ends + 2 * i;
        if (ends[i] != -1 && ends[i] < at)
            ends[i] = next_end(buffer, at, stop, program->literals + literal[0], literal[1]);
        if (ends[i] >= 0 && (end < 0 || ends[i] + literal[1] < end))
            end = ends[i] + literal[1];
    }
    return end;
}

/* Find the regions from `at` on; 0 if there is too little room for them. */
static int walk(const uint8_t *buffer, int64_t at, int64_t stop, const Program *program, Found *found)
{
    int64_t after[MOST_FORMS] = {0}, ends[MOST_FORMS], last = 0;
    for (int64_t i = 0; i < program->end_count; i++)
        ends[i] = -2; /* not looked for yet */
    while (at < stop) {
        if (found->regions == found->most)
            return 0;
        uint8_t *spoiled = found->spoiled + found->regions;
        int64_t end = -1, form = -1;
        for (int64_t i = -1; end < 0 && i < program->forms; i++) { /* first the one that followed last time */
            form = i < 0 ? after[last] : i;
            if (i == after[last])
                continue;
            if (found->room[form] < 2 * (program->firsts[form + 1] - program->firsts[form] - 1))
                return 0;
            end = match(buffer, at, stop, program, form, found->values[form], spoiled);
        }
        if (end >= 0) {
            int64_t width = 2 * (program->firsts[form + 1] - program->firsts[form] - 1);
            found->values[form] += width;
            found->room[form] -= width;
            last = after[last] = form;
        } else {
            end = other_end(buffer, at, stop, program, ends);
            if (end < 0)
                return 1;
            form = -1;
            *spoiled = 1;
        }
        found->end[found->regions] = at = end;
        found->form[found->regions++] = form;
    }
    return 1;
}

static PyObject *py_walk(PyObject *self, PyObject *args)
{
    Py_buffer data, pieces, firsts, ends, literals, end, form, spoiled, values[MOST_FORMS];
    Py_ssize_t begin, stop, held = 0;
    PyObject *columns;
    if (!PyArg_ParseTuple(args, "y*nny*y*y*y*w*w*w*O!", &data, &begin, &stop, &pieces, &firsts, &ends, &literals,
                          &end, &form, &spoiled, &PyTuple_Type, &columns))
        return NULL;
    Program program = {pieces.buf, firsts.buf, ends.buf, literals.buf, firsts.len / 8 - 1, ends.len / 16};
    Found found = {.end = end.buf, .form = form.buf, .spoiled = spoiled.buf, .most = end.len / 8};
    int sound = data.readonly /* no other thread may put another byte in the place of the last '<' */
                && begin >= 0 && begin <= stop && stop < data.len && ((uint8_t *)data.buf)[stop] == '<'
                && program.forms > 0 && program.forms <= MOST_FORMS && program.end_count <= MOST_FORMS
                && form.len == end.len && spoiled.len * 8 == end.len && PyTuple_Size(columns) == program.forms;
    for (; sound && held < program.forms; held++) {
        if (PyObject_GetBuffer(PyTuple_GetItem(columns, held), values + held, PyBUF_WRITABLE) < 0)
            break;
        found.values[held] = values[held].buf;
        found.room[held] = values[held].len / 8;
    }
    sound = sound && held == program.forms;
    if (sound) {
        Py_BEGIN_ALLOW_THREADS
        sound = walk(data.buf, begin, stop, &program, &found);
        Py_END_ALLOW_THREADS
    }
    while (held > 0)
        PyBuffer_Release(values + --held);
    Py_buffer *all[] = {&data, &pieces, &firsts, &ends, &literals, &end, &form, &spoiled};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        PyBuffer_Release(all[i]);
    if (!sound) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "what does not fit together cannot be walked");
        return NULL;
    }
    return PyLong_FromLongLong(found.regions);
}

/* The number that a text of 1 to 15 digits spells, maybe behind a sign; whether it is one. */
static inline int integer(const uint8_t *text, int64_t size, int64_t *value)
{
    int negative = 0;
    int64_t sum = 0;
    if (size > 1 && (*text == '-' || *text == '+')) {
        negative = *text == '-';
        text++;
        size--;
    }
    *value = 0;
    if (size < 1 || size > 15)
        return 0;
    for (int64_t i = 0; i < size; i++) {
        uint8_t digit = text[i] - '0';
        if (digit > 9)
            return 0;
        sum = 10 * sum + digit;
    }
    *value = negative ? -sum : sum;
    return 1;
}

/* Texts as two columns of places, which may be columns of larger arrays. */
typedef struct {
    Py_buffer data, start, size;
    int64_t count;
} Texts;

static void texts_end(Texts *texts)
{
    PyBuffer_Release(&texts->size);
    PyBuffer_Release(&texts->start);
    PyBuffer_Release(&texts->data);
}

/* Take hold of arguments; 0, with an exception set, if they are no texts. */
static int texts_begin(Texts *texts, PyObject *data, PyObject *start, PyObject *size)
{
    memset(texts, 0, sizeof *texts); /* so that all can be released */
    if (PyObject_GetBuffer(data, &texts->data, PyBUF_SIMPLE) == 0
        && PyObject_GetBuffer(start, &texts->start, PyBUF_STRIDED_RO) == 0
        && PyObject_GetBuffer(size, &texts->size, PyBUF_STRIDED_RO) == 0) {
        if (texts->start.ndim == 1 && texts->size.ndim == 1 && texts->start.itemsize == 8
            && texts->size.itemsize == 8 && texts->start.shape[0] == texts->size.shape[0]) {
            texts->count = texts->start.shape[0];
            return 1;
        }
        PyErr_SetString(PyExc_ValueError, "texts are two columns of integers");
    }
    texts_end(texts);
    return 0;
}

/* A text and its size; NULL if it is not inside the buffer. A size below 0 stands for no text. */
static inline const uint8_t *text_at(const Texts *texts, int64_t row, int64_t *size)
{
    int64_t start = *(int64_t *)((char *)texts->start.buf + row * texts->start.strides[0]);
    *size = *(int64_t *)((char *)texts->size.buf + row * texts->size.strides[0]);
    if (*size <= 0)
        return texts->data.buf;
    return start >= 0 && start <= texts->data.len - *size ? (uint8_t *)texts->data.buf + start : NULL;
}

static PyObject *py_integers(PyObject *self, PyObject *args)
{
    Texts texts;
    Py_buffer values, wrong;
    PyObject *data, *start, *size;
    if (!PyArg_ParseTuple(args, "OOOw*w*", &data, &start, &size, &values, &wrong))
        return NULL;
    int sound = 0;
    if (texts_begin(&texts, data, start, size)) {
        sound = wrong.len == texts.count && values.len == 8 * texts.count;
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; sound && i < texts.count; i++) {
            int64_t long_;
            const uint8_t *text = text_at(&texts, i, &long_);
            if (text)
                ((uint8_t *)wrong.buf)[i] = !integer(text, long_, (int64_t *)values.buf + i);
            else
                sound = 0;
        }
        Py_END_ALLOW_THREADS
        texts_end(&texts);
        if (!sound)
            PyErr_SetString(PyExc_ValueError, "texts outside of the buffer, or too little room");
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&wrong);
    if (!sound)
        return NULL;
    Py_RETURN_NONE;
}

/* Arrow's view of a text: its size, and the text itself; or its first bytes, and where in `rest` it is. */
static int64_t view(const uint8_t *text, int64_t size, uint8_t *into, uint8_t *rest, int64_t at, int64_t room)
{
    int32_t number[4] = {(int32_t)size, 0, 0, 0};
    if (size <= INLINE) {
        memcpy(number + 1, text, (size_t)size);
    } else {
        if (size > room - at)
            return -1;
        memcpy(number + 1, text, 4);
        number[3] = (int32_t)at;
        memcpy(rest + at, text, (size_t)size);
        at += size;
    }
    memcpy(into, number, sizeof number);
    return at;
}

static PyObject *py_views(PyObject *self, PyObject *args)
{
    Texts texts;
    Py_buffer views, rest;
    PyObject *data, *start, *size;
    if (!PyArg_ParseTuple(args, "OOOw*w*", &data, &start, &size, &views, &rest))
        return NULL;
    int64_t at = -1;
    if (texts_begin(&texts, data, start, size)) {
        if (views.len == 16 * texts.count && rest.len <= INT32_MAX) {
            at = 0;
            Py_BEGIN_ALLOW_THREADS
            for (int64_t i = 0; at >= 0 && i < texts.count; i++) {
                int64_t long_;
                const uint8_t *text = text_at(&texts, i, &long_);
                at = text ? view(text, long_ < 0 ? 0 : long_, (uint8_t *)views.buf + 16 * i, rest.buf, at, rest.len) : -1;
            }
            Py_END_ALLOW_THREADS
        }
        texts_end(&texts);
        if (at < 0)
            PyErr_SetString(PyExc_ValueError, "texts outside of the buffer, or too little room");
    }
    PyBuffer_Release(&views);
    PyBuffer_Release(&rest);
    if (at < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The texts one by one, empty where there is no text. */
static PyObject *py_strings(PyObject *self, PyObject *args)
{
    Texts texts;
    PyObject *data, *start, *size;
    if (!PyArg_ParseTuple(args, "OOO", &data, &start, &size) || !texts_begin(&texts, data, start, size))
        return NULL;
    PyObject *found = PyList_New(texts.count);
    for (int64_t i = 0; found && i < texts.count; i++) {
        int64_t long_;
        const char *text = (const char *)text_at(&texts, i, &long_);
        PyObject *string = NULL;
        if (text)
            string = PyUnicode_DecodeUTF8(text, long_ < 0 ? 0 : long_, "surrogateescape");
        else
            PyErr_SetString(PyExc_ValueError, "texts outside of the buffer");
        if (string)
            PyList_SET_ITEM(found, i, string);
        else
            Py_CLEAR(found);
    }
    texts_end(&texts);
    return found;
}

/* What tags come to: see `markup.nesting`. Counters are small, so that many bytes are looked at together. */
typedef struct {
    int64_t opening, closing, ends, empty, others, alike;
} Tags;

#define AT_ONCE 128

static inline void count_tags(const uint8_t *at, int64_t count, uint8_t first, uint8_t last, int64_t length, Tags *tags)
{
    uint8_t opening = 0, closing = 0, ends = 0, empty = 0, others = 0, alike = 0;
    for (int64_t i = 0; i < count; i++) {
        uint8_t tag = at[i] == '<', end = tag & (at[i + 1] == '/');
        opening += tag;
        closing += at[i] == '>';
        ends += end;
        empty += (at[i] == '/') & (at[i + 1] == '>');
        others |= tag & ((at[i + 1] == '!') | (at[i + 1] == '?'));
        alike |= end & (at[i + 2] == first) & (at[i + 1 + length] == last);
    }
    tags->opening += opening;
    tags->closing += closing;
    tags->ends += ends;
    tags->empty += empty;
    tags->others |= others;
    tags->alike |= alike;
}

/* Whether there is an end tag whose name begins with that of some letters. */
static int has_end_tag(const uint8_t *at, int64_t size, const uint8_t *name, int64_t length)
{
    if (size < length + 2)
        return 0;
    const uint8_t *stop = at + size - length - 2;
    while (at <= stop && (at = memchr(at, '<', (size_t)(stop - at + 1)))) {
        if (at[1] == '/' && memcmp(at + 2, name, (size_t)length) == 0)
            return 1;
        at++;
    }
    return 0;
}

/* How many elements more are opened than closed, as `markup.nesting` says; INT64_MIN if that is not known. */
static int64_t nesting(const uint8_t *data, int64_t size, const uint8_t *name, int64_t length)
{
    Tags tags = {0};
    int64_t i = 0;
    if (length > 0)
        for (; i <= size - AT_ONCE - length - 1; i += AT_ONCE) {
            count_tags(data + i, AT_ONCE, name[0], name[length - 1], length, &tags);
            if (tags.others || (tags.alike && has_end_tag(data + i, AT_ONCE + length + 1, name, length)))
                return INT64_MIN;
            tags.alike = 0;
        }
    if (has_end_tag(data + i, size - i, name, length))
        return INT64_MIN;
    for (; i < size; i++) {
        uint8_t next = i + 1 < size ? data[i + 1] : 0;
        tags.opening += data[i] == '<';
        tags.closing += data[i] == '>';
        tags.ends += data[i] == '<' && next == '/';
        tags.empty += data[i] == '/' && next == '>';
        tags.others |= data[i] == '<' && (next == '!' || next == '?');
    }
    return tags.others || tags.opening != tags.closing ? INT64_MIN : tags.opening - 2 * tags.ends - tags.empty;
}

static PyObject *py_nesting(PyObject *self, PyObject *args)
{
    Py_buffer data, name;
    Py_ssize_t begin, stop;
    if (!PyArg_ParseTuple(args, "y*nny*", &data, &begin, &stop, &name))
        return NULL;
    int sound = 0 <= begin && begin <= stop && stop <= data.len;
    int64_t found = sound ? nesting((uint8_t *)data.buf + begin, stop - begin, name.buf, name.len) : 0;
    PyBuffer_Release(&data);
    PyBuffer_Release(&name);
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "no part of the data");
        return NULL;
    }
    if (found == INT64_MIN)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(found);
}

static PyMethodDef methods[] = {
    {"walk", py_walk, METH_VARARGS, NULL},
    {"integers", py_integers, METH_VARARGS, NULL},
    {"views", py_views, METH_VARARGS, NULL},
    {"strings", py_strings, METH_VARARGS, NULL},
    {"nesting", py_nesting, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_loops", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__loops(void)
{
    fill_classes();
    return PyModule_Create(&module);
}
