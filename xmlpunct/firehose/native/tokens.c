/* Finds the tokens of a piece of XML; `tags.py` defines them, and does the same in Python. Also skips whole elements
 * by their names. */

/* The end of the next occurrence of `mark`; NULL if there is none. */
static const uint8_t *behind(const uint8_t *at, const uint8_t *end, const char *mark, int size)
{
    while (end - at >= size && (at = memchr(at, mark[0], (size_t)(end - at - size + 1)))) {
        if (memcmp(at, mark, (size_t)size) == 0)
            return at + size;
        at++;
    }
    return NULL;
}

/* The end of the tag that begins here; NULL if it is incomplete, or no tag. */
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

/* The first `>` or `stop` outside of quotes; NULL if there is none before a `<`. */
static const uint8_t *unquoted(const uint8_t *at, const uint8_t *end, uint8_t stop)
{
    for (; at < end; at++) {
        if (*at == '>' || *at == stop)
            return at;
        if (*at == '<')
            return NULL;
        if ((*at == '"' || *at == '\'') && !(at = memchr(at + 1, *at, (size_t)(end - at - 1))))
            return NULL;
    }
    return NULL;
}

/* The end of the DOCTYPE that begins here; NULL if it is incomplete or malformed. */
static const uint8_t *doctype_end(const uint8_t *at, const uint8_t *end)
{
    at = unquoted(at + 9, end, '[');
    if (!at || *at == '>')
        return at ? at + 1 : NULL;
    for (at++; at < end && *at != ']';) {
        if (*at != '<') {
            at++;
        } else if (end - at >= 4 && memcmp(at, "<!--", 4) == 0) {
            at = behind(at + 4, end, "-->", 3);
        } else if (end - at >= 2 && at[1] == '?') {
            at = behind(at + 2, end, "?>", 2);
        } else if (end - at >= 3 && at[1] == '!' && (at[2] | 32) >= 'a' && (at[2] | 32) <= 'z') {
            at = unquoted(at + 3, end, '>');
            at = at ? at + 1 : NULL;
        } else {
            return NULL;
        }
        if (!at)
            return NULL;
    }
    for (at++; at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'); at++)
        ;
    return at < end && *at == '>' ? at + 1 : NULL;
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

static PyObject *py_tokens(PyObject *self, PyObject *data)
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

/* The next `<` of a comment, a CDATA section, a processing instruction, or of a tag whose name may begin with `first`;
 * `end` if there is none. */
static const uint8_t *telling(const uint8_t *at, const uint8_t *end, uint8_t first)
{
#if defined(__SSE2__)
    __m128i begins = _mm_set1_epi8('<'), bang = _mm_set1_epi8('!'), question = _mm_set1_epi8('?');
    __m128i slash = _mm_set1_epi8('/'), name = _mm_set1_epi8((char)first);
    for (; end - at >= 18; at += 16) {
        __m128i one = _mm_loadu_si128((const __m128i *)at), two = _mm_loadu_si128((const __m128i *)(at + 1));
        __m128i three = _mm_loadu_si128((const __m128i *)(at + 2));
        __m128i other = _mm_or_si128(_mm_cmpeq_epi8(two, bang), _mm_cmpeq_epi8(two, question));
        __m128i close = _mm_and_si128(_mm_cmpeq_epi8(two, slash), _mm_cmpeq_epi8(three, name));
        __m128i tells = _mm_or_si128(_mm_or_si128(other, close), _mm_cmpeq_epi8(two, name));
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(one, begins), tells));
        if (found)
            return at + __builtin_ctz(found);
    }
#endif
    for (; end - at >= 3; at++)
        if (*at == '<' && (at[1] == '!' || at[1] == '?' || at[1] == first || (at[1] == '/' && at[2] == first)))
            return at;
    return end;
}

static int ends_name(uint8_t byte)
{
    return byte == '>' || byte == '/' || byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The end of the token that begins here, mostly a tag, whose name ends at `behind_name`; NULL if it is incomplete. */
static const uint8_t *ends_at(const uint8_t *at, const uint8_t *end, const uint8_t *behind_name)
{
    return *behind_name == '>' ? behind_name + 1 : token_end(at, end);
}

/* The end of the element that begins here and has this name, if it is well formed; NULL if it is incomplete. */
static const uint8_t *element_end(const uint8_t *at, const uint8_t *end, const uint8_t *name, int64_t size)
{
    const uint8_t *next = ends_at(at, end, name + size);
    int64_t depth = next && next[-2] != '/';
    while (next && depth) {
        at = telling(next, end, *name);
        if (end - at < size + 3)
            return NULL;
        int closes = at[1] == '/';
        const uint8_t *tag = at + 1 + closes;
        if (at[1] == '!' || at[1] == '?') {
            next = token_end(at, end);
        } else if (memcmp(tag, name, (size_t)size) == 0 && ends_name(tag[size])) {
            next = ends_at(at, end, tag + size);
            depth += closes ? -1 : next && next[-2] != '/';
        } else {
            next = at + 1;
        }
    }
    return next;
}

/* True if a name without its prefix is in a list of names, each with a space after it. */
static int is_among(const uint8_t *name, int64_t size, const uint8_t *names, const uint8_t *end)
{
    for (const uint8_t *at = name; at < name + size; at++)
        if (*at == ':') {
            size -= at + 1 - name;
            name = at + 1;
        }
    for (const uint8_t *next; names < end && (next = memchr(names, ' ', (size_t)(end - names))); names = next + 1)
        if (next - names == size && memcmp(names, name, (size_t)size) == 0)
            return 1;
    return 0;
}

/* Skip complete elements with these names, and comments and instructions between them, up to the first end beyond
 * `enough`. */
static const uint8_t *skip(const uint8_t *at, const uint8_t *end, const uint8_t *names, const uint8_t *names_end,
                           const uint8_t *enough)
{
    const uint8_t *found = at, *known = NULL; /* the last of the names that occurred */
    int64_t known_size = 0;
    while (found < enough) {
        for (at = found; at < end && *at != '<'; at++)
            ;
        if (end - at < known_size + 4)
            break;
        const uint8_t *next = NULL, *name = at + 1, *behind_name = name + known_size;
        if (!known || memcmp(name, known, (size_t)known_size) != 0 || !ends_name(*behind_name)) {
            for (behind_name = name; behind_name < end && !ends_name(*behind_name);)
                behind_name++;
            if (behind_name == end)
                break;
            if (is_among(name, behind_name - name, names, names_end)) {
                known = name;
                known_size = behind_name - name;
            } else {
                known = NULL;
                known_size = 0;
            }
        }
        if (known)
            next = element_end(at, end, name, known_size);
        else if (*name == '?' || (*name == '!' && name[1] == '-'))
            next = token_end(at, end);
        if (!next)
            break;
        found = next;
    }
    return found;
}

static PyObject *py_skip(PyObject *self, PyObject *args)
{
    Py_buffer data, names;
    long long enough;
    if (!PyArg_ParseTuple(args, "y*y*L", &data, &names, &enough))
        return NULL;
    const uint8_t *begin = data.buf, *end = begin + data.len, *name = names.buf, *found;
    Py_BEGIN_ALLOW_THREADS
    found = skip(begin, end, name, name + names.len, enough < data.len ? begin + (enough < 0 ? 0 : enough) : end);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    PyBuffer_Release(&names);
    (void)self;
    return PyLong_FromLongLong(found - begin);
}
