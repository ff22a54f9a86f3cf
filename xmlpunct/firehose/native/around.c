/* Ancestor values of tuples: attributes of the elements around them, and values in children that ended before them.
 * `ancestors.py` does the same for libxml2. */

/* The state of an ancestor value in the open element at a depth. */
static inline Given *given_at(const Walk *w, int32_t depth, int32_t up)
{
    return w->given + (int64_t)depth * w->tree->up_count + up;
}

static inline Cell *around_at(const Walk *w, int32_t depth)
{
    return w->around + (int64_t)depth * w->tree->around_count;
}

/* Store an attribute of an element as an ancestor value; in the side buffer if the split does not hold it literally. */
static int take_around(Walk *w, const Node *node, const Attribute *found, int is_inside)
{
    const Tree *tree = w->tree;
    int32_t number = find(tree, tree->tables + node->attributes, found->head, found->local.at, found->local.size);
    int32_t place = number < 0 ? -1 : tree->targets[(int64_t)number * (tree->space_count + 2) + found->number];
    if (place < 0)
        return DONE;
    Cell *cell = around_at(w, w->depth - 1) + place;
    cell->size = found->value.size;
    if (is_inside && !found->odd) {
        cell->start = (int32_t)(found->value.at - w->data);
        return DONE;
    }
    Buffer *scratch = w->scratch + w->depth;
    scratch->size = 0;
    if (!resolve(scratch, found->value.at, found->value.at + found->value.size, QUOTED))
        return NO_MEMORY;
    cell->size = (int32_t)scratch->size;
    cell->start = beside(w, scratch->at, scratch->size);
    return cell->start < 0 || cell->size > w->limits.text ? PASS : DONE;
}

/* Store a value of the innermost element in the element `says.hops` above, which takes it. */
static void keep(Walk *w, Says says, Cell cell)
{
    Given *given = says.hops > w->depth ? NULL : given_at(w, w->depth - says.hops, says.up);
    if (given && given->found < 2)
        given->own[given->found++] = cell;
}

/* Handle the beginning, at offset `at`, of an element outside of tuples. */
static RARE int begin_around(Walk *w, const Node *node, const Tag *tag, int32_t at, int is_inside)
{
    const Tree *tree = w->tree;
    if (node->flags & WRONG)
        return PASS;
    if (node->flags & KEPT && !w->outer) {
        w->outer = w->depth;
        w->outer_at = at;
        w->overlooked = 0;
    }
    if (!w->given)
        return DONE;
    int32_t depth = w->depth - 1;
    static const Given nothing = {.read = NEVER};
    for (int32_t i = 0; i < tree->up_count; i++)
        *given_at(w, depth, i) = nothing;
    for (int32_t i = 0; i < tree->around_count; i++)
        around_at(w, depth)[i].size = -1;
    w->holds[depth] = 0;
    for (int32_t i = 0; i < tag->count; i++) {
        int status = w->attributes[i].declares ? DONE : take_around(w, node, w->attributes + i, is_inside);
        if (status)
            return status;
    }
    for (int32_t i = 0; node->flags & SAID && i < node->below_count; i++) {
        Says says = tree->says[node->below + i];
        const Up *up = tree->ups + says.up;
        if (says.hops == up->hops && up->around >= 0 && around_at(w, depth)[up->around].size >= 0)
            keep(w, says, around_at(w, depth)[up->around]);
    }
    return DONE;
}

/* Handle the end of an element outside of tuples: its values become available to tuples that follow. */
static RARE int end_around(Walk *w, const Node *node, int32_t end)
{
    const Tree *tree = w->tree;
    const Open *top = w->open + w->depth - 1;
    Cell text = {top->start, top->size};
    if (top->pieces > 1) {
        const Buffer *scratch = w->scratch + w->depth;
        text.size = (int32_t)scratch->size;
        text.start = beside(w, scratch->at, scratch->size);
        if (text.start < 0)
            return PASS;
    }
    for (int32_t i = 0; i < node->below_count; i++) {
        Says says = tree->says[node->below + i];
        const Up *up = tree->ups + says.up;
        if (says.hops == up->hops && up->around < 0)
            keep(w, says, text);
    }
    for (int32_t i = 0; w->depth > 1 && !w->holds[w->depth - 1] && i < node->below_count; i++) {
        Says says = tree->says[node->below + i];
        const Up *up = tree->ups + says.up;
        const Given *mine = given_at(w, w->depth - 1, says.up);
        Given *above = given_at(w, w->depth - 2, says.up);
        if (says.hops > 1 || !mine->found)
            continue;
        if (above->read != NEVER && !(up->needed && !above->count)) {
            Late late = {up->kind, up->slot, (int32_t)(top->tag.at - w->data), end};
            w->overlooked = 1; /* it is in an element that may be incomplete */
            if (!append(&w->late, &late, sizeof late))
                return NO_MEMORY;
        }
        for (int32_t j = 0; j < mine->found && above->count < 2; j++)
            above->texts[above->count++] = mine->own[j];
    }
    return DONE;
}

/* Set the ancestor values of a tuple that begins. */
static RARE int inherit(Walk *w, int32_t kind, int32_t at)
{
    for (int32_t depth = w->depth - 2; depth >= 0 && !w->holds[depth]; depth--)
        w->holds[depth] = 1;
    for (int32_t i = 0; i < w->tree->up_count; i++) {
        const Up *up = w->tree->ups + i;
        int32_t depth = w->depth - 1 - up->levels;
        if (up->kind != kind || depth < 0)
            continue;
        if (!up->hops) {
            Cell cell = around_at(w, depth)[up->around];
            int status = cell.size < 0 ? DONE : set(w, up->slot, cell.start, cell.size);
            if (status)
                return status;
            continue;
        }
        Given *given = given_at(w, depth, i);
        if (at < given->read)
            given->read = at;
        for (int32_t j = 0; j < given->count; j++) {
            int status = set(w, up->slot, given->texts[j].start, given->texts[j].size);
            if (status)
                return status;
        }
    }
    return DONE;
}

/* Restore the ancestor values of the initially open elements; 0 if they are invalid, or without memory. */
static RARE int recall(Walk *w, const Recalled *said, int64_t count, const uint8_t *texts, int64_t size)
{
    int32_t place = count ? beside(w, texts, (size_t)size) : 0;
    for (int64_t i = 0; i < count; i++, said++) {
        if (place < 0 || said->depth < 0 || said->depth >= w->depth || said->up < 0 || said->up >= w->tree->up_count
            || said->count < 0 || said->count > 2)
            return 0;
        Given *given = given_at(w, said->depth, said->up);
        given->count = said->count;
        given->read = said->read ? -1 : NEVER;
        w->holds[said->depth] |= said->read;
        for (int32_t j = 0; j < said->count; j++) {
            Cell cell = said->texts[j];
            if (cell.start < 0 || cell.size < 0 || cell.start + (int64_t)cell.size > size)
                return 0;
            given->texts[j].start = place + cell.start;
            given->texts[j].size = cell.size;
        }
    }
    return 1;
}
