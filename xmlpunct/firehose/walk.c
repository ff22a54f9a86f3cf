/* One walk over the bytes of a split: it proves that they are well formed, and fills rows by a tree of paths.
 *
 * It proves or passes on: where it meets what it does not decide, or anything wrong, it gives up, and libxml2 reads
 * the split. Whatever it takes, libxml2 takes, and finds the same in it. Nothing here touches a Python object. */

#include "native.h"

#include <stdlib.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SPACE = 1, START = 2, PART_OF_NAME = 4, URI = 8 };

#define S SPACE
#define N (START | PART_OF_NAME | URI)
#define P (PART_OF_NAME | URI)
#define U URI
static const uint8_t classes[256] = {
    /*       0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f */
    /* 00 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, S, S, 0, 0, S, 0, 0,
    /* 10 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 20 */ S, 0, 0, 0, U, 0, 0, 0, 0, 0, U, U, U, P, P, U,
    /* 30 */ P, P, P, P, P, P, P, P, P, P, U, U, 0, U, 0, 0,
    /* 40 */ U, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N,
    /* 50 */ N, N, N, N, N, N, N, N, N, N, N, 0, 0, 0, 0, N,
    /* 60 */ 0, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N,
    /* 70 */ N, N, N, N, N, N, N, N, N, N, N, 0, 0, 0, U, 0,
};
#undef S
#undef N
#undef P
#undef U

static inline int is_space(uint8_t byte)
{
    return classes[byte] & SPACE;
}

static inline const uint8_t *skip_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

/* Room for `more` bytes; NULL without memory. */
static uint8_t *room(Buffer *buffer, size_t more)
{
    if (buffer->room - buffer->size < more) {
        size_t wanted = 2 * buffer->room + more + 256;
        uint8_t *found = realloc(buffer->at, wanted);
        if (!found)
            return NULL;
        buffer->at = found;
        buffer->room = wanted;
    }
    return buffer->at + buffer->size;
}

static int append(Buffer *buffer, const void *bytes, size_t size)
{
    uint8_t *to = room(buffer, size);
    if (!to)
        return 0;
    if (size)
        memcpy(to, bytes, size);
    buffer->size += size;
    return 1;
}

/* Bytes that may stand as they are. Each of these skips a run of them, 16 at a time where the compiler can. */

#if defined(__SSE2__)
#define SKIP(at, end, STOPS)                                                  \
    while ((end) - (at) >= 16) {                                              \
        __m128i bytes = _mm_loadu_si128((const __m128i *)(at));               \
        unsigned stops = (unsigned)_mm_movemask_epi8(STOPS);                  \
        if (stops)                                                            \
            return (at) + __builtin_ctz(stops);                               \
        (at) += 16;                                                           \
    }
#define IS(byte) _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte))
#define LESS(byte) _mm_cmplt_epi8(bytes, _mm_set1_epi8(byte)) /* signed: all beyond ASCII too */
#define OR(a, b) _mm_or_si128(a, b)
#else
#define SKIP(at, end, STOPS)
#endif

/* Up to `<`, `&`, `]`, a control character but tab and newline, or the first byte beyond ASCII. */
static inline const uint8_t *skip_text(const uint8_t *at, const uint8_t *end)
{
    SKIP(at, end, OR(OR(OR(IS('<'), IS('&')), IS(']')), _mm_andnot_si128(OR(IS('\t'), IS('\n')), LESS(0x20))))
    for (; at < end; at++)
        if (*at == '<' || *at == '&' || *at == ']' || *at >= 0x80 || (*at < 0x20 && *at != '\t' && *at != '\n'))
            break;
    return at;
}

/* Up to `stop`, a control character but tab and newline, or the first byte beyond ASCII. */
static inline const uint8_t *skip_until(const uint8_t *at, const uint8_t *end, char stop)
{
    SKIP(at, end, OR(IS(stop), _mm_andnot_si128(OR(IS('\t'), IS('\n')), LESS(0x20))))
    for (; at < end; at++)
        if (*at == (uint8_t)stop || *at >= 0x80 || (*at < 0x20 && *at != '\t' && *at != '\n'))
            break;
    return at;
}

/* Up to `quote`, `<`, `&`, a control character, or the first byte beyond ASCII. */
static inline const uint8_t *skip_quoted(const uint8_t *at, const uint8_t *end, char quote)
{
    SKIP(at, end, OR(OR(IS(quote), IS('<')), OR(IS('&'), LESS(0x20))))
    for (; at < end; at++)
        if (*at == (uint8_t)quote || *at == '<' || *at == '&' || *at < 0x20 || *at >= 0x80)
            break;
    return at;
}

/* Up to what may follow the part of a name, or to what no name has that we know. */
static inline const uint8_t *skip_name(const uint8_t *at, const uint8_t *end)
{
    SKIP(at, end, OR(OR(OR(IS('>'), IS('/')), OR(IS(':'), IS('='))), LESS(0x21)))
    for (; at < end; at++)
        if (*at <= 0x20 || *at == '>' || *at == '/' || *at == ':' || *at == '=' || *at >= 0x80)
            break;
    return at;
}

