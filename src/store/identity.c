#include "identity.h"

static void key_part(struct buf *key, struct bytes part)
{
    uint64_t n = part.n;

    buf_add(key, &n, sizeof(n));
    buf_add_bytes(key, part);
}

void scope_key(struct buf *key, struct bytes name, struct bytes version, struct bytes schema_url,
               struct bytes attributes)
{
    buf_reset(key);
    key_part(key, name);
    key_part(key, version);
    key_part(key, schema_url);
    buf_add_bytes(key, attributes);
}

void metric_key(struct buf *key, enum metric_type type, enum temporality temporality,
                bool is_monotonic, struct bytes name, struct bytes unit)
{
    buf_reset(key);
    buf_add_char(key, (char)type);
    buf_add_char(key, (char)temporality);
    buf_add_char(key, is_monotonic ? 1 : 0);
    key_part(key, name);
    buf_add_bytes(key, unit);
}

/* Take part, preceded by its length, off the front of key when it stands there. */
static bool take_part(struct bytes *key, struct bytes part)
{
    uint64_t n;

    if (key->n < sizeof(n) || key->n - sizeof(n) < part.n)
        return false;
    memcpy(&n, key->p, sizeof(n));
    if (n != part.n || (part.n > 0 && memcmp(key->p + sizeof(n), part.p, part.n) != 0))
        return false;
    key->p += sizeof(n) + part.n;
    key->n -= sizeof(n) + part.n;
    return true;
}

bool is_scope_key(struct bytes key, const struct batch_scope *s)
{
    return take_part(&key, s->name) && take_part(&key, s->version) &&
           take_part(&key, s->schema_url) && bytes_equal(key, s->attributes);
}

bool is_metric_key(struct bytes key, const struct batch_metric *m)
{
    if (key.n < 3 || key.p[0] != (uint8_t)m->type || key.p[1] != (uint8_t)m->temporality ||
        key.p[2] != (m->is_monotonic ? 1 : 0))
        return false;
    key.p += 3;
    key.n -= 3;
    return take_part(&key, m->name) && bytes_equal(key, m->unit);
}
