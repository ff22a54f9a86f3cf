/* The tokens of a piece of XML, one by one: `markup.py` does the same without a compiler, and says what they are. */

#include "native.h"

/* Where some bytes end that are to come; NULL if they do not. */
static const uint8_t *behind(const uint8_t *at, const uint8_t *end, const char *mark, int size)
{
    while (end - at >= size && (at = memchr(at, mark[0], (size_t)(end - at - size + 1)))) {
        if (memcmp(at, mark, (size_t)size) == 0)
            return at + size;
        at++;
    }
    return NULL;
}

/* Where the tag ends that begins here; NULL if it does not, or is none. */
static const uint8_t *tag_end(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 2 || memchr("!?<>\"'", at[1], 6))
        return NULL;
    for (at += 2; at < end; at++) {
        if (*at == '>')
            return at + 1;
        if (*at == '<')
            return NULL;
        if (*at == '"' || *at == '\'') {
            uint8_t quote = *at;
            for (at++; at < end && *at != quote; at++)
                if (*at == '<')
                    return NULL;
        }
    }
    return NULL;
}

/* Where the DOCTYPE ends that begins here; NULL if it does not, or has an internal subset. */
static const uint8_t *doctype_end(const uint8_t *at, const uint8_t *end)
{
    for (at += 9; at < end; at++) {
        if (*at == '>')
            return at + 1;
        if (*at == '<' || *at == '[')
            return NULL;
        if ((*at == '"' || *at == '\'') && !(at = memchr(at + 1, *at, (size_t)(end - at - 1))))
            return NULL;
    }
    return NULL;
}

static const uint8_t *token_end(const uint8_t *at, const uint8_t *end)
{
    int64_t left = end - at;
    if (left >= 4 && memcmp(at, "<!--", 4) == 0)
        return behind(at + 4, end, "-->", 3);
    if (left >= 9 && memcmp(at, "<![CDATA[", 9) == 0)
        return behind(at + 9, end, "]]>", 3);
    if (left >= 9 && memcmp(at, "<!DOCTYPE", 9) == 0)
        return doctype_end(at, end);
    return left >= 2 && at[1] == '?' ? behind(at + 2, end, "?>", 2) : tag_end(at, end);
}

static int64_t tokens(const uint8_t *data, const uint8_t *end, int64_t *start, int64_t *stop, int64_t *delta,
                      uint8_t *element, int64_t *tail)
{
    int64_t count = 0;
    for (const uint8_t *at = data; at < end && (at = memchr(at, '<', (size_t)(end - at))); count++) {
        const uint8_t *next = token_end(at, end);
        if (!next) {
            *tail = at - data;
            return count;
        }
        int other = at[1] == '!' || at[1] == '?';
        start[count] = at - data;
        stop[count] = next - data;
        element[count] = !other;
        delta[count] = at[1] == '/' ? -1 : !other && next[-2] != '/';
        at = next;
    }
    *tail = end - data;
    return count;
}

PyObject *py_tokens(PyObject *self, PyObject *data)
{
    if (!PyBytes_Check(data))
        return PyErr_Format(PyExc_TypeError, "tokens are in bytes");
    const uint8_t *begin = (const uint8_t *)PyBytes_AsString(data), *end = begin + PyBytes_Size(data);
    int64_t most = 0, count = 0, tail = 0;
    for (const uint8_t *at = begin; at < end; at++)
        most += *at == '<';
    PyObject *parts[4] = {NULL, NULL, NULL, NULL}, *found = NULL;
    int fine = 1;
    for (int i = 0; fine && i < 4; i++)
        fine = (parts[i] = PyBytes_FromStringAndSize(NULL, most * (i < 3 ? 8 : 1))) != NULL;
    if (fine) {
        void *at[4];
        for (int i = 0; i < 4; i++)
            at[i] = PyBytes_AsString(parts[i]);
        Py_BEGIN_ALLOW_THREADS
        count = tokens(begin, end, at[0], at[1], at[2], at[3], &tail);
        Py_END_ALLOW_THREADS
        found = Py_BuildValue("OOOOLL", parts[0], parts[1], parts[2], parts[3], (long long)count, (long long)tail);
    }
    for (int i = 0; i < 4; i++)
        Py_XDECREF(parts[i]);
    (void)self;
    return found;
}