/* The size of the character beyond ASCII that begins here; 0 if there is none that XML may hold. */
static inline int character(const uint8_t *at, const uint8_t *end)
{
    int64_t left = end - at;
    if (at[0] < 0xC2)
        return 0;
    if (at[0] < 0xE0)
        return left >= 2 && (at[1] & 0xC0) == 0x80 ? 2 : 0;
    if (at[0] < 0xF0) {
        if (left < 3 || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80)
            return 0;
        if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] > 0x9F))
            return 0;
        return at[0] == 0xEF && at[1] == 0xBF && at[2] > 0xBD ? 0 : 3;
    }
    if (at[0] > 0xF4 || left < 4 || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80 || (at[3] & 0xC0) != 0x80)
        return 0;
    return (at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] > 0x8F) ? 0 : 4;
}

/* The size of the reference that begins here, and the character that it stands for; 0 if we know none. */
static int reference(const uint8_t *at, const uint8_t *end, uint32_t *code)
{
    static const struct {
        const char *text;
        int size;
        char stands_for;
    } known[] = {{"&lt;", 4, '<'}, {"&gt;", 4, '>'}, {"&amp;", 5, '&'}, {"&quot;", 6, '"'}, {"&apos;", 6, '\''}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (end - at >= known[i].size && memcmp(at, known[i].text, (size_t)known[i].size) == 0) {
            *code = (uint32_t)known[i].stands_for;
            return known[i].size;
        }
    if (end - at < 4 || at[1] != '#')
        return 0;
    const uint8_t *here = at + 2;
    uint32_t base = *here == 'x' ? 16 : 10, sum = 0;
    here += base == 16;
    const uint8_t *digits = here;
    for (; here < end && *here != ';'; here++) {
        uint32_t digit = *here - (uint32_t)'0';
        if (digit > 9)
            digit = base == 16 && (*here | 0x20) >= 'a' && (*here | 0x20) <= 'f' ? (*here | 0x20) - 'a' + 10u : 99;
        if (digit > 15 || (sum = sum * base + digit) > 0x10FFFF)
            return 0;
    }
    if (here == end || here == digits || (sum < 0x20 && sum != '\t' && sum != '\n' && sum != '\r'))
        return 0;
    if ((sum >= 0xD800 && sum < 0xE000) || sum == 0xFFFE || sum == 0xFFFF)
        return 0;
    *code = sum;
    return (int)(here + 1 - at);
}

/* The end of the text that begins here: `<` or the end of all; NULL where we do not know. `odd` if it does not stand
 * for itself. */
static inline const uint8_t *text_end(const uint8_t *at, const uint8_t *end, int *odd)
{
    for (;;) {
        at = skip_text(at, end);
        if (at == end || *at == '<')
            return at;
        uint32_t code;
        int size = 1;
        if (*at == ']') {
            if (end - at > 2 && at[1] == ']' && at[2] == '>')
                return NULL;
        } else if (*at == '&' || *at == '\r') {
            *odd = 1;
            size = *at == '\r' ? 1 : reference(at, end, &code);
        } else {
            size = *at < 0x80 ? 0 : character(at, end);
        }
        if (!size)
            return NULL;
        at += size;
    }
}

/* Where `size` bytes of `mark` begin next; `end` if nowhere; NULL before it if something is not for us. */
static const uint8_t *mark_after(const uint8_t *at, const uint8_t *end, const char *mark, int size, int *odd)
{
    for (;;) {
        at = skip_until(at, end, mark[0]);
        if (at == end)
            return at;
        int step = 1;
        if (*at == (uint8_t)mark[0]) {
            if (end - at >= size && memcmp(at, mark, (size_t)size) == 0)
                return at;
        } else if (*at == '\r') {
            *odd = 1;
        } else {
            step = *at < 0x80 ? 0 : character(at, end);
        }
        if (!step)
            return NULL;
        at += step;
    }
}

/* Texts */

enum { CHARACTERS, LITERAL, QUOTED };

/* Add what a piece of the split stands for to a buffer: references and line ends are resolved, and in quotes white
 * space becomes a space. */
static int resolve(Buffer *to, const uint8_t *at, const uint8_t *end, int kind)
{
    uint8_t *out = room(to, (size_t)(end - at)); /* nothing becomes longer */
    if (!out)
        return 0;
    while (at < end) {
        uint8_t byte = *at;
        uint32_t code;
        int size;
        if (byte == '\r') {
            at += end - at > 1 && at[1] == '\n' ? 2 : 1;
            *out++ = kind == QUOTED ? ' ' : '\n';
        } else if (kind == QUOTED && (byte == '\n' || byte == '\t')) {
            *out++ = ' ';
            at++;
        } else if (byte == '&' && kind != LITERAL && (size = reference(at, end, &code))) {
            at += size;
            if (code < 0x80) {
                *out++ = (uint8_t)code;
            } else if (code < 0x800) {
                *out++ = (uint8_t)(0xC0 | code >> 6);
                *out++ = (uint8_t)(0x80 | (code & 0x3F));
            } else {
                if (code < 0x10000) {
                    *out++ = (uint8_t)(0xE0 | code >> 12);
                } else {
                    *out++ = (uint8_t)(0xF0 | code >> 18);
                    *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
                }
                *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
                *out++ = (uint8_t)(0x80 | (code & 0x3F));
            }
        } else {
            *out++ = byte;
            at++;
        }
    }
    to->size = (size_t)(out - to->at);
    return 1;
}

/* Add a piece to the text of the innermost element. */
static int collect(Walk *w, const uint8_t *at, const uint8_t *end, int kind, int odd)
{
    Open *top = w->open + w->depth - 1;
    Buffer *scratch = w->scratch + w->depth;
    if (at == end)
        return DONE;
    if (!top->pieces && !odd) {
        top->pieces = 1;
        top->start = (int32_t)(at - w->data);
        top->size = (int32_t)(end - at);
        return top->size > w->limits.text ? PASS : DONE;
    }
    if (top->pieces < 2) {
        scratch->size = 0;
        if (top->pieces && !append(scratch, w->data + top->start, (size_t)top->size))
            return NO_MEMORY;
        top->pieces = 2;
    }
    if (!(odd ? resolve(scratch, at, end, kind) : append(scratch, at, (size_t)(end - at))))
        return NO_MEMORY;
    return (int64_t)scratch->size > w->limits.text ? PASS : DONE;
}

/* Put a text that is no piece of the split beside it; its place behind all of the split, or -1. */
static int32_t beside(Walk *w, const uint8_t *at, size_t size)
{
    int64_t place = w->whole + (int64_t)w->side.size;
    if (place + (int64_t)size > INT32_MAX || !append(&w->side, at, size))
        return -1;
    return (int32_t)place;
}

/* The text of the innermost element, which is complete; where its place is no longer that of a piece, `*at` says
 * where it is now. */
static inline int32_t whole_text(const Walk *w, const Open *top, const uint8_t **at)
{
    if (top->pieces < 2) {
        *at = w->data + top->start;
        return top->size;
    }
    *at = w->scratch[w->depth].at;
    return (int32_t)w->scratch[w->depth].size;
}

/* Add the text of the innermost element to that of the one around it. */
static int pass_up(Walk *w, Open *top)
{
    const uint8_t *at;
    int32_t size = whole_text(w, top, &at);
    int is_apart = top->pieces > 1, status = DONE;
    w->depth--;
    if (is_apart && top[-1].pieces < 2) { /* there is no place in the split to remember */
        w->scratch[w->depth].size = 0;
        if (top[-1].pieces && !append(w->scratch + w->depth, w->data + top[-1].start, (size_t)top[-1].size))
            status = NO_MEMORY;
        top[-1].pieces = 2;
    }
    if (!status)
        status = collect(w, at, at + size, LITERAL, 0);
    w->depth++;
    return status;
}

static int is_blank(const uint8_t *at, int32_t size)
{
    return skip_space(at, at + size) == at + size;
}

/* Whether a text says `*`, with or without white space around it. */
static int is_star(const uint8_t *at, int32_t size)
{
    const uint8_t *end = at + size;
    at = skip_space(at, end);
    return at < end && *at == '*' && skip_space(at + 1, end) == end;
}

/* Rows */

static int fault(Walk *w, int32_t slot)
{
    if (w->row_fault)
        return DONE;
    w->row_fault = 1;
    Fault found = {w->row, w->rows[w->row].count, slot};
    return append(&w->faults, &found, sizeof found) ? DONE : NO_MEMORY;
}

static inline int set(Walk *w, int32_t slot, int32_t start, int32_t size)
{
    int32_t *cell = w->cells + 2 * slot;
    if (cell[1] >= 0)
        return w->row % 2 ? PASS : fault(w, slot);
    cell[0] = start;
    cell[1] = size;
    return DONE;
}

static int open_row(Walk *w, int32_t kind, int32_t at)
{
    Rows *rows = w->rows + kind;
    int32_t width = w->tree->widths[kind];
    int32_t *cell = (int32_t *)room(&rows->cells, 2 * sizeof(int32_t) * (size_t)width + 1);
    if (!cell)
        return NO_MEMORY;
    w->cells = cell;
    for (int32_t i = 0; i < width; i++, cell += 2) {
        cell[0] = 0;
        cell[1] = -1;
    }
    w->row = kind;
    w->row_at = at;
    w->row_fault = w->dropped = 0;
    return DONE;
}

static int close_row(Walk *w, int32_t end)
{
    Rows *rows = w->rows + w->row;
    int32_t width = w->tree->widths[w->row];
    Head head = {w->row_at, end, w->rows[w->row - w->row % 2].count, w->dropped};
    if (w->marked) {
        uint8_t *marks = w->marks + w->first_cell[w->row];
        for (int32_t slot = 0; slot < width; slot++) {
            w->missed[w->first_cell[w->row] + slot] += marks[slot] && w->cells[2 * slot + 1] < 0;
            marks[slot] = 0;
        }
        w->marked = 0;
    }
    rows->cells.size += 2 * sizeof(int32_t) * (size_t)width;
    rows->count++;
    return append(&rows->heads, &head, sizeof head) ? DONE : NO_MEMORY;
}

/* Take the item of an array that is complete, and make room for the next one. */
static int close_item(Walk *w, const Node *node)
{
    Rows *rows = w->rows + node->item;
    int32_t width = w->tree->widths[node->item], *cells = w->cells + 2 * node->first;
    Head head = {w->rows[w->row].count, 0, 0, 0};
    if (!append(&rows->cells, cells, 2 * sizeof(int32_t) * (size_t)width))
        return NO_MEMORY;
    for (int32_t i = 0; i < width; i++)
        cells[2 * i + 1] = -1;
    rows->count++;
    return append(&rows->heads, &head, sizeof head) ? DONE : NO_MEMORY;
}

/* What is below an element or attribute is missing, if it is, for its namespace: of all slots, or of one. */
static void mark(Walk *w, const Node *node, int32_t only)
{
    for (int32_t i = 0; i < node->below_count; i++) {
        int32_t slot = w->tree->below[node->below + i];
        if (only < 0 || slot == only) {
            w->marks[w->first_cell[node->row] + slot] = 1;
            w->marked = 1;
        }
    }
}

static inline int same(Span a, Span b)
{
    return a.size == b.size && (!a.size || memcmp(a.at, b.at, (size_t)a.size) == 0);
}

/* Count something that was overlooked by its name. */
static int count_name(Walk *w, int32_t node, int32_t attribute, Span space, Span local)
{
    w->overlooked = 1;
    size_t number = w->seen.size / sizeof(Seen), places = w->buckets.size / sizeof(int32_t);
    if (places < 2 * number + 2) {
        size_t wanted = places ? 4 * places : 256;
        w->buckets.size = 0;
        int32_t *all = (int32_t *)room(&w->buckets, wanted * sizeof(int32_t));
        if (!all)
            return NO_MEMORY;
        memset(all, 0xFF, wanted * sizeof(int32_t));
        w->buckets.size = wanted * sizeof(int32_t);
        for (size_t i = 0; i < number; i++) {
            Span name = ((Seen *)w->seen.at)[i].local;
            size_t at = name_hash(load(name.at, name.at + name.size), name.at, name.size) & (wanted - 1);
            while (all[at] >= 0)
                at = (at + 1) & (wanted - 1);
            all[at] = (int32_t)i;
        }
        places = wanted;
    }
    int32_t *all = (int32_t *)w->buckets.at;
    size_t at = name_hash(load(local.at, local.at + local.size), local.at, local.size) & (places - 1);
    for (; all[at] >= 0; at = (at + 1) & (places - 1)) {
        Seen *seen = (Seen *)w->seen.at + all[at];
        if (seen->node == node && seen->attribute == attribute && same(seen->local, local) && same(seen->space, space)) {
            seen->count++;
            return DONE;
        }
    }
    Seen seen = {node, attribute, space, local, 1};
    all[at] = (int32_t)number;
    return append(&w->seen, &seen, sizeof seen) ? DONE : NO_MEMORY;
}

/* Names and namespaces */

static int is_name(const uint8_t *at, int32_t size)
{
    if (size < 1 || !(classes[*at] & START))
        return 0;
    for (int32_t i = 1; i < size; i++)
        if (!(classes[at[i]] & PART_OF_NAME))
            return 0;
    return 1;
}

static inline int is_entry(const Tree *tree, int32_t number, uint64_t head, const uint8_t *name, int32_t size)
{
    const Name *entry = tree->entries + number;
    return entry->head == head && entry->size == size
           && (size <= 8 || memcmp(tree->names + entry->at + 8, name + 8, (size_t)size - 8) == 0);
}

/* The number of a name in a table; -1 if it is not there. */
static inline int32_t find(const Tree *tree, const Table *table, uint64_t head, const uint8_t *name, int32_t size)
{
    for (uint32_t i = name_hash(head, name, size);; i++) {
        int32_t number = tree->buckets[table->bucket + (int32_t)(i & (uint32_t)table->mask)];
        if (number < 0)
            return -1;
        if (is_entry(tree, number, head, name, size))
            return number;
    }
}

static const Space *space_of(const Walk *w, Span prefix)
{
    const Space *first = (const Space *)w->spaces.at;
    for (size_t i = w->spaces.size / sizeof(Space); i-- > 0;)
        if (same(first[i].prefix, prefix))
            return first + i;
    return NULL;
}

static int is_text(Span span, const char *text)
{
    return (size_t)span.size == strlen(text) && memcmp(span.at, text, (size_t)span.size) == 0;
}

/* Whether a namespace is a URI in one of the forms that nobody has anything against. */
static int is_uri(Span uri)
{
    const uint8_t *at = uri.at, *end = uri.at + uri.size;
    for (const uint8_t *i = at; i < end; i++)
        if (!(classes[*i] & URI) && *i != '#' && *i != '?')
            return 0;
    const uint8_t *colon = memchr(at, ':', (size_t)uri.size);
    if (!colon)
        return is_name(at, 1) && !memchr(at, '#', (size_t)uri.size) && !memchr(at, '?', (size_t)uri.size);
    for (const uint8_t *i = at; i < colon; i++)
        if (!(classes[*i] & PART_OF_NAME) || *i == '_')
            return 0;
    if (!(classes[*at] & START) || colon + 1 == end)
        return 0;
    at = colon + 1;
    if (*at == '/' && end - at > 1 && at[1] == '/') {
        const uint8_t *host = at += 2;
        while (at < end && (classes[*at] & PART_OF_NAME))
            at++;
        if (at == host || (at < end && *at != '/' && *at != '#' && *at != '?'))
            return 0;
    }
    const uint8_t *hash = memchr(at, '#', (size_t)(end - at));
    return !hash || !memchr(hash + 1, '#', (size_t)(end - hash - 1));
}

/* The number of a namespace. */
static int32_t space_number(const Tree *tree, Span uri)
{
    for (int32_t i = 0; i < tree->space_count; i++) {
        Span known = {tree->names + tree->spaces[2 * i], tree->spaces[2 * i + 1]};
        if (same(known, uri))
            return i + 1;
    }
    return uri.size ? tree->space_count + 1 : 0;
}

/* Take a declaration. */
static int declare(Walk *w, Span prefix, Span uri)
{
    if (prefix.size > w->limits.name || uri.size > w->limits.name || is_text(prefix, "xml") || is_text(prefix, "xmlns"))
        return PASS;
    if (uri.size ? !is_uri(uri) : prefix.size > 0)
        return PASS;
    if (is_text(uri, "http://www.w3.org/XML/1998/namespace") || is_text(uri, "http://www.w3.org/2000/xmlns/"))
        return PASS;
    Space found = {prefix, uri, space_number(w->tree, uri)};
    if ((int64_t)(w->spaces.size / sizeof found) >= w->limits.namespaces)
        return PASS;
    if (!prefix.size)
        w->unprefixed = found;
    return append(&w->spaces, &found, sizeof found) ? DONE : NO_MEMORY;
}

/* Leave the namespaces behind that an element has declared. */
static void undeclare(Walk *w, int32_t left)
{
    static const Space nowhere = {{(const uint8_t *)"", 0}, {(const uint8_t *)"", 0}, 0};
    w->spaces.size = (size_t)left * sizeof(Space);
    const Space *found = space_of(w, nowhere.prefix);
    w->unprefixed = found ? *found : nowhere;
}

/* Tags */

typedef struct {
    Span prefix, local;
    uint64_t head;
    int32_t count, empty;
} Tag;

/* The name that begins here, and what is behind it. */
static inline int read_name(const uint8_t **at, const uint8_t *end, Span *prefix, Span *local)
{
    const uint8_t *begin = *at, *stop = skip_name(begin, end);
    prefix->size = 0;
    prefix->at = begin;
    if (stop < end && *stop == ':') {
        prefix->size = (int32_t)(stop - begin);
        if (!is_name(begin, prefix->size))
            return PASS;
        begin = stop + 1;
        stop = skip_name(begin, end);
    }
    if (stop == end)
        return PART;
    if (stop == begin)
        return PASS;
    local->at = begin;
    local->size = (int32_t)(stop - begin);
    *at = stop;
    return DONE;
}

/* The value in quotes that begins here, and what is behind it. */
static inline int read_value(const uint8_t **at, const uint8_t *end, Attribute *found)
{
    const uint8_t *here = *at;
    if (here == end)
        return PART;
    uint8_t quote = *here++;
    if (quote != '"' && quote != '\'')
        return PASS;
    found->value.at = here;
    found->odd = 0;
    for (;;) {
        here = skip_quoted(here, end, (char)quote);
        if (here == end)
            return PART;
        uint32_t code;
        int size = 1;
        if (*here == quote)
            break;
        if (*here == '&')
            size = reference(here, end, &code);
        else if (*here != '\t' && *here != '\n' && *here != '\r')
            size = *here < 0x80 ? 0 : character(here, end);
        if (!size)
            return PASS;
        found->odd |= *here < 0x80;
        here += size;
    }
    found->value.size = (int32_t)(here - found->value.at);
    *at = here + 1;
    return DONE;
}

/* The attributes from here to the end of a start tag, and what is behind that. */
static int read_attributes(Walk *w, const uint8_t **at, const uint8_t *end, Tag *tag)
{
    const uint8_t *here = *at;
    for (;;) {
        const uint8_t *gap = here;
        here = skip_space(here, end);
        if (here == end)
            return PART;
        if (*here == '>')
            break;
        if (*here == '/') {
            if (++here == end)
                return PART;
            if (*here != '>')
                return PASS;
            tag->empty = 1;
            break;
        }
        if (here == gap || tag->count >= MOST_ATTRIBUTES || tag->count >= w->limits.attributes)
            return PASS;
        Attribute *found = w->attributes + tag->count;
        int status = read_name(&here, end, &found->prefix, &found->local);
        if (status)
            return status;
        if (!is_name(found->local.at, found->local.size) || found->local.size > w->limits.name)
            return PASS;
        here = skip_space(here, end);
        if (here == end)
            return PART;
        if (*here != '=')
            return PASS;
        here = skip_space(here + 1, end);
        if ((status = read_value(&here, end, found)))
            return status;
        if (found->value.size > w->limits.attribute)
            return PASS;
        found->head = load(found->local.at, end) & first_bytes(found->local.size);
        found->declares = is_text(found->prefix.size ? found->prefix : found->local, "xmlns");
        for (int32_t i = 0; i < tag->count; i++) {
            Attribute *other = w->attributes + i;
            if (other->head == found->head && same(other->local, found->local) && same(other->prefix, found->prefix))
                return PASS;
        }
        tag->count++;
    }
    *at = here + 1;
    return DONE;
}

/* Take the declarations of a tag, and find the namespaces of its attributes, which must all differ. */
static int resolve_spaces(Walk *w, Tag *tag)
{
    static const Span none = {NULL, 0};
    static const Span of_xml = {(const uint8_t *)"http://www.w3.org/XML/1998/namespace", 36};
    for (int32_t i = 0; i < tag->count; i++) {
        Attribute *found = w->attributes + i;
        if (!found->declares)
            continue;
        int status = found->odd ? PASS : declare(w, found->prefix.size ? found->local : none, found->value);
        if (status)
            return status;
    }
    for (int32_t i = 0; i < tag->count; i++) {
        Attribute *found = w->attributes + i;
        found->space = none;
        found->number = 0;
        if (!found->prefix.size || found->declares)
            continue;
        if (is_text(found->prefix, "xml")) {
            found->space = of_xml;
            found->number = space_number(w->tree, of_xml);
        } else {
            const Space *space = space_of(w, found->prefix);
            if (!space)
                return PASS;
            found->space = space->uri;
            found->number = space->space;
        }
        for (int32_t j = 0; j < i; j++) {
            Attribute *other = w->attributes + j;
            if (other->head == found->head && other->space.size && same(other->local, found->local)
                && same(other->space, found->space))
                return PASS;
        }
    }
    return DONE;
}

/* Take the values of a start tag's attributes. */
static int take_attributes(Walk *w, const Node *node, Tag *tag)
{
    const Table *table = w->tree->tables + node->attributes;
    for (int32_t i = 0; i < tag->count; i++) {
        Attribute *found = w->attributes + i;
        if (found->declares)
            continue;
        int32_t number = find(w->tree, table, found->head, found->local.at, found->local.size);
        const int32_t *slots = number < 0 ? NULL : w->tree->targets + (int64_t)number * (w->tree->space_count + 2);
        int32_t slot = slots ? slots[found->number] : -1;
        int status = DONE;
        if (slot >= 0) {
            const uint8_t *at = found->value.at;
            int32_t start = (int32_t)(at - w->data), size = found->value.size;
            if (found->odd) {
                Buffer *scratch = w->scratch + w->depth;
                scratch->size = 0;
                if (!resolve(scratch, at, at + size, QUOTED))
                    return NO_MEMORY;
                size = (int32_t)scratch->size;
                start = beside(w, scratch->at, scratch->size);
                if (start < 0)
                    return PASS;
            }
            status = size > w->limits.text ? PASS : set(w, slot, start, size);
        } else if (node->flags & SAYS) {
            if (!found->prefix.size && found->odd)
                return PASS;
            w->dropped |= !found->prefix.size && !is_star(found->value.at, found->value.size);
        } else {
            if (slots && slots[0] >= 0)
                mark(w, node, slots[0]);
            if (node->flags & GUESSED)
                status = count_name(w, (int32_t)(node - w->tree->nodes), 1, found->space, found->local);
        }
        if (status)
            return status;
    }
    return DONE;
}

/* What there is to do at the end of an element. */
static int finish(Walk *w, int32_t end)
{
    Open *top = w->open + w->depth - 1;
    const Node *node = w->tree->nodes + top->node;
    int status = DONE;
    if (node->flags & (ROW | TEXT)) {
        if (node->flags & VALUE) {
            if (top->pieces < 2) {
                status = set(w, node->slot, top->start, top->size);
            } else {
                Buffer *scratch = w->scratch + w->depth;
                int32_t start = beside(w, scratch->at, scratch->size);
                status = start < 0 ? PASS : set(w, node->slot, start, (int32_t)scratch->size);
            }
        } else if (node->flags & TEXT) {
            const uint8_t *at;
            int32_t size = whole_text(w, top, &at);
            if (node->flags & OPEN && !top->parts)
                w->dropped |= !is_star(at, size);
            else if (node->flags & GUESSED)
                w->counts[2 * (node->row / 2) + 1] += !is_blank(at, size);
            else if (node->flags & (BLANK | OPEN) && !is_blank(at, size))
                status = PASS;
        }
        if (!status && node->flags & INTO)
            status = pass_up(w, top);
        if (!status && node->flags & ROW)
            status = close_row(w, end);
    }
    if (node->flags & ITEM && !status)
        status = close_item(w, node);
    if (w->spaces.size > (size_t)top->spaces * sizeof(Space))
        undeclare(w, top->spaces);
    w->depth--;
    if (w->depth < w->outer)
        w->outer = 0;
    if (w->depth < w->first)
        w->first = w->depth;
    return status;
}

/* What there is to do at the beginning of an element, beside its attributes. */
static int begin(Walk *w, const Node *node, Span space, Span local)
{
    int32_t flags = node->flags;
    if (flags & WRONG)
        return PASS;
    if (flags & ROW)
        return open_row(w, node->row, w->outer_at);
    if (flags & MARKS)
        mark(w, node, -1);
    if (flags & NESTED) {
        w->overlooked = 1;
        w->counts[2 * (node->row / 2)]++;
    }
    if (flags & UNDECLARED)
        return count_name(w, (int32_t)(node - w->tree->nodes), 0, space, local);
    return DONE;
}

/* Most elements hold one text and have no attributes. Take the text of such a one, and its end tag, behind its start
 * tag, where `*at` is, which moves if it is so. */
static inline int take_leaf(Walk *w, const Node *node, uint64_t head, const uint8_t *name, int32_t size, const uint8_t **at)
{
    const uint8_t *begin = *at, *stop = skip_text(begin, w->end), *again = stop + 2;
    if (w->end - stop < size + 3 || stop[0] != '<' || stop[1] != '/' || again[size] != '>'
        || stop - begin > w->limits.text || w->inside >= w->limits.inside)
        return DONE;
    if ((load(again, w->end) & first_bytes(size)) != head || (size > 8 && memcmp(again, name, (size_t)size) != 0))
        return DONE;
    *at = again + size + 1;
    w->inside++;
    w->open[w->depth - 1].parts = 1;
    return node->flags & VALUE ? set(w, node->slot, (int32_t)(begin - w->data), (int32_t)(stop - begin)) : DONE;
}

/* The entry that is to be expected behind one: mostly names come in the order in which they were declared. */
static inline int32_t next_entry(const Table *table, int32_t entry)
{
    return entry + 1 < table->first + table->count ? entry + 1 : table->first;
}

/* Take the element that begins here, if it has the expected name and holds one text; else `*at` stays. */
static inline int take_expected(Walk *w, const uint8_t **at)
{
    Open *top = w->open + w->depth - 1;
    if (top->next < 0 || !top->node || w->depth >= w->limits.depth)
        return DONE;
    const Tree *tree = w->tree;
    const Name *entry = tree->entries + top->next;
    const uint8_t *name = *at + 1, *behind = name + entry->size + 1;
    int32_t size = entry->size;
    if (w->end - name <= size || (load(name, w->end) & first_bytes(size)) != entry->head || name[size] != '>'
        || (size > 8 && memcmp(name, tree->names + entry->at, (size_t)size) != 0))
        return DONE;
    const Node *node = tree->nodes + tree->targets[(int64_t)top->next * (tree->space_count + 2) + w->unprefixed.space];
    if (!(node->flags & LEAF))
        return DONE;
    int status = take_leaf(w, node, entry->head, name, size, &behind);
    if (behind > name + size + 1) {
        top->next = next_entry(tree->tables + tree->nodes[top->node].children, top->next);
        *at = behind;
    }
    return status;
}

/* Decide by a start tag's attributes which node an element is. */
static int choose(const Walk *w, const Tag *tag, int32_t *number)
{
    const Tree *tree = w->tree;
    while (tree->nodes[*number].flags & CHOICE) {
        const Condition *one = tree->conditions + tree->nodes[*number].below;
        Span name = {tree->names + one->name, one->name_size}, value = {tree->names + one->value, one->value_size};
        *number = one->no;
        for (int32_t i = 0; i < tag->count; i++) {
            const Attribute *found = w->attributes + i;
            if (found->declares || found->number != one->space || !same(found->local, name))
                continue;
            if (found->odd)
                return PASS;
            if (same(found->value, value))
                *number = one->yes;
        }
    }
    return DONE;
}

/* Take the start tag, or empty element, that begins here. */
static int start_tag(Walk *w, const uint8_t **at, const uint8_t *base, const uint8_t *end)
{
    const Tree *tree = w->tree;
    const uint8_t *tag_at = *at, *here = tag_at + 1;
    Tag tag;
    int status = read_name(&here, end, &tag.prefix, &tag.local);
    if (status)
        return status;
    tag.count = tag.empty = 0;
    if (*here == '>')
        here++;
    else if ((status = read_attributes(w, &here, end, &tag)))
        return status;
    if (here - tag_at > w->limits.tag || w->depth >= w->limits.depth || w->depth >= DEEPEST
        || tag.local.size > w->limits.name)
        return PASS;
    if (!w->depth) {
        if (w->rooted)
            return PASS;
        w->rooted = 1;
    }
    int32_t spaces = (int32_t)(w->spaces.size / sizeof(Space));
    if (tag.count && (status = resolve_spaces(w, &tag)))
        return status;
    const Space *space = tag.prefix.size ? space_of(w, tag.prefix) : &w->unprefixed;
    if (!space)
        return PASS;
    int32_t parent = w->depth ? w->open[w->depth - 1].node : 0, number = 0;
    const Table *table = tree->tables + tree->nodes[parent].children;
    tag.head = load(tag.local.at, end) & first_bytes(tag.local.size);
    int32_t entry = w->depth ? w->open[w->depth - 1].next : -1; /* mostly they come in the order declared */
    if (entry < 0 || !is_entry(tree, entry, tag.head, tag.local.at, tag.local.size))
        entry = find(tree, table, tag.head, tag.local.at, tag.local.size);
    if (w->depth && entry >= 0)
        w->open[w->depth - 1].next = next_entry(table, entry);
    if (entry >= 0)
        number = tree->targets[(int64_t)entry * (tree->space_count + 2) + space->space];
    else if (is_name(tag.local.at, tag.local.size))
        number = table->other;
    else
        return PASS;
    if (tree->nodes[number].flags & CHOICE && (status = choose(w, &tag, &number)))
        return status;
    const Node *node = tree->nodes + number;
    if (parent && node->flags & LEAF && !tag.count && !tag.empty && !tag.prefix.size && base == w->data) {
        const uint8_t *behind = here;
        status = take_leaf(w, node, tag.head, tag.local.at, tag.local.size, &behind);
        if (behind > here) {
            *at = behind;
            return status;
        }
    }
    Open *top = w->open + w->depth;
    top->name.at = tag_at + 1;
    top->name.size = (int32_t)(tag.local.at + tag.local.size - top->name.at);
    top->head = tag.prefix.size ? load(top->name.at, end) & first_bytes(top->name.size) : tag.head;
    top->tag.at = tag_at;
    top->tag.size = (int32_t)(here - tag_at);
    top->node = number;
    top->spaces = spaces;
    top->start = top->size = top->pieces = top->parts = 0;
    table = tree->tables + node->children;
    top->next = table->count ? table->first : -1;
    if (w->depth)
        top[-1].parts = 1;
    w->depth++;
    if (number) {
        w->inside = parent ? w->inside + 1 : 0;
        w->inside += tag.count;
        if (w->inside > w->limits.inside)
            return PASS;
        if (!parent) {
            w->outer = w->depth;
            w->outer_at = (int32_t)(tag_at - base);
            w->overlooked = 0;
        }
        if (node->flags & ~(VALUE | TEXT | SAYS | BLANK | OPEN | GUESSED | LEAF | INTO | ITEM)
            && (status = begin(w, node, space->uri, tag.local)))
            return status;
        if (tag.count && (status = take_attributes(w, node, &tag)))
            return status;
    }
    *at = here;
    return tag.empty ? finish(w, (int32_t)(here - base)) : DONE;
}

static inline int end_tag(Walk *w, const uint8_t **at)
{
    if (!w->depth)
        return PASS;
    Open *top = w->open + w->depth - 1;
    const uint8_t *name = *at + 2, *here = name + top->name.size;
    if (w->end - name <= top->name.size)
        return PART;
    if ((load(name, w->end) & first_bytes(top->name.size)) != top->head
        || (top->name.size > 8 && memcmp(name, top->name.at, (size_t)top->name.size) != 0))
        return PASS;
    if (*here != '>') {
        here = skip_space(here, w->end);
        if (here == w->end)
            return PART;
        if (*here != '>')
            return PASS;
    }
    *at = here + 1;
    return finish(w, (int32_t)(here + 1 - w->data));
}

/* Take the comment or the CDATA section that begins here. */
static int other_markup(Walk *w, const uint8_t **at)
{
    static const char cdata[] = "<![CDATA[";
    const uint8_t *here = *at, *end = w->end;
    int64_t left = end - here;
    int odd = 0;
    if (left >= 4 && here[2] == '-' && here[3] == '-') {
        const uint8_t *stop = mark_after(here + 4, end, "--", 2, &odd);
        if (!stop || (stop < end && end - stop > 2 && stop[2] != '>') || stop - here > w->limits.text)
            return PASS;
        if (end - stop < 3)
            return PART;
        *at = stop + 3;
        return DONE;
    }
    if (left < 9)
        return PART;
    if (memcmp(here, cdata, 9) != 0)
        return PASS;
    if (!w->depth)
        return PASS;
    const uint8_t *stop = mark_after(here + 9, end, "]]>", 3, &odd);
    if (!stop || stop - here > w->limits.text)
        return PASS;
    if (stop == end)
        return PART;
    *at = stop + 3;
    if (w->tree->nodes[w->open[w->depth - 1].node].flags & TEXT)
        return collect(w, here + 9, stop, LITERAL, odd);
    return DONE;
}

/* Walk over the data, inside the elements that some start tags open. */
int walk(Walk *w, const uint8_t *opened, int64_t size)
{
    int status;
    for (const uint8_t *at = opened; at < opened + size;) {
        int32_t before = w->depth;
        if (*at != '<' || (status = start_tag(w, &at, opened, opened + size)) || w->depth == before)
            return PASS;
    }
    if (w->outer && (!w->part || w->cells))
        return PASS;
    w->outer_at = -1;
    w->kept = w->first = w->depth;
    const uint8_t *at = w->data, *end = w->end;
    for (;;) {
        const uint8_t *begin = at;
        if (at < end && *at != '<') {
            int odd = 0;
            if (!(at = text_end(begin, end, &odd)) || at - begin > w->limits.text)
                return PASS;
            if (!w->depth) {
                if (!is_blank(begin, (int32_t)(at - begin)))
                    return PASS;
            } else if (at < end && w->tree->nodes[w->open[w->depth - 1].node].flags & TEXT
                       && (status = collect(w, begin, at, CHARACTERS, odd))) {
                return status;
            }
        }
        if (at == end)
            return DONE;
        if (end - at < 2)
            return PART;
        const uint8_t *tag = at;
        status = w->depth && at[1] != '/' ? take_expected(w, &at) : DONE;
        if (at == tag && at[1] == '/')
            status = end_tag(w, &at);
        else if (at == tag && at[1] == '!')
            status = other_markup(w, &at);
        else if (at == tag)
            status = at[1] == '?' ? PASS : start_tag(w, &at, w->data, end);
        if (status)
            return status;
        w->sound = (int32_t)(at - w->data);
        if (w->part && w->rooted && !w->depth)
            return DONE;
    }
}

Walk *walk_new(const Tree *tree, const uint8_t *data, int64_t size, int64_t whole, int part)
{
    Walk *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    size_t rows = (size_t)tree->row_count + 1, cells = (size_t)tree->cell_count + 1;
    w->tree = tree;
    w->data = data;
    w->end = data + size;
    w->whole = whole;
    w->part = part;
    w->limits = tree->limits;
    if (w->limits.text > MOST_TEXT)
        w->limits.text = MOST_TEXT;
    w->rows = calloc(rows, sizeof *w->rows);
    w->counts = calloc(rows, sizeof *w->counts);
    w->first_cell = calloc(rows, sizeof *w->first_cell);
    w->missed = calloc(cells, sizeof *w->missed);
    w->marks = calloc(cells, 1);
    if (!w->rows || !w->counts || !w->first_cell || !w->missed || !w->marks) {
        walk_free(w);
        return NULL;
    }
    for (int32_t i = 0, first = 0; i < tree->row_count; first += tree->widths[i++])
        w->first_cell[i] = first;
    return w;
}

void walk_free(Walk *w)
{
    for (int32_t i = 0; w->rows && i < w->tree->row_count; i++) {
        free(w->rows[i].heads.at);
        free(w->rows[i].cells.at);
    }
    for (int32_t i = 0; i <= DEEPEST; i++)
        free(w->scratch[i].at);
    Buffer *all[] = {&w->side, &w->spaces, &w->faults, &w->seen, &w->buckets};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->at);
    free(w->rows);
    free(w->counts);
    free(w->first_cell);
    free(w->missed);
    free(w->marks);
    free(w);
}
