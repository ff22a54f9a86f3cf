/* One walk over the bytes of a split: it proves that they are well formed, and fills rows by a tree of paths.
 *
 * At malformed or unsupported markup it gives up, and libxml2 reads the split. Each split that it accepts, libxml2
 * accepts too, with the same result. No function here touches a Python object. */

/* Take the values of a start tag's attributes. */
static int take_attributes(Walk *w, const Node *node, Tag *tag)
{
    const Table *table = w->tree->tables + node->attributes;
    int32_t last = before_first(w->tree, node->attributes);
    for (int32_t i = 0; i < tag->count; i++) {
        Attribute *found = w->attributes + i;
        if (found->declares)
            continue;
        int32_t number = find_next(w, table, &last, found->head, found->local);
        const int32_t *slots = number < 0 ? NULL : w->tree->targets + (int64_t)number * (w->tree->space_count + 2);
        int32_t slot = slots ? slots[found->number] : -1;
        int status = DONE;
        if (slot != -1) {
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
            status = size > w->limits.text ? PASS : slot >= 0 ? set(w, slot, start, size) : set_each(w, slot, start, size);
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

/* Set the end of a RAW element's cell, unless the cell holds an earlier element. */
static RARE int end_raw(Walk *w, const Node *node, int32_t end)
{
    Cell *cell = (Cell *)w->cells + w->tree->more[node->more].raw;
    if (cell->start == w->open[w->depth - 1].tag.at - w->data)
        cell->size = end - cell->start;
    return DONE;
}

/* Handle the end of an element. */
static int finish(Walk *w, int32_t end)
{
    Open *top = w->open + w->depth - 1;
    const Node *node = w->tree->nodes + top->node;
    int status = DONE;
    if (node->flags & (ROW | TEXT | SAID | RAW)) {
        if (node->flags & (SAID | RAW))
            status = node->flags & SAID ? end_around(w, node, end) : end_raw(w, node, end);
        if (node->flags & VALUE) {
            int32_t start = top->start, size = top->size;
            if (top->pieces > 1) {
                Buffer *scratch = w->scratch + w->depth;
                start = beside(w, scratch->at, scratch->size);
                size = (int32_t)scratch->size;
            }
            status = start < 0 ? PASS : node->slot >= 0 ? set(w, node->slot, start, size) : set_each(w, node->slot, start, size);
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

/* The position counters of the children of the innermost element. */
static inline int32_t *counters(const Walk *w)
{
    return w->counters + (int64_t)w->depth * w->tree->counter_count;
}

static RARE void count_anew(Walk *w)
{
    memset(counters(w), 0, sizeof(int32_t) * (size_t)w->tree->counter_count);
}

/* Handle the beginning of an element at offset `at`, without its attributes. */
static int begin(Walk *w, const Node *node, Span space, Span local, int32_t at)
{
    int32_t flags = node->flags;
    if (flags & (WRONG | COUNTS)) {
        if (flags & WRONG)
            return PASS;
        count_anew(w);
    }
    if (flags & ROW) {
        int status = open_row(w, node->row, at);
        return status || !w->given ? status : inherit(w, node->row, at);
    }
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

/* Take the value of a LEAF element. */
static inline int take_value(Walk *w, const Node *node, const uint8_t *at, const uint8_t *end)
{
    w->inside++;
    w->open[w->depth - 1].parts = 1;
    return node->flags & VALUE ? set(w, node->slot, (int32_t)(at - w->data), (int32_t)(end - at)) : DONE;
}

/* Fast path for an element with one text: after the start tag, at `*at`, take the text and the end tag. `*at` is
 * unchanged if the element has other content. */
static inline int take_leaf(Walk *w, const Node *node, uint64_t head, Span name, const uint8_t **at)
{
    const uint8_t *begin = *at, *stop = skip_text(begin, w->end), *again = stop + 2;
    int32_t size = name.size;
    if (w->end - stop < size + 3 || stop[0] != '<' || stop[1] != '/' || again[size] != '>'
        || stop - begin > w->limits.text || w->inside >= w->limits.inside)
        return DONE;
    if ((load(again, w->end) & first_bytes(size)) != head || (size > 8 && memcmp(again, name.at, (size_t)size) != 0))
        return DONE;
    *at = again + size + 1;
    return take_value(w, node, begin, stop);
}

/* True if this name and `>` are here; the caller checks that 8 bytes, and more than the name, follow. */
static inline int is_closed(const Tree *tree, const Name *entry, const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return (word & entry->mask) == entry->closed
           && (entry->size < 8
               || (at[entry->size] == '>' && memcmp(at + 8, tree->names + entry->at + 8, (size_t)entry->size - 8) == 0));
}

/* Take the elements that begin here while each has the expected name, no attributes, and one text. */
static inline int take_expected(Walk *w, const uint8_t **at)
{
    Open *top = w->open + w->depth - 1;
    const Tree *tree = w->tree;
    const Node *above = tree->nodes + top->node;
    if (above->flags & OUTSIDE || !tree->tables[above->children].count || w->depth >= w->limits.depth)
        return DONE;
    const int32_t *targets = tree->targets + w->unprefixed.space, *order = w->order;
    const int64_t wide = tree->space_count + 2, most = w->limits.text;
    const uint8_t *here = *at, *const data = w->data, *const end = w->end;
    int64_t left = w->limits.inside - w->inside;
    int32_t last = top->last;
    int status = DONE;
    for (; left > 0 && !status; left--) {
        int32_t number = order[last];
        const Name *entry = tree->entries + number;
        const Node *node = tree->nodes + targets[number * wide];
        const int64_t size = entry->size;
        const uint8_t *begin = here + size + 2;
        if (end - begin < 8 || *here != '<' || !is_closed(tree, entry, here + 1) || !(node->flags & LEAF))
            break;
        const uint8_t *stop = skip_text(begin, end);
        if (end - stop < size + 10 || stop[0] != '<' || stop[1] != '/' || !is_closed(tree, entry, stop + 2)
            || stop - begin > most)
            break;
        if (node->flags & VALUE)
            status = set(w, node->slot, (int32_t)(begin - data), (int32_t)(stop - begin));
        here = stop + size + 3;
        last = number;
    }
    if (here > *at) {
        w->inside = w->limits.inside - left;
        top->parts = 1;
        top->last = last;
        *at = here;
    }
    return status;
}

/* Select the node of an element by its attributes, or by its position among its siblings. */
static int choose(Walk *w, const Tag *tag, int32_t *number)
{
    const Tree *tree = w->tree;
    while (tree->nodes[*number].flags & CHOICE) {
        const Condition *one = tree->conditions + tree->nodes[*number].below;
        Span name = {tree->names + one->name, one->name_size}, value = {tree->names + one->value, one->value_size};
        *number = one->no;
        if (!one->name_size) {
            int32_t *count = counters(w) + one->space;
            if (one->value ? *count == one->value : ++*count)
                *number = one->yes;
            continue;
        }
        for (int32_t i = 0; i < tag->count; i++) {
            const Attribute *found = w->attributes + i;
            if (found->declares || found->number != one->space || !same(found->local, name))
                continue;
            Span given = found->value;
            if (found->odd) {
                Buffer *scratch = w->scratch + w->depth + 1; /* the parent's scratch may be in use */
                scratch->size = 0;
                if (!resolve(scratch, given.at, given.at + given.size, QUOTED))
                    return NO_MEMORY;
                given.at = scratch->at;
                given.size = (int32_t)scratch->size;
            }
            if (same(given, value))
                *number = one->yes;
        }
    }
    return DONE;
}

/* Read the start tag or empty-element tag that begins here. */
static int start_tag(Walk *w, const uint8_t **at, const uint8_t *base, const uint8_t *end)
{
    const Tree *tree = w->tree;
    const uint8_t *tag_at = *at, *here = tag_at + 1;
    Tag tag;
    int status = read_name(&here, end, &tag.prefix, &tag.local);
    if (status)
        return status;
    tag.count = tag.empty = tag.is_spaced = 0;
    tag.head = load(tag.local.at, end) & first_bytes(tag.local.size);
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
    if (tag.is_spaced && (status = resolve_spaces(w, &tag)))
        return status;
    const Space *space = tag.prefix.size ? space_of(w, tag.prefix) : &w->unprefixed;
    if (!space)
        return PASS;
    const Node *above = tree->nodes + (w->depth ? w->open[w->depth - 1].node : 0);
    const Table *table = tree->tables + above->children;
    int32_t number, is_inside = !(above->flags & OUTSIDE), first = before_first(tree, above->children);
    int32_t entry = find_next(w, table, w->depth ? &w->open[w->depth - 1].last : &first, tag.head, tag.local);
    if (entry >= 0)
        number = tree->targets[(int64_t)entry * (tree->space_count + 2) + space->space];
    else
        number = table->other;
    if (tree->nodes[number].flags & CHOICE && (status = choose(w, &tag, &number)))
        return status;
    const Node *node = tree->nodes + number;
    Span name = {tag_at + 1, (int32_t)(tag.local.at + tag.local.size - tag_at - 1)};
    uint64_t head = tag.prefix.size ? load(name.at, end) & first_bytes(name.size) : tag.head;
    if (is_inside && node->flags & LEAF && base == w->data && spaces == (int32_t)(w->spaces.size / sizeof(Space))
        && (!tag.count || !(tree->tables[node->attributes].count || node->flags & SAYS))) {
        const uint8_t *behind = here;
        if (w->inside + tag.count >= w->limits.inside)
            return PASS;
        if (tag.empty)
            status = take_value(w, node, w->data, w->data);
        else
            status = take_leaf(w, node, head, name, &behind);
        if (tag.empty || behind > here) {
            w->inside += tag.count;
            *at = behind;
            return status;
        }
    }
    Open *top = w->open + w->depth;
    top->name = name;
    top->head = head;
    top->tag.at = tag_at;
    top->tag.size = (int32_t)(here - tag_at);
    top->node = number;
    top->spaces = spaces;
    top->start = top->size = top->pieces = top->parts = 0;
    top->last = before_first(tree, node->children);
    if (w->depth)
        top[-1].parts = 1;
    w->depth++;
    if (!(node->flags & OUTSIDE)) {
        w->inside = is_inside ? w->inside + 1 : 0;
        w->inside += tag.count;
        if (w->inside > w->limits.inside)
            return PASS;
        if (!is_inside && w->outer) {
            w->overlooked = 1; /* the undivided element around it may be incomplete */
        } else if (!is_inside) {
            w->outer = w->depth;
            w->outer_at = (int32_t)(tag_at - base);
            w->overlooked = 0;
        }
        if (node->flags & ~(VALUE | TEXT | SAYS | BLANK | OPEN | GUESSED | LEAF | INTO | ITEM | RAW)
            && (status = begin(w, node, space->uri, tag.local, (int32_t)(tag_at - base))))
            return status;
        if (tag.count && (status = take_attributes(w, node, &tag)))
            return status;
        if (node->flags & RAW && (status = set(w, tree->more[node->more].raw, (int32_t)(tag_at - base), 0)))
            return status;
    } else if (node->flags & ~OUTSIDE || w->given) {
        if (node->flags & COUNTS)
            count_anew(w);
        if (node->flags & UNDECLARED && base == w->data
            && (status = count_name(w, number, 0, space->uri, tag.local)))
            return status;
        if ((status = begin_around(w, node, &tag, (int32_t)(tag_at - base), base == w->data)))
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

/* Read the comment or the CDATA section that begins here. */
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

/* Read the processing instruction that begins here. Of the reserved targets, two are accepted. */
static int instruction(Walk *w, const uint8_t **at)
{
    const uint8_t *name = *at + 2, *end = w->end, *here = name;
    while (here < end && classes[*here] & PART_OF_NAME)
        here++;
    if (here == end)
        return PART;
    Span target = {name, (int32_t)(here - name)};
    int is_reserved = target.size > 2 && (name[0] | 0x20) == 'x' && (name[1] | 0x20) == 'm' && (name[2] | 0x20) == 'l';
    if (!is_name(name, target.size) || target.size > w->limits.name
        || (is_reserved && !is_text(target, "xml-stylesheet") && !is_text(target, "xml-model")))
        return PASS;
    int odd = 0;
    const uint8_t *stop = is_space(*here) || *here == '?' ? mark_after(here, end, "?>", 2, &odd) : NULL;
    if (!stop || (*here == '?' && stop > here) || stop - here > w->limits.text)
        return PASS;
    if (stop == end)
        return PART;
    *at = stop + 2;
    return DONE;
}

/* Walk over the data inside the elements that the start tags `opened` open, with the ancestor values `said`. */
static int walk(Walk *w, const uint8_t *opened, int64_t size, const Recalled *said, int64_t said_count, const uint8_t *texts,
         int64_t texts_size)
{
    int status;
    for (const uint8_t *at = opened; at < opened + size;) {
        int32_t before = w->depth;
        if (*at != '<' || (status = start_tag(w, &at, opened, opened + size)) || w->depth == before)
            return PASS;
    }
    if ((w->outer && (!w->part || w->cells)) || (w->given && !recall(w, said, said_count, texts, texts_size)))
        return PASS;
    w->outer_at = -1;
    w->kept = w->first = w->depth;
    const uint8_t *at = w->data, *end = w->end;
    for (;;) {
        const uint8_t *begin = at;
        if (at < end && *at != '<') {
            int odd = 0, is_kept = w->depth && w->tree->nodes[w->open[w->depth - 1].node].flags & TEXT;
            if (!is_kept)
                at = skip_space(at, end); /* mostly only white space separates tags */
            if (at < end && *at != '<' && (!w->depth || !(at = text_end(at, end, &odd))))
                return PASS;
            if (at - begin > w->limits.text)
                return PASS;
            if (is_kept && at < end && (status = collect(w, begin, at, CHARACTERS, odd)))
                return status;
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
            status = at[1] == '?' ? instruction(w, &at) : start_tag(w, &at, w->data, end);
        if (status)
            return status;
        w->sound = (int32_t)(at - w->data);
        if (w->part && w->rooted && !w->depth)
            return DONE;
    }
}

static void walk_free(Walk *w)
{
    for (int32_t i = 0; w->rows && i < w->tree->row_count; i++) {
        free(w->rows[i].heads.at);
        free(w->rows[i].cells.at);
    }
    for (int32_t i = 0; i <= DEEPEST; i++)
        free(w->scratch[i].at);
    Buffer *all[] = {&w->side, &w->spaces, &w->faults, &w->seen, &w->buckets, &w->late};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->at);
    free(w->rows);
    free(w->counts);
    free(w->first_cell);
    free(w->missed);
    free(w->marks);
    free(w->order);
    free(w->given);
    free(w->around);
    free(w->counters);
    free(w);
}

static Walk *walk_new(const Tree *tree, const uint8_t *data, int64_t size, int64_t whole, int part)
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
    if (tree->up_count) {
        w->given = calloc((DEEPEST + 1) * (size_t)tree->up_count, sizeof *w->given);
        w->around = calloc((DEEPEST + 1) * (size_t)tree->around_count + 1, sizeof *w->around);
    }
    w->order = calloc((size_t)tree->entry_count + (size_t)tree->table_count + 1, sizeof *w->order);
    w->counters = calloc((DEEPEST + 1) * (size_t)tree->counter_count + 1, sizeof *w->counters);
    if (!w->rows || !w->counts || !w->first_cell || !w->missed || !w->marks || !w->order || !w->counters
        || (tree->up_count && (!w->given || !w->around))) {
        walk_free(w);
        return NULL;
    }
    for (int32_t i = 0, first = 0; i < tree->row_count; first += tree->widths[i++])
        w->first_cell[i] = first;
    for (int32_t i = 0; i < tree->table_count; i++) { /* initially, the declared order */
        const Table *table = tree->tables + i;
        w->order[tree->entry_count + i] = table->first;
        for (int32_t j = 0; j < table->count; j++)
            w->order[table->first + j] = table->first + (j + 1) % table->count;
    }
    return w;
}
