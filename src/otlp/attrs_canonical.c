/* attrs_canonical.c -- attribute lists of the message tree become canonical bytes (attrs.h).
 *
 * Two walks: the first measures an upper bound of the size, so that the bytes of a list are one
 * allocation; the second writes. The bound is exact unless a pair is dropped or text is repaired.
 * This runs once per data point: lists that are already sorted are written straight from the tree,
 * others through an array of pairs that is sorted first. */
#include "attrs_canonical.h"

#include <math.h>
#include <stdlib.h>

#include "otlite/attrs.h"

/* Lists up to this length are sorted in an array on the stack. Nested lists recurse, hence small.
 */
enum { FEW_PAIRS = 32 };

static const uint64_t canonical_nan = UINT64_C(0x7ff8000000000000);

struct measure {
    size_t bound;
    bool bad_text; /* some string needs repair */
    bool too_deep;
};

struct pair {
    struct bytes key; /* valid UTF-8, not empty */
    const Otlp__AnyValue *value;
};

struct output {
    uint8_t *p;
    size_t left;
    struct batch *b;
    struct bytes key; /* of the pair being written, for warnings */
    bool bad_text;
    bool failed; /* no memory */
};

static struct bytes pb_bytes(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

bool batch_text(struct batch *b, struct bytes in, struct bytes example, struct bytes *out)
{
    struct buf fixed = {0};
    bool ok;

    if (utf8_valid(in)) {
        *out = in;
        return true;
    }
    utf8_repair(&fixed, in);
    if (fixed.failed)
        b->arena->no_memory = true;
    ok = !fixed.failed && arena_dup(b->arena, buf_bytes(&fixed), out);
    buf_fini(&fixed);
    if (ok)
        batch_warn(b, WARN_UTF8, example.n > 0 ? example : *out);
    return ok;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

/* Saturates: the arena refuses such a size, so no sum can wrap to something small. */
static void measure_add(struct measure *m, size_t n)
{
    m->bound = n > SIZE_MAX - m->bound ? SIZE_MAX : m->bound + n;
}

static void measure_bytes(struct measure *m, size_t n)
{
    measure_add(m, varint_size(n));
    measure_add(m, n);
}

static void measure_text(struct measure *m, ProtobufCBinaryData s)
{
    size_t n = s.len;

    /* U+FFFD takes three bytes and replaces at least one. */
    if (!utf8_valid(pb_bytes(s))) {
        m->bad_text = true;
        n = n > SIZE_MAX / 3 ? SIZE_MAX : n * 3;
    }
    measure_bytes(m, n);
}

/* A container whose members would lie below the last level that readers enter. */
static bool is_too_deep(const Otlp__AnyValue *v, unsigned depth)
{
    return depth >= ATTRS_MAX_DEPTH && (v->value_case == OTLP__ANY_VALUE__VALUE_ARRAY_VALUE ||
                                        v->value_case == OTLP__ANY_VALUE__VALUE_KVLIST_VALUE);
}

static void measure_kvlist(struct measure *m, Otlp__KeyValue *const *kv, size_t n, unsigned depth);

/* depth: 1 for the value of a pair of the outermost list. */
static void measure_value(struct measure *m, const Otlp__AnyValue *v, unsigned depth)
{
    measure_add(m, 1);
    if (v == NULL)
        return;
    if (is_too_deep(v, depth)) {
        m->too_deep = true;
        return;
    }
    switch (v->value_case) {
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        measure_text(m, v->string_value);
        break;
    case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        measure_add(m, 1);
        break;
    case OTLP__ANY_VALUE__VALUE_INT_VALUE:
    case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        measure_add(m, 8);
        break;
    case OTLP__ANY_VALUE__VALUE_BYTES_VALUE:
        measure_bytes(m, v->bytes_value.len);
        break;
    case OTLP__ANY_VALUE__VALUE_ARRAY_VALUE: {
        size_t n = v->array_value == NULL ? 0 : v->array_value->n_values;

        measure_add(m, varint_size(n));
        for (size_t i = 0; i < n; i++)
            measure_value(m, v->array_value->values[i], depth + 1);
        break;
    }
    case OTLP__ANY_VALUE__VALUE_KVLIST_VALUE:
        if (v->kvlist_value == NULL)
            measure_add(m, 1);
        else
            measure_kvlist(m, v->kvlist_value->values, v->kvlist_value->n_values, depth + 1);
        break;
    case OTLP__ANY_VALUE__VALUE__NOT_SET:
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
    default:
        break;
    }
}

static void measure_kvlist(struct measure *m, Otlp__KeyValue *const *kv, size_t n, unsigned depth)
{
    measure_add(m, varint_size(n));
    for (size_t i = 0; i < n; i++) {
        measure_text(m, kv[i]->key);
        measure_value(m, kv[i]->value, depth);
    }
}

/* The space was measured, so a refusal here can only be a fault of ours; it must not become an
 * overflow. */
static void put(struct output *o, const void *p, size_t n)
{
    if (n > o->left) {
        o->failed = true;
        return;
    }
    if (n > 0)
        memcpy(o->p, p, n);
    o->p += n;
    o->left -= n;
}

static void put_byte(struct output *o, uint8_t c)
{
    if (o->left == 0) {
        o->failed = true;
        return;
    }
    *o->p++ = c;
    o->left--;
}

static void put_varint(struct output *o, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_byte(o, (uint8_t)(v | 0x80));
    put_byte(o, (uint8_t)v);
}

static void put_u64(struct output *o, uint64_t v)
{
    uint8_t be[8];

    for (int i = 7; i >= 0; i--, v >>= 8)
        be[i] = (uint8_t)v;
    put(o, be, sizeof(be));
}

static void put_bytes(struct output *o, struct bytes s)
{
    put_varint(o, s.n);
    put(o, s.p, s.n);
}

static void put_double(struct output *o, double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    put_u64(o, isnan(d) ? canonical_nan : bits);
}

static void put_text(struct output *o, struct bytes s)
{
    if (o->bad_text && !batch_text(o->b, s, o->key, &s)) {
        o->failed = true;
        return;
    }
    put_bytes(o, s);
}

static size_t put_kvlist(struct output *o, Otlp__KeyValue *const *kv, size_t n, unsigned depth);

static void put_value(struct output *o, const Otlp__AnyValue *v, unsigned depth)
{
    if (v == NULL || is_too_deep(v, depth)) {
        put_byte(o, ATTR_EMPTY);
        return;
    }
    switch (v->value_case) {
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        put_byte(o, ATTR_STRING);
        put_text(o, pb_bytes(v->string_value));
        break;
    case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        put_byte(o, ATTR_BOOL);
        put_byte(o, v->bool_value != 0);
        break;
    case OTLP__ANY_VALUE__VALUE_INT_VALUE:
        put_byte(o, ATTR_INT);
        put_u64(o, (uint64_t)v->int_value);
        break;
    case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        put_byte(o, ATTR_DOUBLE);
        put_double(o, v->double_value);
        break;
    case OTLP__ANY_VALUE__VALUE_BYTES_VALUE:
        put_byte(o, ATTR_BYTES);
        put_bytes(o, pb_bytes(v->bytes_value));
        break;
    case OTLP__ANY_VALUE__VALUE_ARRAY_VALUE: {
        size_t n = v->array_value == NULL ? 0 : v->array_value->n_values;

        put_byte(o, ATTR_ARRAY);
        put_varint(o, n);
        for (size_t i = 0; i < n; i++)
            put_value(o, v->array_value->values[i], depth + 1);
        break;
    }
    case OTLP__ANY_VALUE__VALUE_KVLIST_VALUE:
        put_byte(o, ATTR_KVLIST);
        if (v->kvlist_value == NULL)
            put_varint(o, 0);
        else
            (void)put_kvlist(o, v->kvlist_value->values, v->kvlist_value->n_values, depth + 1);
        break;
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
        /* An index into a dictionary that metrics do not have: the value is empty (M-14). */
        batch_warn(o->b, WARN_STRINDEX, o->key);
        put_byte(o, ATTR_EMPTY);
        break;
    case OTLP__ANY_VALUE__VALUE__NOT_SET:
    default:
        put_byte(o, ATTR_EMPTY);
        break;
    }
}

static void put_pair(struct output *o, struct bytes key, const Otlp__AnyValue *v, unsigned depth)
{
    struct bytes outer = o->key;

    o->key = key;
    put_bytes(o, key);
    put_value(o, v, depth);
    o->key = outer;
}

/* Keys not empty, strictly ascending, without index fields: nothing to sort, drop or warn about. */
static bool is_canonical_order(Otlp__KeyValue *const *kv, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kv[i]->key.len == 0 || kv[i]->key_strindex != 0)
            return false;
        if (i > 0 && bytes_compare(pb_bytes(kv[i - 1]->key), pb_bytes(kv[i]->key)) >= 0)
            return false;
    }
    return true;
}

