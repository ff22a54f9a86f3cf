/* The parts of a start tag: names, namespaces and attributes. */

/* True if a character beyond ASCII, of `size` bytes, may be in a name, or `begins` it. */
static RARE int is_name_character(const uint8_t *at, int size, int begins)
{
    static const uint32_t starts[][2] = {
        {0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2FF},    {0x370, 0x37D},   {0x37F, 0x1FFF},    {0x200C, 0x200D},
        {0x2070, 0x218F}, {0x2C00, 0x2FEF}, {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF},
    };
    uint32_t code = *at & (0xFFu >> (size + 1));
    for (int i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3F);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (code >= starts[i][0] && code <= starts[i][1])
            return 1;
    return !begins && (code == 0xB7 || (code >= 0x300 && code <= 0x36F) || code == 0x203F || code == 0x2040);
}

/* `is_name`, for names that may have characters beyond ASCII. */
static RARE int is_any_name(const uint8_t *at, int32_t size)
{
    for (int32_t i = 0, step = 1; i < size; i += step) {
        step = at[i] < 0x80 ? 1 : character(at + i, at + size);
        if (at[i] < 0x80 ? !(classes[at[i]] & (i ? PART_OF_NAME : START)) : !step || !is_name_character(at + i, step, !i))
            return 0;
    }
    return size > 0;
}

static inline int is_name(const uint8_t *at, int32_t size)
{
    if (size < 1 || !(classes[*at] & START))
        return is_any_name(at, size);
    for (int32_t i = 1; i < size; i++)
        if (!(classes[at[i]] & PART_OF_NAME))
            return is_any_name(at, size);
    return 1;
}

/* The end of the name part from here, including characters beyond ASCII. */
static RARE const uint8_t *skip_any_name(const uint8_t *at, const uint8_t *end)
{
    int size;
    while (at < end && *at >= 0x80 && (size = character(at, end)))
        at = skip_name(at + size, end);
    return at;
}

static inline int is_entry(const Tree *tree, int32_t number, uint64_t head, const uint8_t *name, int32_t size)
{
    const Name *entry = tree->entries + number;
    return entry->head == head && entry->size == size
           && (size <= 8 || memcmp(tree->names + entry->at + 8, name + 8, (size_t)size - 8) == 0);
}

/* The number of a name in a table; -1 if it is absent. */
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

/* The index in `order` of a table's first entry. */
static inline int32_t before_first(const Tree *tree, int32_t table)
{
    return tree->entry_count + table;
}

/* The number of a name in a table, or -1. Names mostly repeat the order of the last element, so that is tried first. */
static inline int32_t find_next(Walk *w, const Table *table, int32_t *last, uint64_t head, Span name)
{
    if (!table->count)
        return -1;
    int32_t number = w->order[*last];
    if (!is_entry(w->tree, number, head, name.at, name.size)) {
        number = find(w->tree, table, head, name.at, name.size);
        if (number < 0)
            return -1;
        w->order[*last] = number;
    }
    return *last = number;
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

/* True if a namespace is a URI in a form that libxml2 accepts without a warning. */
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

/* The number of a namespace: 0 for none, the last number for one that the tree does not have. */
static int32_t space_number(const Tree *tree, Span uri)
{
    for (int32_t i = 0; i < tree->space_count; i++) {
        Span known = {tree->names + tree->spaces[2 * i], tree->spaces[2 * i + 1]};
        if (same(known, uri))
            return i + 1;
    }
    return uri.size ? tree->space_count + 1 : 0;
}

/* Add a namespace declaration. */
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

/* Remove the namespaces that an element has declared. */
static void undeclare(Walk *w, int32_t left)
{
    static const Space nowhere = {{(const uint8_t *)"", 0}, {(const uint8_t *)"", 0}, 0};
    w->spaces.size = (size_t)left * sizeof(Space);
    const Space *found = space_of(w, nowhere.prefix);
    w->unprefixed = found ? *found : nowhere;
}

typedef struct {
    Span prefix, local;
    uint64_t head;
    int32_t count, empty;
    int is_spaced; /* whether attributes have prefixes or are declarations */
} Tag;

/* The end of the name part that begins here; `at` itself if no name begins. */
static inline const uint8_t *name_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = skip_name(at, end);
    if (stop < end && *stop >= 0x80) {
        stop = skip_any_name(stop, end);
        if (stop < end && *stop >= 0x80 && end - stop < 4)
            return end; /* the character may be incomplete */
        return is_any_name(at, (int32_t)(stop - at)) ? stop : at;
    }
    return classes[*at] & START ? stop : at;
}

/* Read the name that begins here, and move `*at` after it. */
static inline int read_name(const uint8_t **at, const uint8_t *end, Span *prefix, Span *local)
{
    const uint8_t *begin = *at, *stop = begin < end ? name_end(begin, end) : end;
    prefix->size = 0;
    prefix->at = begin;
    if (stop < end && *stop == ':' && stop > begin) {
        prefix->size = (int32_t)(stop - begin);
        begin = stop + 1;
        stop = begin < end ? name_end(begin, end) : end;
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

/* Read the quoted value that begins here, and move `*at` after it. */
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
        here = quote == '"' ? skip_quoted(here, end, '"') : skip_quoted(here, end, '\'');
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

static inline int is_xmlns(Span name)
{
    return name.size == 5 && memcmp(name.at, "xmlns", 5) == 0;
}

/* True if the attribute name that begins here is the expected one, which is then stored in `found`. */
static inline int is_hinted(const Hint *hint, const uint8_t *at, const uint8_t *end, Attribute *found)
{
    if (!hint->size || (load(at, end) & hint->mask) != hint->closed)
        return 0;
    found->prefix.size = 0;
    found->local.at = at;
    found->local.size = hint->size;
    found->head = hint->head;
    return 1;
}

/* Read the attribute name that begins here, and store it as the expected name for the next tag. */
static int read_attribute_name(const Walk *w, Hint *hint, const uint8_t *at, const uint8_t *end, Attribute *found)
{
    int status = read_name(&at, end, &found->prefix, &found->local);
    if (status)
        return status;
    int32_t size = found->local.size;
    if (size > w->limits.name)
        return PASS;
    found->head = load(found->local.at, end) & first_bytes(size);
    if (!found->prefix.size && size < 8 && *at == '=') {
        hint->head = found->head;
        hint->mask = first_bytes(size + 1);
        hint->closed = load(found->local.at, end) & hint->mask;
        hint->size = size;
    }
    return DONE;
}

/* Read the attributes up to the end of a start tag, and move `*at` after the tag. */
static int read_attributes(Walk *w, const uint8_t **at, const uint8_t *end, Tag *tag)
{
    const uint8_t *here = *at;
    Hint *hints = w->hints[name_hash(tag->head, tag->local.at, tag->local.size) % HINTED_TAGS];
    for (;;) {
        const uint8_t *gap = here;
        if (here < end && *here == ' ')
            here++;
        if (here == end || !(classes[*here] & START))
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
        Hint *hint = hints + (tag->count < HINTED ? tag->count : HINTED - 1);
        int status = DONE;
        if (!is_hinted(hint, here, end, found) && (status = read_attribute_name(w, hint, here, end, found)))
            return status;
        here = found->local.at + found->local.size;
        if (*here != '=')
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
        found->declares = is_xmlns(found->prefix.size ? found->prefix : found->local);
        found->space.size = found->number = 0;
        tag->is_spaced |= found->declares || found->prefix.size;
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

/* Add the namespace declarations of a tag, and resolve its attributes' namespaces; expanded names must be distinct. */
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
