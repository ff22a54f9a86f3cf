/* The texts of a column, as Arrow strings and as numbers. Numbers in their common forms are read here, with the same
 * result as the types' own parsers, which read all other forms and report errors.
 *
 * A text is an offset and a size (below 0: missing) in the concatenation of two buffers. */

#define INLINE 12 /* Arrow keeps texts up to this size beside their length */

typedef struct {
    Py_buffer first, second, start, size;
    int64_t count;
} Texts;

static void texts_end(Texts *texts)
{
    PyBuffer_Release(&texts->first);
    PyBuffer_Release(&texts->second);
    PyBuffer_Release(&texts->start);
    PyBuffer_Release(&texts->size);
}

/* Parse arguments `(first, second, start, size)`, and hold their buffers; 0, with an exception set, on failure. */
static int texts_begin(Texts *texts, PyObject *given)
{
    memset(texts, 0, sizeof *texts); /* so that `texts_end` may release all of them */
    PyObject *start, *size;
    if (!PyArg_ParseTuple(given, "y*y*OO", &texts->first, &texts->second, &start, &size))
        return 0;
    if (PyObject_GetBuffer(start, &texts->start, PyBUF_STRIDED_RO) == 0
        && PyObject_GetBuffer(size, &texts->size, PyBUF_STRIDED_RO) == 0) {
        if (texts->start.ndim == 1 && texts->size.ndim == 1 && texts->start.itemsize == 4
            && texts->size.itemsize == 4 && texts->start.shape[0] == texts->size.shape[0]) {
            texts->count = texts->start.shape[0];
            return 1;
        }
        PyErr_SetString(PyExc_ValueError, "texts are two columns of 32-bit integers");
    }
    texts_end(texts);
    return 0;
}

/* A text and its size; NULL if it is not inside the buffers. */
static inline const uint8_t *text_at(const Texts *texts, int64_t row, int64_t *size)
{
    int64_t start = *(const int32_t *)((const char *)texts->start.buf + row * texts->start.strides[0]);
    *size = *(const int32_t *)((const char *)texts->size.buf + row * texts->size.strides[0]);
    if (*size <= 0)
        return texts->first.buf;
    if (start >= 0 && start <= texts->first.len - *size)
        return (const uint8_t *)texts->first.buf + start;
    start -= texts->first.len;
    return start >= 0 && start <= texts->second.len - *size ? (const uint8_t *)texts->second.buf + start : NULL;
}

static PyObject *outside(void)
{
    PyErr_SetString(PyExc_ValueError, "texts outside of the buffers, or too little room");
    return NULL;
}

/* Strings */

/* The texts as a list of strings; a missing text becomes `none`. */
static PyObject *py_strings(PyObject *self, PyObject *args)
{
    Texts texts;
    PyObject *given, *none;
    if (!PyArg_ParseTuple(args, "O!U", &PyTuple_Type, &given, &none) || !texts_begin(&texts, given))
        return NULL;
    PyObject *found = PyList_New(texts.count);
    for (int64_t i = 0; found && i < texts.count; i++) {
        int64_t size;
        const char *text = (const char *)text_at(&texts, i, &size);
        PyObject *string = NULL;
        if (size < 0)
            string = Py_NewRef(none);
        else
            string = text ? PyUnicode_DecodeUTF8(text, size, "surrogateescape") : outside();
        if (string)
            PyList_SetItem(found, i, string);
        else
            Py_CLEAR(found);
    }
    texts_end(&texts);
    (void)self;
    return found;
}

/* True if no text is missing or empty, and all consist of letters, digits and `-._:`. */
static PyObject *py_are_plain(PyObject *self, PyObject *given)
{
    Texts texts;
    if (!texts_begin(&texts, given))
        return NULL;
    int fine = 1, inside = 1;
    for (int64_t i = 0; fine && i < texts.count; i++) {
        int64_t size;
        const uint8_t *at = text_at(&texts, i, &size), *end = at + size;
        inside = at != NULL;
        for (fine = inside && size > 0; fine && at < end; at++)
            fine = (uint8_t)((*at | 0x20) - 'a') < 26 || (uint8_t)(*at - '0') < 11 || *at == '-' || *at == '.' || *at == '_';
    }
    texts_end(&texts);
    (void)self;
    return inside ? PyBool_FromLong(fine) : outside();
}

