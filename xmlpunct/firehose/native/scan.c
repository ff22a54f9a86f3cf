/* Character classes, and functions that skip characters of a class. */

/* A mask of the first `count` bytes of a word. */
static inline uint64_t first_bytes(int32_t count)
{
    if (count >= 8)
        return ~(uint64_t)0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return ~(~(uint64_t)0 >> 8 * count);
#else
    return ((uint64_t)1 << 8 * count) - 1;
#endif
}

/* A word that repeats one byte. */
#define EVERY(byte) (~(uint64_t)0 / 255 * (uint8_t)(byte))

static inline uint64_t load(const uint8_t *at, const uint8_t *end)
{
    uint64_t found = 0;
    if (end - at >= 8)
        memcpy(&found, at, 8);
    else if (end > at)
        memcpy(&found, at, (size_t)(end - at));
    return found;
}

static inline uint32_t name_hash(uint64_t head, const uint8_t *name, int32_t size)
{
    uint64_t last = 0;
    if (size > 8)
        memcpy(&last, name + size - 8, 8);
    uint64_t mixed = (head ^ last * 31 ^ (uint64_t)size << 56) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 40);
}

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

/* Reserve `more` bytes at the end of a buffer; NULL without memory. */
static inline uint8_t *room(Buffer *buffer, size_t more)
{
    if (buffer->room - buffer->size < more) {
        size_t wanted = 4 * buffer->room + more + 256;
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

/* Each of these functions skips bytes that need no processing, 16 at a time if the processor supports it. */

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
#define LESS(byte) _mm_cmplt_epi8(bytes, _mm_set1_epi8(byte)) /* signed: includes all bytes beyond ASCII */
#define OR(a, b) _mm_or_si128(a, b)
#define NO(a, b) _mm_andnot_si128(a, b)
#else
#define SKIP(at, end, STOPS)
#endif

/* Up to `<`, `&`, `]`, a control character but tab and newline, or the first byte beyond ASCII. */
static inline const uint8_t *skip_text(const uint8_t *at, const uint8_t *end)
{
    SKIP(at, end, OR(OR(OR(IS('<'), IS('&')), IS(']')), NO(OR(IS('\t'), IS('\n')), LESS(0x20))))
    for (; at < end; at++)
        if (*at == '<' || *at == '&' || *at == ']' || *at >= 0x80 || (*at < 0x20 && *at != '\t' && *at != '\n'))
            break;
    return at;
}

/* Up to `stop`, a control character but tab and newline, or the first byte beyond ASCII. */
static inline const uint8_t *skip_until(const uint8_t *at, const uint8_t *end, char stop)
{
    SKIP(at, end, OR(IS(stop), NO(OR(IS('\t'), IS('\n')), LESS(0x20))))
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

/* The end of the ASCII letters, digits and `-._` from here. A simple loop: names are short, and their lengths repeat,
 * so that the processor predicts the branches. */
static inline const uint8_t *skip_name(const uint8_t *at, const uint8_t *end)
{
    while (at < end && classes[*at] & PART_OF_NAME)
        at++;
    return at;
}

/* The size of the character beyond ASCII that begins here; 0 if it is malformed or not allowed in XML. */
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

/* The size of the reference that begins here, and its character; 0 if it is invalid or not predefined. */
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

/* The end of the text that begins here: `<` or the end of the data; NULL if libxml2 must decide. `odd`: the text has
 * references or carriage returns to resolve. */
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

/* The next occurrence of `mark`, of `size` bytes; `end` if there is none; NULL if a byte before it is not allowed. */
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

enum { CHARACTERS, LITERAL, QUOTED };

/* Append a piece of the split to a buffer, with references and line ends resolved; in quotes, white space becomes
 * spaces. */
static int resolve(Buffer *to, const uint8_t *at, const uint8_t *end, int kind)
{
    uint8_t *out = room(to, (size_t)(end - at)); /* no character becomes longer */
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

static inline int same(Span a, Span b)
{
    return a.size == b.size && (!a.size || memcmp(a.at, b.at, (size_t)a.size) == 0);
}