/* The pairs that count, in the order they came; returns how many. */
static size_t collect(struct output *o, Otlp__KeyValue *const *kv, size_t n, struct pair *pairs)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct bytes key = pb_bytes(kv[i]->key);

        if (o->bad_text && !batch_text(o->b, key, bytes_of(NULL, 0), &key)) {
            o->failed = true;
            return 0;
        }
        if (kv[i]->key_strindex != 0)
            batch_warn(o->b, WARN_STRINDEX, key);
        if (key.n == 0) {
            if (kv[i]->key_strindex == 0)
                batch_warn(o->b, WARN_EMPTY_KEY, o->key);
            continue;
        }
        pairs[kept++] = (struct pair){key, kv[i]->value};
    }
    return kept;
}

static void sort_few(struct pair *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct pair x = v[i];
        size_t j = i;

        for (; j > 0 && bytes_compare(v[j - 1].key, x.key) > 0; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

static void merge(const struct pair *from, struct pair *to, size_t a, size_t mid, size_t end)
{
    size_t i = a, j = mid;

    for (size_t k = a; k < end; k++) {
        /* The left one on a tie keeps the order of equal keys. */
        if (i < mid && (j == end || bytes_compare(from[i].key, from[j].key) <= 0))
            to[k] = from[i++];
        else
            to[k] = from[j++];
    }
}

/* Stable merge sort from the bottom up; gives the one of v and spare that holds the result. */
static struct pair *sort_many(struct pair *v, struct pair *spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        struct pair *t = v;

        for (size_t a = 0; a < n; a += 2 * width) {
            size_t mid = n - a < width ? n : a + width;
            size_t end = n - mid < width ? n : mid + width;

            merge(v, spare, a, mid, end);
        }
        v = spare;
        spare = t;
    }
    return v;
}

/* Sorted pairs; of equal keys the last one stays (M-7). Returns how many are left. */
static size_t drop_duplicates(struct output *o, struct pair *v, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && bytes_equal(v[i].key, v[i + 1].key))
            batch_warn(o->b, WARN_DUPLICATE_KEY, v[i].key);
        else
            v[kept++] = v[i];
    }
    return kept;
}

