/* The texts and rows that a walk fills. */

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

/* Add a text that is no piece of the split to the side buffer; its offset, counted after the whole split, or -1. */
static int32_t beside(Walk *w, const uint8_t *at, size_t size)
{
    int64_t place = w->whole + (int64_t)w->side.size;
    if (place + (int64_t)size > INT32_MAX || !append(&w->side, at, size))
        return -1;
    return (int32_t)place;
}

/* The complete text of the innermost element: `*at` is its address in the split, or in scratch; returns its size. */
static inline int32_t whole_text(const Walk *w, const Open *top, const uint8_t **at)
{
    if (top->pieces < 2) {
        *at = w->data + top->start;
        return top->size;
    }
    *at = w->scratch[w->depth].at;
    return (int32_t)w->scratch[w->depth].size;
}

/* Add the text of the innermost element to its parent's text. */
static int pass_up(Walk *w, Open *top)
{
    const uint8_t *at;
    int32_t size = whole_text(w, top, &at);
    int is_apart = top->pieces > 1, status = DONE;
    w->depth--;
    if (is_apart && top[-1].pieces < 2) { /* the text is not in the split, so it has no offset */
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

/* True if a text is `*`, with or without white space around it. */
static int is_star(const uint8_t *at, int32_t size)
{
    const uint8_t *end = at + size;
    at = skip_space(at, end);
    return at < end && *at == '*' && skip_space(at + 1, end) == end;
}

/* Rows */

static int fault(Walk *w, int32_t slot)
{
    if (w->row_fault || w->tree->unread[w->first_cell[w->row] + slot])
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

/* Set all slots of a list to one value. */
static RARE int set_each(Walk *w, int32_t list, int32_t start, int32_t size)
{
    const int32_t *slots = w->tree->several - list - 2;
    int status = DONE;
    for (int32_t i = 1; i <= *slots && !status; i++)
        status = set(w, slots[i], start, size);
    return status;
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

/* Append a complete array item, and clear its cells for the next item. */
static int close_item(Walk *w, const Node *node)
{
    const More *more = w->tree->more + node->more;
    Rows *rows = w->rows + more->item;
    int32_t width = w->tree->widths[more->item], *cells = w->cells + 2 * more->first;
    Head head = {w->rows[more->above].count, 0, 0, 0};
    if (!append(&rows->cells, cells, 2 * sizeof(int32_t) * (size_t)width))
        return NO_MEMORY;
    for (int32_t i = 0; i < width; i++)
        cells[2 * i + 1] = -1;
    rows->count++;
    return append(&rows->heads, &head, sizeof head) ? DONE : NO_MEMORY;
}

/* Mark the slots of a node's `below`, or only one of them, as missing because of a namespace if they stay empty. */
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

/* Count an overlooked element or attribute by its name. */
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