/* Arrow's views of the texts: the size, and the text; of a long text the first bytes, and its offset in `rest`. */
static void views(const Texts *texts, uint8_t *into, uint8_t *rest)
{
    const Texts own = *texts; /* a copy, which cannot alias the output */
    const uint8_t *first = own.first.buf, *end = first + own.first.len;
    int32_t at = 0;
    for (int64_t i = 0; i < own.count; i++, into += 16) {
        int64_t size;
        const uint8_t *text = text_at(&own, i, &size);
        uint64_t words[2] = {0, 0};
        int32_t count = size < 0 ? 0 : (int32_t)size;
        if (count > INLINE) {
            memcpy(rest + at, text, (size_t)count);
            memcpy(words, text, 4);
            memcpy((uint8_t *)words + 8, &at, 4);
            at += count;
        } else if (text >= first && end - text >= 16) { /* takes a third of the time */
            memcpy(words, text, sizeof words);
            words[0] &= first_bytes(count);
            words[1] &= first_bytes(count > 8 ? count - 8 : 0);
        } else {
            words[0] = load(text, text + count);
            words[1] = count > 8 ? load(text + 8, text + count) : 0;
        }
        memcpy(into, &count, 4);
        memcpy(into + 4, words, INLINE);
    }
}

/* The views of the texts, the buffer of long texts, and whether no text is missing. */
static PyObject *py_views(PyObject *self, PyObject *args)
{
    Texts texts;
    PyObject *given, *into = NULL, *rest = NULL, *found = NULL;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &given) || !texts_begin(&texts, given))
        return NULL;
    int64_t long_ = 0, fine = 1, all = 1;
    for (int64_t i = 0; fine && i < texts.count; i++) {
        int64_t size;
        fine = text_at(&texts, i, &size) != NULL;
        all &= size >= 0;
        long_ += size > INLINE ? size : 0;
    }
    if (!fine || long_ > INT32_MAX)
        outside();
    else if ((into = PyBytes_FromStringAndSize(NULL, 16 * texts.count)) && (rest = PyBytes_FromStringAndSize(NULL, long_))) {
        Py_BEGIN_ALLOW_THREADS
        views(&texts, (uint8_t *)PyBytes_AsString(into), (uint8_t *)PyBytes_AsString(rest));
        Py_END_ALLOW_THREADS
        found = Py_BuildValue("OOO", into, rest, all ? Py_True : Py_False);
    }
    Py_XDECREF(into);
    Py_XDECREF(rest);
    texts_end(&texts);
    (void)self;
    return found;
}

/* Numbers. Each of these reads a text, without white space around it, in the common form of its type. */

typedef int (*Read)(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into);

static inline int is_digit(uint8_t byte)
{
    return (uint8_t)(byte - '0') < 10;
}

/* Append up to `*left` digits to a number; returns their end. */
static inline const uint8_t *digits(const uint8_t *at, const uint8_t *end, int *left, int64_t *sum)
{
    for (; at < end && is_digit(*at) && *left > 0; at++, --*left)
        *sum = 10 * *sum + (*at - '0');
    return at;
}

static inline int is_negative(const uint8_t **at, const uint8_t *end)
{
    if (*at == end || (**at != '-' && **at != '+'))
        return 0;
    return *(*at)++ == '-';
}

static int read_integer(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    int negative = is_negative(&at, end), left = 18;
    int64_t sum = 0;
    const uint8_t *first = at;
    at = digits(at, end, &left, &sum);
    *(int64_t *)into = negative ? -sum : sum;
    (void)scale, (void)whole;
    return at == end && at > first;
}