/* kv through an array of pairs with room for n, or 2 n when n > FEW_PAIRS. */
static size_t put_sorted(struct output *o, Otlp__KeyValue *const *kv, size_t n, struct pair *pairs,
                         unsigned depth)
{
    size_t kept = collect(o, kv, n, pairs);

    if (n <= FEW_PAIRS)
        sort_few(pairs, kept);
    else
        pairs = sort_many(pairs, pairs + n, kept);
    kept = drop_duplicates(o, pairs, kept);
    put_varint(o, kept);
    for (size_t i = 0; i < kept && !o->failed; i++)
        put_pair(o, pairs[i].key, pairs[i].value, depth);
    return kept;
}

/* Apart from put_kvlist, so that only lists which need it pay for the array on the stack. */
static __attribute__((noinline)) size_t put_sorted_few(struct output *o, Otlp__KeyValue *const *kv,
                                                       size_t n, unsigned depth)
{
    struct pair pairs[FEW_PAIRS];

    return put_sorted(o, kv, n, pairs, depth);
}

/* The array is scratch and may be large: from malloc, since the arena keeps what it gives until the
 * request ends. Its size is bounded by the tree's own pairs, which are larger and in the arena. */
static size_t put_sorted_many(struct output *o, Otlp__KeyValue *const *kv, size_t n, unsigned depth)
{
    struct pair *pairs = n > SIZE_MAX / 2 ? NULL : reallocarray(NULL, 2 * n, sizeof(*pairs));
    size_t kept;

    if (pairs == NULL) {
        o->b->arena->no_memory = true;
        o->failed = true;
        return 0;
    }
    kept = put_sorted(o, kv, n, pairs, depth);
    free(pairs);
    return kept;
}

/* Returns the number of pairs written. */
static size_t put_kvlist(struct output *o, Otlp__KeyValue *const *kv, size_t n, unsigned depth)
{
    if (o->failed)
        return 0;
    if (o->bad_text || !is_canonical_order(kv, n))
        return n <= FEW_PAIRS ? put_sorted_few(o, kv, n, depth) : put_sorted_many(o, kv, n, depth);
    put_varint(o, n);
    for (size_t i = 0; i < n; i++)
        put_pair(o, pb_bytes(kv[i]->key), kv[i]->value, depth);
    return n;
}

static bool build(const struct measure *m, Otlp__KeyValue *const *kv, size_t n, struct batch *b,
                  struct bytes *out, size_t *out_count)
{
    struct output o = {.left = m->bound, .b = b, .bad_text = m->bad_text};
    uint8_t *p = arena_alloc(b->arena, m->bound);
    size_t count;

    if (p == NULL)
        return false;
    o.p = p;
    count = put_kvlist(&o, kv, n, 1);
    if (o.failed)
        return false;
    *out = bytes_of(p, m->bound - o.left);
    *out_count = count;
    return true;
}

static void set_empty(struct bytes *out)
{
    static const uint8_t none = 0;

    *out = bytes_of(&none, 1);
}

bool attrs_canonical(Otlp__KeyValue *const *kv, size_t n, struct batch *b, struct bytes *out,
                     size_t *out_count)
{
    struct measure m = {0};

    if (n == 0) {
        set_empty(out);
        *out_count = 0;
        return true;
    }
    measure_kvlist(&m, kv, n, 1);
    return build(&m, kv, n, b, out, out_count);
}

enum canonical_result attrs_canonical_capped(Otlp__KeyValue *const *kv, size_t n, size_t max_pairs,
                                             size_t max_bytes, struct batch *b, struct bytes *out)
{
    struct measure m = {0};
    size_t count;

    if (n == 0) {
        set_empty(out);
        return CANONICAL_OK;
    }
    /* Duplicates and empty keys do not count, but a list that is many times over is not worth
     * sorting to find out. */
    if (n / 4 > max_pairs)
        return CANONICAL_REFUSED;
    measure_kvlist(&m, kv, n, 1);
    if (m.too_deep || m.bound / 4 > max_bytes)
        return CANONICAL_REFUSED;
    if (!build(&m, kv, n, b, out, &count))
        return CANONICAL_NO_MEMORY;
    if (count > max_pairs || out->n > max_bytes)
        return CANONICAL_REFUSED;
    return CANONICAL_OK;
}