/* Read digits with or without a decimal point; returns the number of digits after it, or -1 if there is no number. */
static inline int decimals(const uint8_t **at, const uint8_t *end, int most, int *before, int64_t *sum)
{
    int left = most;
    *sum = 0;
    *at = digits(*at, end, &left, sum);
    *before = most - left;
    int behind = 0;
    if (*at < end && **at == '.') {
        ++*at;
        *at = digits(*at, end, &left, sum);
        behind = most - left - *before;
    }
    return left == most || (*at < end && is_digit(**at)) ? -1 : behind;
}

static int read_decimal(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    int64_t sum, words[2];
    int negative = is_negative(&at, end), before, behind = decimals(&at, end, 18, &before, &sum);
    if (behind < 0 || behind > scale || before > whole || at != end || before + scale > 18 || !before)
        return 0;
    for (; behind < scale; behind++)
        sum *= 10;
    words[0] = negative ? -sum : sum; /* a number of 128 bits */
    words[1] = words[0] < 0 ? -1 : 0;
    memcpy(into, words, sizeof words);
    return 1;
}

static int read_double(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t sum, raised = 0;
    int negative = is_negative(&at, end), before, power = -decimals(&at, end, 18, &before, &sum);
    if (power > 0)
        return 0;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        int down = is_negative(&at, end), left = 4;
        const uint8_t *first = at;
        at = digits(at, end, &left, &raised);
        if (at == first)
            return 0;
        power += (int)(down ? -raised : raised);
    }
    (void)scale, (void)whole;
    /* Both operands are exact, so the result is rounded once, correctly. */
    if (at != end || sum > (int64_t)1 << 53 || power < -22 || power > 22 || FLT_EVAL_METHOD != 0)
        return 0;
    double value = power < 0 ? (double)sum / tens[-power] : (double)sum * tens[power];
    value = negative && sum ? -value : value; /* -0 becomes 0 */
    memcpy(into, &value, sizeof value);
    return 1;
}

static int read_boolean(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    int64_t size = end - at;
    (void)scale, (void)whole;
    *(uint8_t *)into = size == 4 || (size == 1 && *at == '1');
    return (size == 1 && (*at == '0' || *at == '1')) || (size == 4 && memcmp(at, "true", 4) == 0)
           || (size == 5 && memcmp(at, "false", 5) == 0);
}

/* The value of two digits; -1 if they are no digits. */
static inline int two(const uint8_t *at)
{
    return is_digit(at[0]) && is_digit(at[1]) ? 10 * (at[0] - '0') + at[1] - '0' : -1;
}

/* The days since 1970 of YYYY-MM-DD, whose years begin with 1. */
static int day(const uint8_t *at, int64_t *days)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int high = two(at), low = two(at + 2), month = two(at + 5), number = two(at + 8), year = 100 * high + low;
    if (high < 0 || low < 0 || year < 1 || at[4] != '-' || at[7] != '-' || month < 1 || month > 12 || number < 1)
        return 0;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0, past = year - 1;
    if (number > lengths[month - 1] + (leap && month == 2))
        return 0;
    *days = 365 * (int64_t)past + past / 4 - past / 100 + past / 400 + before[month - 1] + (leap && month > 2) + number
            - 719163;
    return 1;
}

static int read_date(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    int64_t days;
    (void)scale, (void)whole;
    if (end - at != 10 || !day(at, &days))
        return 0;
    *(int32_t *)into = (int32_t)days;
    return 1;
}

/* A timestamp in microseconds; finer digits are truncated. */
static int read_timestamp(const uint8_t *at, const uint8_t *end, int scale, int whole, void *into)
{
    int64_t days, part = 0;
    (void)scale, (void)whole;
    if (end - at < 19 || !day(at, &days) || at[10] != 'T' || at[13] != ':' || at[16] != ':')
        return 0;
    int hour = two(at + 11), minute = two(at + 14), second = two(at + 17), left = 6;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
        return 0;
    at += 19;
    if (at < end && *at == '.') {
        const uint8_t *first = ++at;
        at = digits(at, end, &left, &part);
        if (at == first)
            return 0;
        for (; left > 0; left--)
            part *= 10;
        while (at < end && is_digit(*at))
            at++;
    }
    if (at < end && *at == 'Z')
        at++;
    *(int64_t *)into = ((days * 24 + hour) * 60 + minute) * 60000000 + second * 1000000 + part;
    return at == end;
}

static const struct {
    const char *name;
    Read read;
    int size;
} types[] = {
    {"INT", read_integer, 8}, {"DOUBLE", read_double, 8}, {"DECIMAL", read_decimal, 16},
    {"DATE", read_date, 4},   {"TIMESTAMP", read_timestamp, 8}, {"BOOLEAN", read_boolean, 1},
};

/* Read all texts; 0 if one is not inside the buffers. `left` marks texts that were not read, missing texts included. */
static inline int read_all(const Texts *texts, Read read, int width, int scale, int whole, uint8_t *into, uint8_t *left)
{
    const Texts own = *texts; /* a copy, which cannot alias the values written */
    for (int64_t i = 0; i < own.count; i++, into += width) {
        int64_t size;
        const uint8_t *at = text_at(&own, i, &size), *end = at + (size < 0 ? 0 : size);
        if (!at)
            return 0;
        while (at < end && is_space(*at))
            at++;
        while (at < end && is_space(end[-1]))
            end--;
        left[i] = at == end || !read(at, end, scale, whole, into);
        if (left[i])
            memset(into, 0, (size_t)width);
    }
    return 1;
}

static PyObject *py_numbers(PyObject *self, PyObject *args)
{
    Texts texts;
    Py_buffer into, left;
    PyObject *given;
    const char *name;
    int scale, whole, fine = 0;
    if (!PyArg_ParseTuple(args, "O!siiw*w*", &PyTuple_Type, &given, &name, &scale, &whole, &into, &left))
        return NULL;
    size_t type = 0;
    while (type < sizeof types / sizeof *types && strcmp(types[type].name, name) != 0)
        type++;
    if (type == sizeof types / sizeof *types) {
        PyErr_SetString(PyExc_ValueError, "no such type");
    } else if (texts_begin(&texts, given)) {
        if (left.len == texts.count && into.len == types[type].size * texts.count) {
            Py_BEGIN_ALLOW_THREADS
            fine = type ? read_all(&texts, types[type].read, types[type].size, scale, whole, into.buf, left.buf)
                        : read_all(&texts, read_integer, 8, 0, 0, into.buf, left.buf); /* inlined here */
            Py_END_ALLOW_THREADS
        }
        texts_end(&texts);
        if (!fine)
            outside();
    }
    PyBuffer_Release(&into);
    PyBuffer_Release(&left);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* The number of newlines in some bytes. */
static PyObject *py_newlines(PyObject *self, PyObject *data)
{
    Py_buffer given;
    if (PyObject_GetBuffer(data, &given, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *at = given.buf;
    int64_t found = 0, size = given.len;
    while (size > 0) { /* an 8-bit counter, so that many bytes are compared at once */
        uint8_t some = 0;
        int64_t count = size < 128 ? size : 128;
        for (int64_t i = 0; i < count; i++)
            some += at[i] == '\n';
        found += some;
        at += count;
        size -= count;
    }
    PyBuffer_Release(&given);
    (void)self;
    return PyLong_FromLongLong(found);
}

static PyMethodDef value_methods[] = {
    {"newlines", py_newlines, METH_O, NULL},
    {"tokens", py_tokens, METH_O, NULL},
    {"skip", py_skip, METH_VARARGS, NULL},
    {"are_plain", py_are_plain, METH_O, NULL},
    {"strings", py_strings, METH_VARARGS, NULL},
    {"views", py_views, METH_VARARGS, NULL},
    {"numbers", py_numbers, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
